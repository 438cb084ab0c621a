"""Notes on finished runs: a rising val_bpb with its likely cause and cure, and domains that it ignores."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from curriculum.inspection.formats import TOO_FEW, alike, bits, held_out_words, number, paired
from curriculum.inspection.paired import changes_between
from curriculum.inspection.runs import NOT_SURE, mixture_of_run, report_of
from curriculum.inspection.step_metrics import step_losses
from curriculum.packing.held_out_order import ORDER_NAME, read_order
from curriculum.store import Artefact, Store
from curriculum.train.document_sums import PairedChange
from curriculum.train.run_directory import JOB, METRICS, read_job
from schemas.job import ANNEAL, Figure, Report
from schemas.mixture import MixtureReport, StratumReport

OFTEN = 2.5
"""Repetition from which on memorization is named as the cause if val_bpb rises while the training loss
falls.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedRun:
    """A closed run, with the report of its mixture."""

    path: Path
    report: Report
    mixture: MixtureReport | None = None
    """Report of the mixture; None if it was deleted."""


def finished_runs(store: Store, runs: Iterable[Artefact]) -> list[FinishedRun]:
    """Read the reports and mixtures of closed runs."""
    return [
        FinishedRun(path=run.path, report=report_of(run), mixture=mixture_of_run(store, run))
        for run in runs
    ]


def rises(runs: Sequence[FinishedRun]) -> list[str]:
    """Return a note for each run whose val_bpb was higher at its end, in training order.

    The note also says how val_bpb changed in later runs.
    """
    found = [(run.report.phase, rise_words(run, runs[at + 1 :])) for at, run in enumerate(runs)]
    return [f"{phase}: {words}" for phase, words in found if words]


def rise_words(run: FinishedRun, later: Sequence[FinishedRun] = ()) -> str:
    """Describe how the val_bpb of a phase rose, with likely cause and cure; empty if it didn't rise.

    The last evaluation is compared with the one before the first step if it is higher than that, otherwise
    with the best one. A rise from the best one counts only if the interval of the change on the same
    documents excludes 0. `later` are the runs that follow.
    """
    report = run.report
    last = report.own_mean(report.history, "phase")
    means = [
        mean for mean in report.history if last and (mean.set, mean.phase) == (last.set, last.phase)
    ]
    means = [mean for mean in means if mean.step < report.steps]
    if last is None or not means or report.failure is not None:
        return ""
    best, first = min(means, key=lambda mean: mean.val_bpb), means[0]
    since = first if first.step == 0 and last.val_bpb > first.val_bpb else best
    if last.val_bpb <= since.val_bpb:
        return ""
    found = change_between((run.path, since.step), (run.path, report.steps), last)
    is_sure = last.is_sure and found is not None and found.verdict == "higher"
    if not is_sure and since.step:
        return ""
    moment = f"at step {since.step:,}" if since.step else "before its first step"
    rose = f"val_bpb rose from {bits(since.val_bpb)} {moment} to {bits(last.val_bpb)}"
    if not is_sure:
        doubt = NOT_SURE if found is not None and found.count.is_sure else TOO_FEW
        return (
            f"{rose}, on {held_out_words(last)}, {doubt}: raise val_fraction, or add repositories"
        )
    cause, cure = _cause_and_cure(run, since.step)
    outcome, is_settled = _outcome(run, last, since, later)
    return ". ".join(filter(None, (f"{rose}: {cause}", outcome, "" if is_settled else cure)))


def _outcome(
    run: FinishedRun, last: Figure, since: Figure, later: Sequence[FinishedRun]
) -> tuple[str, bool]:
    """Describe how the metric, which had risen from `since` to `last`, ended after the anneal.

    Returns the description, and True if the anneal undid the rise.
    """
    if run.report.phase == ANNEAL:
        return "", False
    annealed = next((run.report for run in later if run.report.phase == ANNEAL), None)
    if annealed is None:
        return "See whether the anneal makes up for it", False
    place = (last.set, last.phase, "*")
    now = next(
        (mean for mean in annealed.after if (mean.set, mean.phase, mean.family) == place), None
    )
    if now is None:
        return "", False
    is_settled = now.val_bpb <= since.val_bpb
    made = "made" if is_settled else "didn't make"
    return f"The anneal {made} up for it: {bits(now.val_bpb)} after it", is_settled


def _cause_and_cure(run: FinishedRun, step: int) -> tuple[str, str]:
    """Return the likely cause of a rise of val_bpb after `step`, and a change that may help."""
    most, loss = _most_read(run), _losses(run.path, step)
    fewer = "Lower token_budget or max_repetition, or add repositories"
    if most is not None and most.repetition >= OFTEN and loss is not None and loss[1] < loss[0]:
        cause = (
            f"likeliest the model learnt rows by heart. Those of {most.family} in {most.domain} were read "
            f"{most.repetition:.1f} times, and the training loss fell from {loss[0]:.2f} to {loss[1]:.2f}"
        )
        return cause, fewer
    if run.report.phase == ANNEAL:
        return "likeliest its rows came too often, since the learning rate fell meanwhile", fewer
    return (
        "likeliest the learning rate, which stays high until the anneal",
        "Lower the phase's portion, or end it by advance_when: {val_bpb: …}",
    )


