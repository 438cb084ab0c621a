"""The report as an HTML page that sends no requests and is readable without its script."""

from collections import Counter
from dataclasses import dataclass
from typing import get_args

from curriculum.corpus.skips import Unreadable
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
from curriculum.inspection.losses import Exclusions, ranked
from curriculum.inspection.run_tables import figure_lines, set_lines
from dashboards import durations, html, palette, run_settings
from dashboards.charts import marks
from dashboards.report import costs, curves, phases, step_curves
from dashboards.report.attention import attention_entries
from dashboards.report.facts import Facts, mean_of
from dashboards.training_view import MAX_WEIGHT, TrainingView
from schemas.spdx import licence_kind
from schemas.specialist import format_reference
from schemas.study import study_mark

STYLES, SCRIPT = ("scroll.css", "plot.css", "settings.css", "report.css"), "report.js"
MAX_LICENCES = 12
"""Maximum number of licences in the table."""
MAX_REASONS = 8
"""Maximum number of reasons per group."""


def page(facts: Facts) -> str:
    """Return the report of a specialist as HTML."""
    plot, steps = curves.plot_of(facts), _steps(facts)
    jobs, axes = facts.trained_jobs, step_curves.axis_data(steps)
    colours = (
        palette.family_style() + palette.document_style() + palette.phase_style(len(facts.phases))
    )
    return html.page(
        "report.html",
        style=palette.properties() + colours + "".join(map(html.asset, STYLES)),
        script=html.asset(SCRIPT),
        data=html.data({**curves.data(plot), "axes": axes}),
        title=format_reference((facts.specialist, facts.branch)),
        facts=facts,
        numbers=_numbers(facts),
        is_priced=any(report.cost for phase in facts.phases for report in phase.spent),
        plot=plot,
        made_of=_made_of(facts),
        models=run_settings.model_words(job.model for job, _ in jobs.values()),
        settings=run_settings.setting_table([*jobs.values()]),
        setting_titles=[*jobs],
        loss=step_curves.loss_chart(steps),
        axes=axes,
        view=TrainingView(),
        max_weight=MAX_WEIGHT,
        learning_rate=step_curves.learning_rate_chart(steps),
        files=facts.largest_files,
        attention=attention_entries(facts),
        durations=durations.DEFINITION,
        losses=_losses(facts.exclusions),
        licences=_licences(facts.exclusions),
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


def _steps(facts: Facts) -> list[step_curves.PhaseSteps]:
    """Return the step curves of the finished phases, each with the number of steps before it."""
    found: list[step_curves.PhaseSteps] = []
    first = 0
    for phase in facts.phases:
        if phase.report is not None and phase.report.steps:
            steps = phase.report.steps
            found.append(
                step_curves.PhaseSteps(
                    name=phase.name, first=first, steps=steps, points=phase.points
                )
            )
            first += steps
    return found


def _made_of(facts: Facts) -> list[str]:
    """Describe the specialist: the studies of its runs, the corpus, tokenizer, model and token budget."""
    tokenizer = facts.tokenizer
    studies = dict.fromkeys(study_mark(phase.status.study) for phase in facts.phases)
    return [
        *filter(None, studies),
        f"corpus {facts.corpus}",
        "tokenizer of the corpus" if tokenizer == "corpus" else f"tokenizer {tokenizer}",
        f"model {facts.model}",
        f"{count(facts.token_budget)} tokens",
    ]


def _numbers(facts: Facts) -> list[tuple[str, str, str]]:
    """Return the key figures, each as its name, the figure and a note."""
    done = [phase for phase in facts.phases if phase.status.state == "done"]
    latest = max((phase.ended for phase in facts.phases if phase.ended), default="")
    reports = [phase.report for phase in facts.phases if phase.report is not None]
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
            f"last finished {moment(latest)}" if latest else "no phase has been trained yet",
        ),
        ("val_bpb of the anchor", bits(last.val_bpb) if last else "–", fall),
        (
            "training tokens",
            count(trained_on),
            f"{percent(trained_on / facts.token_budget)} of {count(facts.token_budget)}",
        ),
        ("training time", *_training(facts)),
    ]


def _training(facts: Facts) -> tuple[str, str]:
    """Return the training time and the cost of all attempts together, in words."""
    reports = [report for phase in facts.phases for report in phase.spent]
    seconds = sum(report.seconds for report in reports)
    gpu_seconds = sum(report.gpu_seconds for report in reports)
    cost = sum(report.cost for report in reports if report.cost is not None)
    if gpu_seconds:
        paid = f", cost {money(cost)}" if cost else ""
        return gpu_hours(gpu_seconds), f"{duration(seconds)} of training steps{paid}"
    return duration(seconds) if seconds else "–", "without GPUs"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reasons:
    """Reasons why changes or documents of one kind were excluded, with their counts, most frequent first."""

    look: str
    title: str
    counted: tuple[tuple[str, int], ...]


def _licences(found: Exclusions) -> list[tuple[str, str, int]]:
    """Return each licence with its kind and number of documents, most frequent first.

    Rare licences are summed by kind.
    """
    counts = Counter(found.licences).most_common()
    listed = [(name, licence_kind(name), amount) for name, amount in counts]
    rest = Counter[str]()
    for _, kind, amount in listed[MAX_LICENCES:]:
        rest[kind] += amount
    more = [(f"other {kind} licences", kind, amount) for kind, amount in rest.most_common()]
    return [*listed[:MAX_LICENCES], *more]


def _losses(found: Exclusions) -> list[Reasons]:
    """Return the counts of excluded changes and documents by kind and reason, unreadable changes first."""
    skipped, left_out, rejected = Counter[str](), Counter[str](), Counter[str]()
    for changes in found.changes.values():
        skipped.update(changes.skipped)
    for counted in found.left_out.values():
        left_out.update(counted)
    for _, selection in found.selections:
        rejected.update(selection.rejected)
    lost = {name: skipped.pop(name) for name in get_args(Unreadable) if name in skipped}
    kinds = (
        ("lost", "Unreadable changes", lost),
        ("", "Changes excluded by the corpus", skipped),
        ("", "Changes without a document", left_out),
        ("", "Rejected documents", rejected),
    )
    groups = []
    for look, title, reasons in kinds:
        counts = ranked(reasons)
        shown, rest = counts[:MAX_REASONS], counts[MAX_REASONS:]
        if rest:
            shown.append((f"{len(rest)} other reasons", sum(amount for _, amount in rest)))
        if shown:
            groups.append(Reasons(look=look, title=title, counted=tuple(shown)))
    return groups
