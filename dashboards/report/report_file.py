"""Writing of a specialist's report to a file in the workspace."""

from collections.abc import Mapping
from pathlib import Path

from pyarrow.lib import ArrowException

from curriculum.pipeline.context import Resources
from curriculum.pipeline.notifiers import Log
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.whole_files import write_whole
from dashboards.commit_links import repository_urls
from dashboards.html import escaped
from dashboards.report.facts import REPORTS, MarkedArtefacts, read, report_name, report_path
from dashboards.report.page import page
from dashboards.rows import write as rows
from dashboards.rows.write import ExampleRow, example
from schemas.errors import CurriculumError


def write(plan: RunPlan, resources: Resources, log: Log, folder: Path | None = None) -> Path:
    """Write the report of a plan's specialist atomically, by default to the workspace's folder of reports.

    Also write a page for each rows artefact. Pages that can't be written, and artefacts that are missing or
    damaged, are left out and logged.

    Raises:
        CurriculumError: If the corpus can't be read.
        OSError: If the report can't be written.
    """
    folder = folder or plan.store.root / REPORTS
    marked = MarkedArtefacts.of(plan)
    urls = repository_urls([plan.corpus])
    examples = _examples(plan.store.root, marked, folder, urls, log)
    facts = read(plan, resources, marked, examples)
    for lost in facts.lost:
        log(f"not in the report: {lost}")
    text = page(facts)
    file = folder / report_name(plan.diet.specialist, plan.diet.branch)
    file.parent.mkdir(exist_ok=True)
    write_whole(file, text)
    return file


def _examples(
    root: Path, marked: MarkedArtefacts, folder: Path, urls: Mapping[str, str], log: Log
) -> dict[str, ExampleRow]:
    """Write the pages of rows that are missing, and return one example row per rows artefact, by its key."""
    found: dict[str, ExampleRow] = {}
    for artefact, made_of in marked.rows():
        try:
            one = example(artefact) if rows.write(root, artefact, made_of, folder, urls) else None
        except (CurriculumError, OSError, ArrowException) as failed:
            log(f"the page of rows {artefact.key[:KEY_DIGITS]} isn't written: {failed}")
            continue
        if one is not None:
            found[artefact.key] = one
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
