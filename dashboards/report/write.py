"""A specialist's report as a file of the workspace, and the page that lists all reports."""

from collections.abc import Sequence
from pathlib import Path

from pyarrow.lib import ArrowException

from curriculum.pipeline.context import Resources
from curriculum.pipeline.notifiers import Log
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import replace_whole
from dashboards import html, palette
from dashboards.html import escaped
from dashboards.report.facts import read, report_path, rows_of
from dashboards.report.page import page
from dashboards.rows import write as rows
from dashboards.rows.write import Example, example
from schemas.errors import CurriculumError


def index(names: Sequence[str]) -> str:
    """The page that lists reports, with a link to each of the files of these names, which need no quoting."""
    style = palette.properties() + html.asset("reports.css")
    return html.page("reports.html", style=style, title="Reports", names=names)


def write(plan: RunPlan, resources: Resources, say: Log) -> Path:
    """Write the report of a plan from its workspace; a reader never sees half of one.

    Beside it lie pages of its rows, each written once. One that can't be is told to `say`, and not linked.

    Raises:
        CurriculumError: for a corpus that can't be looked at, or an artefact that isn't what its manifest
            says.
        OSError: where the file can't be written.
    """
    text = page(read(plan, resources, _examples(plan, say)))
    file = report_path(plan.store.root, plan.diet.specialist, plan.diet.branch)
    file.parent.mkdir(exist_ok=True)
    replace_whole(file, lambda draft: draft.write_text(text, encoding="utf-8"))
    return file


def _examples(plan: RunPlan, say: Log) -> dict[str, Example]:
    """A row to look at of each rows artefact, by key; its page is written where it isn't yet."""
    found: dict[str, Example] = {}
    for each, made_of in rows_of(plan):
        try:
            one = example(each) if rows.write(plan.store.root, each, made_of) else None
        except (CurriculumError, OSError, ArrowException) as failed:
            say(f"the page of rows {each.key[:KEY_DIGITS]} isn't written: {failed}")
            continue
        if one is not None:
            found[each.key] = one
    return found


def rewritten(plan: RunPlan, resources: Resources, say: Log) -> Path | None:
    """The report, written anew; None where that fails, which `say` is told and no run is stopped by."""
    try:
        return write(plan, resources, say)
    except (CurriculumError, OSError) as failed:
        say(f"the report of {plan.diet.specialist} isn't written: {failed}")
        return None


def shows(plan: RunPlan, run: Artefact) -> bool:
    """Return True where the report names a finished run: one that does was written after the run's end."""
    file = report_path(plan.store.root, plan.diet.specialist, plan.diet.branch)
    named = f">{escaped(run.path.relative_to(plan.store.root).as_posix())}<"
    return file.is_file() and named in file.read_text(encoding="utf-8")
