"""The report as one page that needs nothing else: no request, no network, readable without its script.

`page` makes HTML of facts; `write` puts it into the workspace, with pages of rows; `index` lists all reports.
"""

from dataclasses import dataclass
from pathlib import Path

from pyarrow.lib import ArrowException

from curriculum.inspection.formats import (
    bits,
    count,
    difference,
    duration,
    gpu_hours,
    moment,
    money,
    percent,
)
from curriculum.inspection.stage_tables import figure_lines, set_lines
from curriculum.pipeline.context import Resources
from curriculum.pipeline.notifiers import Log
from curriculum.pipeline.plan import RunPlan
from curriculum.store import Artefact
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.run_directory import replace_whole
from dashboards import html, palette
from dashboards.charts import marks
from dashboards.html import escaped
from dashboards.report import costs, curves, phases
from dashboards.report.facts import (
    REPORTS,
    Facts,
    Losses,
    mean_of,
    read,
    report_name,
    report_path,
    rows_of,
)
from dashboards.rows import write as rows
from dashboards.rows.write import Example, example
from schemas.errors import CurriculumError
from schemas.specialist import spelled
from schemas.study import study_mark

STYLES, SCRIPT = ("scroll.css", "plot.css", "report.css"), "report.js"
MAX_REASONS = 8
"""Reasons of a group of losses that have a line of their own."""


def page(facts: Facts) -> str:
    """The report as HTML."""
    plot = curves.plot_of(facts)
    colours = (
        palette.family_style() + palette.document_style() + palette.phase_style(len(facts.phases))
    )
    return html.page(
        "report.html",
        style=palette.properties() + colours + "".join(map(html.asset, STYLES)),
        script=html.asset(SCRIPT),
        data=html.data(curves.data(plot)),
        title=spelled((facts.specialist, facts.branch)),
        facts=facts,
        numbers=_numbers(facts),
        is_priced=any(report.cost for each in facts.phases for report in each.spent),
        plot=plot,
        made_of=_made_of(facts),
        losses=_losses(facts.losses),
        time_line=costs.time_line(facts),
        costs=costs.costs(facts),
        marks=marks,
        curves=curves,
        figure_lines=figure_lines,
        set_lines=set_lines,
        mean_of=mean_of,
        palette=palette,
        phases=phases,
    )


def _made_of(facts: Facts) -> list[str]:
    """Studies of its runs, corpus, tokenizer, model and budget."""
    tokenizer = facts.tokenizer
    studies = dict.fromkeys(study_mark(each.status.study) for each in facts.phases)
    return [
        *filter(None, studies),
        f"corpus {facts.corpus}",
        "tokenizer of the corpus" if tokenizer == "corpus" else f"tokenizer {tokenizer}",
        f"model {facts.model}",
        f"{count(facts.token_budget)} tokens",
    ]


def _numbers(facts: Facts) -> list[tuple[str, str, str]]:
    """The figures that come first: a name, a figure and a note each."""
    done = [each for each in facts.phases if each.status.state == "done"]
    latest = max((each.ended for each in facts.phases if each.ended), default="")
    reports = [each.report for each in facts.phases if each.report is not None]
    trained_on = sum(report.tokens.valid for report in reports)
    first = next((mean_of(report.before, curves.ANCHOR) for report in reports), None)
    last = next((mean_of(report.after, curves.ANCHOR) for report in reversed(reports)), None)
    fall = "bits per byte on held-out code"
    if first is not None and last is not None:
        fall = f"from {bits(first.val_bpb)}, {difference(last.val_bpb - first.val_bpb)}"
    return [
        (
            "phases done",
            f"{len(done)} of {len(facts.phases)}",
            f"until {moment(latest)}" if latest else "nothing is trained yet",
        ),
        ("val_bpb of the anchor", bits(last.val_bpb) if last else "–", fall),
        (
            "tokens trained on",
            count(trained_on),
            f"{percent(trained_on / facts.token_budget)} of {count(facts.token_budget)}",
        ),
        ("training", *_training(facts)),
    ]


def _training(facts: Facts) -> tuple[str, str]:
    """Time of all attempts, and their cost."""
    reports = [report for each in facts.phases for report in each.spent]
    seconds = sum(report.seconds for report in reports)
    gpu_seconds = sum(report.gpu_seconds for report in reports)
    cost = sum(report.cost for report in reports if report.cost is not None)
    if gpu_seconds:
        paid = f", cost {money(cost)}" if cost else ""
        return gpu_hours(gpu_seconds), f"took {duration(seconds)}{paid}"
    return duration(seconds) if seconds else "–", "without a GPU"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reasons:
    """Losses of one kind by reason, the most frequent first."""

    look: str
    title: str
    counted: tuple[tuple[str, int], ...]


def _losses(losses: Losses) -> list[Reasons]:
    """Input that was not made a document, and documents that aren't kept; lost data comes first."""
    kinds = (
        ("lost", "Changes that can’t be read", losses.lost),
        ("", "Changes that the corpus leaves out", losses.chosen),
        ("", "Changes that a family makes nothing of", losses.left_out),
        ("", "Documents that aren’t kept", losses.rejected),
    )
    found = []
    for look, title, counted in kinds:
        shown, rest = [*counted[:MAX_REASONS]], counted[MAX_REASONS:]
        if rest:
            shown.append((f"{len(rest)} more reasons", sum(number for _, number in rest)))
        if shown:
            found.append(Reasons(look=look, title=title, counted=tuple(shown)))
    return found


def write(plan: RunPlan, resources: Resources, log: Log, folder: Path | None = None) -> Path:
    """Write the report of a plan into a folder, by default its workspace's; a reader never sees half of one.

    Beside it lie pages of its rows, each written once. One that can't be is logged, and not linked; so is
    an artefact that is gone or damaged, which the report lacks.

    Raises:
        CurriculumError: for a corpus that can't be looked at.
        OSError: where the file can't be written.
    """
    folder = folder or plan.store.root / REPORTS
    facts = read(plan, resources, _examples(plan, folder, log))
    for lost in facts.lost:
        log(f"not in the report: {lost}")
    text = page(facts)
    file = folder / report_name(plan.diet.specialist, plan.diet.branch)
    file.parent.mkdir(exist_ok=True)
    replace_whole(file, lambda draft: draft.write_text(text, encoding="utf-8"))
    return file


def _examples(plan: RunPlan, folder: Path, log: Log) -> dict[str, Example]:
    """A row to look at of each rows artefact, by key; its page is written where it isn't yet."""
    found: dict[str, Example] = {}
    for each, made_of in rows_of(plan):
        try:
            one = example(each) if rows.write(plan.store.root, each, made_of, folder) else None
        except (CurriculumError, OSError, ArrowException) as failed:
            log(f"the page of rows {each.key[:KEY_DIGITS]} isn't written: {failed}")
            continue
        if one is not None:
            found[each.key] = one
    return found


def rewritten(plan: RunPlan, resources: Resources, log: Log) -> Path | None:
    """The report, written anew; None where that fails, which is logged and stops no run."""
    try:
        return write(plan, resources, log)
    except (CurriculumError, OSError) as failed:
        log(f"the report of {plan.diet.specialist} isn't written: {failed}")
        return None


def shows(plan: RunPlan, run: Artefact) -> bool:
    """Return True where the report names a finished run: one that does was written after the run's end."""
    file = report_path(plan.store.root, plan.diet.specialist, plan.diet.branch)
    named = f">{escaped(run.path.relative_to(plan.store.root).as_posix())}<"
    return file.is_file() and named in file.read_text(encoding="utf-8")
