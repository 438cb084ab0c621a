"""Reports of finished runs and their figures in words."""

from collections.abc import Iterable
from typing import Literal

from curriculum.inspection.formats import count
from curriculum.mixing.resolve import ANNEAL
from curriculum.store import Artefact
from curriculum.train.run_directory import read_report
from schemas.job import Figure, Report

TOO_FEW = "too few documents to tell"
"""Shown for an interval without a width, which is that of a single document."""


def report_of(run: Artefact) -> Report:
    """Read the report of a closed run."""
    return read_report(run.path)


def run_words(report: Report) -> str:
    """A run in a sentence.

    run_words(report) ->
    'val_bpb 3.622 → 1.770, anchor 3.520 → 2.018, after 198k tokens (budget)'
    """
    figures = (
        ("val_bpb", change(report, "phase")),
        ("anchor", change(report, "anchor")),
    )
    measured = "".join(f"{name} {figure}, " for name, figure in figures if figure)
    return f"{measured}after {count(report.tokens.valid)} tokens ({report.stopped})"


def interval(figure: Figure) -> str:
    """The 95 % interval of a figure, where it says something."""
    return f"{figure.low:.3f} to {figure.high:.3f}" if figure.is_sure else TOO_FEW


def change(report: Report, kind: Literal["phase", "anchor"]) -> str:
    """val_bpb before and after as `3.214 → 2.871`; empty where it wasn't measured."""
    measured = [
        [each for each in figures if kind == "anchor" or _is_own(each, report)]
        for figures in (report.before, report.after)
    ]
    before, after = (mean(figures, kind) for figures in measured)
    if after is None:
        return ""
    return f"{before.val_bpb:.3f} → {after.val_bpb:.3f}" if before else f"{after.val_bpb:.3f}"


def _is_own(figure: Figure, report: Report) -> bool:
    """Return True for a figure of the phase itself: one that serves only imported rows may have nothing to.

    The decay goes on under the name of the last phase.
    """
    return figure.phase == report.phase or report.phase == ANNEAL


def mean(figures: Iterable[Figure], kind: Literal["phase", "anchor"]) -> Figure | None:
    """The weighted mean of one evaluation: the anchor, or the phase that came last."""
    means = [each for each in figures if (each.kind, each.family) == (kind, "*")]
    return means[-1] if means else None
