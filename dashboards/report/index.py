"""List of all reports, with the state of each specialist and the date of its report."""

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum.catalog.tables import written_status
from curriculum.inspection.formats import moment
from curriculum.pipeline.attempts import names_of
from curriculum.pipeline.context import Resources
from curriculum.pipeline.status import State
from curriculum.pipeline.status_table import current_status
from dashboards import html, palette
from dashboards.report import files
from dashboards.report.facts import REPORTS, report_name
from schemas.errors import CurriculumError
from schemas.specialist import SpecialistRef, format_reference

_WRITTEN = re.compile(r'<time datetime="([0-9T:+.Z-]{10,40})">')


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportEntry:
    """An entry of the list: a specialist with or without a report, or a report without a specialist."""

    name: str
    file: str = ""
    """File name of the report; empty if none was written."""
    written: str = ""
    """Date in the report; empty if it has none."""
    phases: str = ""
    """Numbers of finished phases and of all phases."""
    state: str = ""
    """State of the first unfinished phase, in words."""
    look: str = ""
    """CSS class of the state."""
    cure: str = ""
    """Command that writes the report."""


def page(home: Path, resources: Resources, *, overview: str = "") -> str:
    """Return the page that lists the reports of a workspace.

    `overview` is the address of the overview page; empty if there is no such page.
    """
    style = palette.properties() + html.asset("lists.css")
    listed = list(entries(home, resources))
    return html.page(
        "reports.html", style=style, title="Reports", entries=listed, overview=overview
    )


def entries(home: Path, resources: Resources) -> Iterator[ReportEntry]:
    """Yield the specialists of the workspace, then the reports of specialists that it doesn't have."""
    folder = home / REPORTS
    names = files.names(folder)
    others = dict.fromkeys(names)
    for ref, phases in _statuses(home, resources).items():
        file = report_name(*ref)
        others.pop(file, None)
        has_report = file in names
        done = sum(state == "done" for _, state in phases)
        state, look = _state(phases)
        yield ReportEntry(
            name=format_reference(ref),
            file=file if has_report else "",
            written=_written(folder, file) if has_report else "",
            phases=f"{done} of {len(phases)}",
            state=state,
            look=look,
            cure=f"curriculum report {max(names_of(ref), key=lambda name: '.' in name)}",
        )
    for file in others:
        yield ReportEntry(
            name=file.removesuffix(".html"),
            file=file,
            written=_written(folder, file),
            state="no specialist of this workspace",
        )


def _statuses(home: Path, resources: Resources) -> dict[SpecialistRef, list[tuple[str, State]]]:
    """Return the phases of each specialist with their states.

    The states are computed; if that fails, the saved ones are returned.
    """
    try:
        computed = current_status(home, resources)
    except CurriculumError:
        computed = None
    table = written_status(home).tables["status"] if computed is None else computed
    found: dict[SpecialistRef, list[tuple[str, State]]] = {}
    for line in table.to_pylist():
        ref = SpecialistRef.parse(line["specialist"])
        found.setdefault(ref, []).append((line["phase"], line["state"]))
    return found


def _state(phases: Sequence[tuple[str, State]]) -> tuple[str, State]:
    """Return the state of the first unfinished phase, in words and as a CSS class.

    >>> _state([("syntax", "done"), ("graph", "running")])
    ('graph is running', 'running')
    """
    phase, state = next((entry for entry in phases if entry[1] != "done"), ("", "done"))
    if not phase:
        return ("done" if phases else ""), "done"
    words: dict[State, str] = {
        "missing": "is next",
        "waiting": "is waiting",
        "failed": "failed",
        "interrupted": "was interrupted",
        "holds": "is stopped at its gate",
    }
    return f"{phase} {words.get(state, f'is {state}')}", state


def _written(folder: Path, file: str) -> str:
    """Return the date that a report contains; empty if it has none."""
    found = _WRITTEN.search(files.page(folder, file) or "")
    try:
        return moment(datetime.datetime.fromisoformat(found[1]).isoformat()) if found else ""
    except ValueError:
        return ""
