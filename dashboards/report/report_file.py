"""Writing of a specialist's report to a file in the workspace, unless the report is up to date."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pyarrow.lib import ArrowException

import curriculum
import dashboards
import schemas
from curriculum.pipeline.context import Resources
from curriculum.pipeline.notifiers import Log
from curriculum.pipeline.plan import RunPlan
from curriculum.published_files import Identity, identity_of
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.whole_files import write_whole
from dashboards.commit_links import repository_urls
from dashboards.html import escaped
from dashboards.page_digest import digest_line, ends_with
from dashboards.report.facts import (
    REPORTS,
    Facts,
    MarkedArtefacts,
    read,
    report_name,
    report_path,
)
from dashboards.report.page import page
from dashboards.report.report_tables import with_tables
from dashboards.rows import write as rows
from dashboards.rows.write import ExampleRow, example
from schemas.errors import CurriculumError


def write(plan: RunPlan, resources: Resources, log: Log, folder: Path | None = None) -> Path:
    """Write the report of a plan's specialist, by default to the workspace's folder of reports.

    The file is replaced atomically, and only if its inputs have changed since it was written. Also write a
    page for each rows artefact. Pages that can't be written, and artefacts that are missing or damaged, are
    left out and logged.

    Raises:
        CurriculumError: If the corpus can't be read.
        OSError: If the report can't be written.
    """
    folder = folder or plan.store.root / REPORTS
    marked = MarkedArtefacts.of(plan)
    pages = _rows_pages(plan, marked, folder, log)
    facts = read(plan, resources, marked)
    for lost in facts.lost:
        log(f"not in the report: {lost}")
    file = folder / report_name(plan.diet.specialist, plan.diet.branch)
    line = _digest_line(facts, marked, pages)
    if not ends_with(file, line):
        text = page(with_tables(facts, marked, _examples(pages, log)))
        file.parent.mkdir(exist_ok=True)
        write_whole(file, text + line)
    return file


def _digest_line(facts: Facts, marked: MarkedArtefacts, pages: Mapping[str, Artefact]) -> str:
    """Return the last line of a report: a digest of everything that the report is made from.

    This is our code, the facts, the files of the artefacts, and the pages of rows. The time of writing counts
    only if some attempt has no end yet, because the timeline then shows the attempt up to that time.
    """
    is_open = any(phase.started and not phase.ended for phase in facts.phases)
    packages = (Path(package.__path__[0]) for package in (curriculum, dashboards, schemas))
    return digest_line(
        facts if is_open else replace(facts, written=""),
        [(str(folder), *_identities(folder)) for folder in (*packages, *marked.folders)],
        [*pages],
    )


def _identities(top: Path) -> Iterator[tuple[str, Identity]]:
    """Yield the path and the identity of each file below a folder, without compiled Python files."""
    for folder, folders, names in os.walk(top):
        folders.sort()
        for name in sorted(names):
            if not name.endswith(".pyc"):
                file = Path(folder, name)
                yield str(file), identity_of(file.lstat())


def _rows_pages(
    plan: RunPlan, marked: MarkedArtefacts, folder: Path, log: Log
) -> dict[str, Artefact]:
    """Write the missing pages of rows, and return the rows artefacts that have a page, by their key."""
    urls = repository_urls([plan.corpus])
    found: dict[str, Artefact] = {}
    for artefact, made_of in marked.rows():
        try:
            file = rows.write(plan.store.root, artefact, made_of, folder, urls)
        except (CurriculumError, OSError, ArrowException) as failed:
            log(f"the page of rows {artefact.key[:KEY_DIGITS]} isn't written: {failed}")
            continue
        if file is not None:
            found[artefact.key] = artefact
    return found


def _examples(pages: Mapping[str, Artefact], log: Log) -> dict[str, ExampleRow]:
    """Return one example row per rows artefact, by its key; damaged artefacts are left out and logged."""
    found: dict[str, ExampleRow] = {}
    for key, artefact in pages.items():
        try:
            row = example(artefact)
        except (CurriculumError, OSError, ArrowException) as failed:
            log(f"the rows {key[:KEY_DIGITS]} have no example in the report: {failed}")
            continue
        if row is not None:
            found[key] = row
    return found


def rewritten(plan: RunPlan, resources: Resources, log: Log) -> Path | None:
    """Write the report and return its path; if that fails, log the error and return None."""
    try:
        return write(plan, resources, log)
    except (CurriculumError, OSError) as failed:
        log(f"the report of {plan.diet.specialist} isn't written: {failed}")
        return None


def shows(plan: RunPlan, run: Artefact) -> bool:
    """Return True if the report names a finished run, so that it must have been written after its end."""
    file = report_path(plan.store.root, plan.diet.specialist, plan.diet.branch)
    named = f">{escaped(run.path.relative_to(plan.store.root).as_posix())}<"
    return file.is_file() and named in file.read_text(encoding="utf-8")