def _most_read(run: FinishedRun) -> StratumReport | None:
    """Return the stratum with the highest repetition, or None if the mixture was deleted."""
    strata = run.mixture.strata if run.mixture else ()
    return max(strata, key=lambda stratum: stratum.repetition, default=None)


def _losses(run: Path, step: int) -> tuple[float, float] | None:
    """Return the mean training loss in the first and in the last tenth of the steps after `step`, or None."""
    found = zip(*step_losses(run / METRICS), strict=True)
    losses = [loss for at, loss in found if at > step]
    if not losses:
        return None
    some = math.ceil(len(losses) / 10)
    return fmean(losses[:some]), fmean(losses[-some:])


def change_between(
    first: tuple[Path, int], last: tuple[Path, int], figure: Figure
) -> PairedChange | None:
    """Return the change from `first` to `last` (pairs of run and step) in the set that `figure` is of.

    The change is that of the weighted mean, on the documents that both measurements share.
    """
    return changes_between(first, last).get((figure.set, figure.phase, "*", "*"))


def anchor_words(runs: Sequence[FinishedRun]) -> str:
    """Describe that an earlier run had a better figure on the anchor than the last run; empty if none had."""
    ends = [
        (run, end)
        for run in runs
        if (end := run.report.own_mean(run.report.after, "anchor")) is not None
    ]
    if not ends:
        return ""
    (best, lowest), (last, now) = min(ends, key=lambda pair: pair[1].val_bpb), ends[-1]
    if lowest.val_bpb >= now.val_bpb:
        return ""
    found = change_between((best.path, best.report.steps), (last.path, last.report.steps), now)
    words = (
        f"the anchor was best after {best.report.phase}, {bits(lowest.val_bpb)}, and is "
        f"{bits(now.val_bpb)} after {last.report.phase}"
    )
    if found is None or found.verdict != "higher":
        return f"{words}: {NOT_SURE if found and found.count.is_sure else TOO_FEW}"
    return (
        f"{words}: surely worse, {paired(found)} on the same documents. Lower the portions of the phases "
        f"after {best.report.phase}, add repositories, or use the model of {best.report.phase}"
    )


def silences(runs: Sequence[FinishedRun]) -> list[str]:
    """Return sentences on domains that were trained on, but that val_bpb doesn't cover.

    Phases with the same text share a sentence.
    """
    silent = [
        (run.report.phase, unmeasured_domains(run.report, run.mixture))
        for run in runs
        if run.mixture is not None
    ]
    return alike(
        (phase, f"val_bpb says nothing of {', '.join(domains)}: val holds none of them")
        for phase, domains in silent
        if domains
    )


def samples(store: Store, runs: Sequence[FinishedRun]) -> list[str]:
    """Return lines about evaluations that skip some held-out documents.

    Phases with the same text share a line.
    """
    return alike((run.report.phase, sample_words(store.root, run)) for run in runs)


def sample_words(workspace: Path, run: FinishedRun) -> str | None:
    """Compare the documents behind val_bpb with all held-out documents; None if no document is missing."""
    last = run.report.own_mean(run.report.after, "phase")
    job = read_job(run.path / JOB)
    own = [evaluation for evaluation in job.evaluations if last and evaluation.name == last.name]
    strata = own[-1].strata if own else ()
    folders = {stratum.rows.path: workspace / stratum.rows.path for stratum in strata}
    if not strata or not all((folder / ORDER_NAME).is_file() for folder in folders.values()):
        return None
    domains = {(stratum.rows.path, stratum.domain) for stratum in strata}
    held = {
        document
        for path, folder in folders.items()
        for row in read_order(folder).rows
        if (path, row.domain) in domains
        for document in row.documents
    }
    if len(held) <= own[-1].documents:
        return None
    limit = max(stratum.positions for stratum in strata)
    return (
        f"val_bpb is of {own[-1].documents:,} of {number(len(held), 'held-out document')}: an evaluation "
        f"reads at most {limit:,} positions of each family and domain"
    )


def measured_domains(report: Report) -> tuple[str, ...]:
    """Return the domains whose held-out rows count for the val_bpb of a phase; empty if it has none."""
    last = report.own_mean(report.after, "phase")
    own = [
        mean for mean in report.after if last and (mean.set, mean.phase) == (last.set, last.phase)
    ]
    return tuple(sorted({mean.domain for mean in own} - {"*"}))


def unmeasured_domains(report: Report, mixture: MixtureReport) -> tuple[str, ...]:
    """Return the domains that were trained on, but don't count for a phase's val_bpb.

    The result is empty if the phase has no val_bpb.
    """
    measured = measured_domains(report)
    served = dict.fromkeys(stratum.domain for stratum in mixture.strata if stratum.drawn)
    return tuple(name for name in served if name not in measured) if measured else ()
