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
from dashboards import palette
from dashboards.html import escaped, policy
from dashboards.report.facts import read, report_path, rows_of
from dashboards.report.page import page
from dashboards.rows import write as rows
from dashboards.rows.write import Example, example
from schemas.errors import CurriculumError

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Reports</title>
<style>
{palette}
body {{ max-width: 720px; margin: 40px auto; padding: 0 28px; background: var(--page); color: var(--ink); \
font: 14px/1.6 var(--sans); }}
a {{ color: inherit; }}
code {{ color: var(--soft); }}
</style>
<h1>Reports</h1>
{body}
"""
_NOTHING = "<p>No report is written yet: <code>curriculum report</code> writes those of all specialists.</p>"


def index(names: Sequence[str]) -> str:
    """The page, with a link to each of the files of these names, which need no quoting."""
    links = "".join(
        f'<li><a href="/{escaped(name)}">{escaped(name.removesuffix(".html"))}</a></li>\n'
        for name in names
    )
    body = f"<ul>\n{links}</ul>" if links else _NOTHING
    page = _PAGE.format(palette=palette.properties(), body=body, policy="{policy}")
    return page.replace("{policy}", policy(page), 1)


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
