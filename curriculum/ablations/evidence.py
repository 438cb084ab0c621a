"""Results of trained arms: figures and documents by view after the last run, and counts over all runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from curriculum import parquet
from curriculum.ablations.ablation_views import ViewSets
from curriculum.ablations.measurements import DOCUMENTS_NAME
from curriculum.inspection.checkpoint_weights import tensors
from curriculum.inspection.paired import Measured, measured
from curriculum.inspection.runs import report_of
from curriculum.store import Artefact, Store
from curriculum.train.run_directory import JOB, read_job
from schemas.ablation import FILE_VIEW, VIEWS, View
from schemas.errors import JobError
from schemas.job import Report
from schemas.mixture import MixtureReport
from schemas.objectives import FIXED_SETS, FixedSet
from schemas.reports import MeasurementReport


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewEvidence:
    """Results of a run's last checkpoint on the fixed sets in one view: figures and documents."""

    val_bpb: Mapping[str, float]
    """Bits per byte by set."""
    documents: Measured
    artefact: Artefact | None = None
    """Artefact of the measurement. None for the view `file`, which the run itself measured."""

    @staticmethod
    def of_run(run: Artefact, report: Report) -> "ViewEvidence":
        """Read the evaluation that the run itself made at its end."""
        found = measured(run.path, report.steps)
        assert found is not None, "our trainer writes the documents of each evaluation"
        means = {name: report.own_mean(report.after, name) for name in FIXED_SETS}
        return ViewEvidence(
            val_bpb={name: mean.val_bpb for name, mean in means.items() if mean is not None},
            documents=found,
        )

    @staticmethod
    def of_measurement(made: Artefact, sets: ViewSets, view: View) -> "ViewEvidence":
        """Read a measurement of one view that was made after the run."""
        documents = parquet.read_table(made.path / DOCUMENTS_NAME)
        return ViewEvidence(
            val_bpb=made.reported(MeasurementReport).val_bpb,
            documents=Measured.of(documents, sets[view]),
            artefact=made,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """Arm with one seed, trained through all of its phases."""

    arm: str
    seed: int
    runs: tuple[Artefact, ...]
    """Runs in the order of the phases."""
    reports: tuple[Report, ...]
    """Reports of the runs."""
    distinct: tuple[int, ...]
    """Number of distinct tokens that were scored up to the end of each phase."""
    views: Mapping[View, ViewEvidence]
    """Results of the last run by view."""

    @staticmethod
    def from_runs(
        arm: str,
        seed: int,
        runs: Sequence[Artefact],
        sets: ViewSets,
        measurements: Mapping[View, Artefact],
    ) -> "Trained":
        """Read the results of an arm's runs, and the measurements that were made after the last run."""
        reports = tuple(map(report_of, runs))
        found = {FILE_VIEW: ViewEvidence.of_run(runs[-1], reports[-1])}
        for view, made in measurements.items():
            found[view] = ViewEvidence.of_measurement(made, sets, view)
        return Trained(
            arm=arm,
            seed=seed,
            runs=tuple(runs),
            reports=reports,
            distinct=tuple(_mixture(run).repetition.distinct for run in runs),
            views=found,
        )

    @property
    def report(self) -> Report:
        """Report of the last run."""
        return self.reports[-1]

    @property
    def path(self) -> Path:
        """Folder of the last run."""
        return self.runs[-1].path

    @property
    def run(self) -> str:
        """Folder of the last run, relative to its workspace or bundle."""
        return self.path.relative_to(Store.containing(self.path).root).as_posix()

    @property
    def model(self) -> str:
        """Name of the model."""
        return read_job(self.path / JOB).model.name

    @property
    def weights(self) -> int:
        """Number of the model's parameters. 0 if another trainer wrote no safetensors."""
        checkpoint = self.report.checkpoint
        if not checkpoint:
            return 0
        counted = tensors(Store.containing(self.path).root / checkpoint)
        return sum(tensor.parameters for tensor in counted)

    @property
    def steps(self) -> int:
        """Number of steps of all phases."""
        return sum(report.steps for report in self.reports)

    @property
    def positions(self) -> int:
        """Number of row positions read in all phases."""
        return sum(report.tokens.positions for report in self.reports)

    @property
    def scored(self) -> int:
        """Number of tokens scored in all phases."""
        return sum(report.tokens.scored for report in self.reports)

    def val_bpb(self, name: FixedSet, view: View = FILE_VIEW) -> float:
        """Return the final bits per byte of a fixed set in a view.

        Raises:
            JobError: if the run wasn't measured on the set.
        """
        found = self.views[view].val_bpb.get(name)
        if found is None:
            raise JobError(
                f"arm {self.arm}",
                f"set {name}",
                cause="the arm's last run wasn't measured on this set",
                cure="Add held-out rows to the corpus (unseen, later), or use the set anchor in the claim",
            )
        return found

    @property
    def sets(self) -> tuple[tuple[FixedSet, View], ...]:
        """Pairs of a fixed set and a view in which the last run was measured on this set."""
        there = [view for view in VIEWS if view in self.views]
        return tuple(
            (name, view)
            for view in there
            for name in FIXED_SETS
            if name in self.views[view].val_bpb
        )


def _mixture(run: Artefact) -> MixtureReport:
    """Return the report of the mixture that a run read."""
    store = Store.containing(run.path)
    plan = store.root / read_job(run.path / JOB).plan
    return store.load(plan.parent).reported(MixtureReport)
