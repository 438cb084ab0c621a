"""Reports of finished runs, and sentences about their figures."""

from collections.abc import Mapping
from typing import Literal

from curriculum.inspection.formats import TOO_FEW, count, held_out_words
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.store import Artefact, Store
from curriculum.train.run_directory import JOB, read_job
from schemas.job import Job, Report
from schemas.manifest import MANIFEST_NAME
from schemas.mixture import MixtureReport
from schemas.objectives import FIXED_SETS, FixedSet
from schemas.study import Study, study_mark


def report_of(run: Artefact) -> Report:
    """Return the report in the manifest of a closed run."""
    return run.reported(Report)


def run_words(report: Report) -> str:
    """Summarize a run in one sentence. For a study, the sentence starts with its mark.

    run_words(report) ->
    'val_bpb 3.622 → 1.770, anchor 3.520 → 2.018, after 198k tokens (end of its budget)'
    """
    figures = (
        ("val_bpb", change(report, "phase")),
        *((name, change(report, name)) for name in FIXED_SETS),
    )
    measured = "".join(f"{name} {figure}, " for name, figure in figures if figure)
    why = ENDINGS.get(report.stopped, report.stopped)
    words = f"{measured}after {count(report.tokens.valid)} tokens ({why})"
    return marked(report.study, words)


def marked(study: Study | None, words: str) -> str:
    """Put the mark of a study before a text about a run; without a study, return the text.

    >>> marked(None, "45 steps"), marked(Study(positions="continue"), "")
    ('45 steps', 'study: positions continue')
    """
    return "; ".join(filter(None, (study_mark(study), words)))


NOTICEABLE = 0.05
"""Tokens that are lost because steps are whole are only mentioned above this share of the budget."""


def whole_steps(steps: int, tokens_per_step: int, tokens: int, budget: int) -> str:
    """Compare the tokens in whole steps with the budget of a phase; empty if hardly any are lost.

    >>> whole_steps(7, 2048, 14_400, 18_000)
    '7 whole steps of 2,048 positions hold 14.4k of 18k tokens'
    >>> whole_steps(700, 2048, 1_440_000, 1_441_000)
    ''
    """
    if not steps or tokens >= (1 - NOTICEABLE) * budget:
        return ""
    listed = f"{steps:,} whole {'step' if steps == 1 else 'steps'} of {tokens_per_step:,} positions"
    return f"{listed} {'holds' if steps == 1 else 'hold'} {count(tokens)} of {count(budget)} tokens"


ENDINGS: Mapping[str, str] = {"budget": "end of its budget", "gate": "gate opened"}
"""Texts for reasons of a run's end whose names don't explain themselves."""


def ending(report: Report) -> str:
    """Return a text on why a run ended."""
    why = ENDINGS.get(report.stopped, report.stopped)
    return f"{why}: {report.reason}" if report.reason else why


def unused_budget(report: Report, mixture: MixtureReport) -> str:
    """Compare the tokens of a run with its budget, if the budget ended it; empty if hardly any are unused."""
    if report.stopped != "budget":
        return ""
    tokens = report.tokens.valid
    return whole_steps(report.steps, mixture.tokens_per_step, tokens, mixture.budget)


def mixture_of(store: Store, job: Job) -> Artefact | None:
    """Return the mixture that a run is trained on, or None if it was deleted."""
    folder = (store.root / job.plan).parent
    return store.load(folder) if (folder / MANIFEST_NAME).is_file() else None


def mixture_of_run(store: Store, run: Artefact) -> MixtureReport | None:
    """Return the report of the mixture that a closed run was trained on, or None if it was deleted."""
    mixture = mixture_of(store, read_job(run.path / JOB))
    return mixture_report_of(mixture) if mixture else None


def change(report: Report, kind: Literal["phase"] | FixedSet) -> str:
    """Return val_bpb before and after a run as `3.214 → 2.871`; empty if it wasn't measured.

    If the figure has too few documents or lineages, the text says so. A phase that serves only imported rows
    may have no figure of its own.
    """
    before, after = (report.own_mean(figures, kind) for figures in (report.before, report.after))
    if after is None:
        return ""
    said = f"{before.val_bpb:.3f} → {after.val_bpb:.3f}" if before else f"{after.val_bpb:.3f}"
    return said if after.is_sure else f"{said}, {TOO_FEW}"


def measured_on(report: Report) -> str:
    """Return a text with the number of documents and lineages behind the val_bpb of a phase.

    The text is empty if val_bpb wasn't measured.
    """
    last = report.own_mean(report.after, "phase")
    return held_out_words(last) if last else ""


NOT_SURE = "no sure difference"
