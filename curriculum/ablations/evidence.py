"""Trained arms: measurements of the last run, and counts over all of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum.inspection.paired import Measured, measured
from curriculum.inspection.runs import report_of
from curriculum.store import Artefact, Store
from schemas.errors import JobError
from schemas.job import Report
from schemas.objectives import FIXED_SETS, FixedSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """An arm with a seed, trained through all of its phases."""

    arm: str
    seed: int
    runs: tuple[Artefact, ...]
    """Its runs in the order of the phases."""
    reports: tuple[Report, ...]
    """Reports of the runs."""
    documents: Measured
    """Documents that it was measured on at the end."""

    @staticmethod
    def of(arm: str, seed: int, runs: Sequence[Artefact]) -> "Trained":
        """Read what the runs of an arm left."""
        reports = tuple(map(report_of, runs))
        found = measured(runs[-1].path, reports[-1].steps)
        assert found is not None, "our trainer leaves the documents of each evaluation"
        return Trained(arm=arm, seed=seed, runs=tuple(runs), reports=reports, documents=found)

    @property
    def report(self) -> Report:
        """The report of the last run."""
        return self.reports[-1]

    @property
    def path(self) -> Path:
        """The folder of the last run."""
        return self.runs[-1].path

    @property
    def run(self) -> str:
        """The folder of the last run, relative to the workspace or the bundle that it was trained in."""
        return self.path.relative_to(Store.containing(self.path).root).as_posix()

    @property
    def steps(self) -> int:
        """Steps of all phases."""
        return sum(report.steps for report in self.reports)

    @property
    def positions(self) -> int:
        """Row positions that all phases read."""
        return sum(report.tokens.positions for report in self.reports)

    @property
    def scored(self) -> int:
        """Tokens that all phases scored."""
        return sum(report.tokens.scored for report in self.reports)

    def val_bpb(self, name: FixedSet) -> float:
        """Bits per byte of a fixed set at the end.

        Raises:
            JobError: for a set that the run wasn't measured on.
        """
        report = self.report
        figure = report.own_mean(report.after, name)
        if figure is None:
            raise JobError(
                f"arm {self.arm}",
                f"set {name}",
                cause="its last run wasn't measured on it",
                cure="Hold some out in the corpus (unseen, later), or judge the claim on the anchor",
            )
        return figure.val_bpb

    @property
    def sets(self) -> tuple[FixedSet, ...]:
        """The fixed sets that its last run was measured on."""
        report = self.report
        return tuple(name for name in FIXED_SETS if report.own_mean(report.after, name) is not None)
