"""Facts that the report of a specialist shows.

This module reads only manifests, jobs and reports. The fields that report_tables.py reads from Parquet files
are empty until then.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from curriculum.inspection.formats import Line, family_title
from curriculum.inspection.losses import Exclusions
from curriculum.inspection.paired import Place
from curriculum.inspection.step_metrics import TrainingPoint
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline import gates
from curriculum.pipeline.attempts import Attempt
from curriculum.pipeline.context import Resources
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.status import PhaseStatus, phase_statuses
from curriculum.published_files import require_published
from curriculum.store import Artefact, Store, read_mark
from curriculum.train.document_sums import PairedChange
from curriculum.train.run_directory import JOB, REPORT, read_report
from dashboards.report.packed_data_sets import PackedDataSet
from dashboards.run_settings import versions
from schemas.errors import SchemaError, StoreError
from schemas.job import Figure, Job, Report
from schemas.label_folders import label_folder
from schemas.mixture import MixtureReport
from schemas.objectives import FIXED_SETS, PHASE_SET
from schemas.phase_status import Approval
from schemas.reports import DocumentsReport, RowsReport
from schemas.specialist import file_stem

TOKENIZERS = "tokenizers"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRun:
    """A run that has a report. Its path is relative to the workspace; its times are in ISO 8601."""

    path: str
    report: Report
    started: str = ""
    ended: str = ""
    """End of the run; empty if unknown."""
    price: float | None = None
    """Price per GPU hour in the job."""
    job: Job | None = None
    """Job of the run, with its hyperparameters and seed."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the tools and of the trainer; empty for a replaced or unfinished run."""
    trained_shares: Mapping[str, float] = field(default_factory=dict)
    """Share of each set's targets that also occur in training documents and are not scored."""

    @staticmethod
    def of(store: Store, attempt: Attempt) -> "TrainedRun":
        """Read the report of an attempt.

        Raises:
            StoreError: If the job in its folder isn't the one for which the run was published.
        """
        require_published(attempt.path / JOB)
        report = read_report(attempt.path)
        ended = report.ended
        if not ended and attempt.is_finished:
            ended = store.load(attempt.path).manifest.created
        return TrainedRun(
            path=attempt.path.relative_to(store.root).as_posix(),
            report=report,
            started=attempt.job.begun,
            ended=ended,
            price=attempt.job.gpu_price,
            job=attempt.job,
            trained_shares={
                evaluation.phase: evaluation.trained_share
                for evaluation in attempt.job.evaluations
                if evaluation.set in (PHASE_SET, *FIXED_SETS)
                and evaluation.trained_share is not None
            },
        )

    @property
    def key(self) -> str:
        """First digits of the run's key."""
        return self.path.split("/")[-2]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseFacts:
    """State, runs, mixture and rows of a phase."""

    number: int
    phase: ResolvedPhase
    evaluation: str
    """Phase whose validation rows measure this phase.

    It is the phase itself; for the anneal, it is the phase before.
    """
    status: PhaseStatus
    run: TrainedRun | None
    """Current run of the phase."""
    approval: Approval | None
    mixture: MixtureReport | None
    packed: tuple[PackedDataSet, ...]
    earlier: tuple[TrainedRun, ...]
    """Attempts that are neither current nor running, in order of their start."""
    started: str = ""
    """Start of the current run or active attempt; ISO 8601."""
    changes: Mapping[Place, PairedChange] = field(default_factory=dict)
    """Changes of val_bpb during the phase, measured on the same documents before and after."""
    points: tuple[TrainingPoint, ...] = ()
    """Training loss and learning rate of the current run; empty without metrics."""
    filled: str = ""
    """Sentence that names the files with most of the validation text; empty if there are many such files."""

    @property
    def name(self) -> str:
        """Name of the phase, as in the diet."""
        return self.phase.name

    @property
    def report(self) -> Report | None:
        """Report of the current run."""
        return self.run.report if self.run else None

    @property
    def ended(self) -> str:
        """Time when the current run ended, in ISO 8601; empty if unknown."""
        return self.run.ended if self.run else ""

    @property
    def spent(self) -> list[Report]:
        """Reports of all attempts, for what they cost together."""
        return [run.report for run in (self.run, *self.earlier) if run is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Facts of a specialist that its report shows."""

    specialist: str
    branch: str | None
    why: str
    workspace: str
    corpus: str
    model: str
    tokenizer: str
    token_budget: int
    written: str
    """Time of writing; ISO 8601."""
    phases: tuple[PhaseFacts, ...]
    sources: Mapping[str, tuple[int, int]]
    """Documents and bytes by family, over all repositories."""
    exclusions: Exclusions
    largest_files: tuple[Line, ...] = ()
    """Source files with the largest shares of the training tokens of each family, as table rows."""
    lost: tuple[str, ...] = ()
    """Missing or damaged artefacts: path and error."""

    @property
    def trained_shares(self) -> dict[str, float]:
        """Share of each validation set's targets that training documents contain too, by the latest run."""
        shares: dict[str, float] = {}
        for phase in self.phases:
            if phase.run is not None:
                shares |= phase.run.trained_shares
        return shares

    @property
    def trained_jobs(self) -> dict[str, tuple[Job, Mapping[str, str]]]:
        """Job and versions of each finished phase by its name."""
        runs = ((phase.name, phase.run) for phase in self.phases if phase.run)
        return {name: (run.job, run.versions) for name, run in runs if run.job is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedArtefacts:
    """Artefacts that the workspace marks as current for a specialist's phases, each loaded once."""

    built: Mapping[str, tuple[Artefact, ...]]
    """Built artefacts by phase, of all corpora and row lengths."""
    runs: Mapping[str, Artefact]
    """Current runs by phase."""
    mixtures: Mapping[str, Artefact]
    lost: tuple[str, ...]
    """Missing or damaged artefacts: path and error."""

    @staticmethod
    def of(plan: RunPlan) -> "MarkedArtefacts":
        """Load the artefacts that are marked as current for a plan."""
        loaded: dict[str, Artefact | None] = {}
        lost: dict[str, str] = {}

        def marked(stage: str, phase: str, more: str = "") -> tuple[Artefact, ...]:
            marks = f"{plan.mark_of(stage, phase)}{more}.txt"
            files = sorted((plan.store.root / "current").glob(marks))
            lines = [line for file in files for line in read_mark(file)]
            for line in dict.fromkeys(lines):
                if line not in loaded:
                    try:
                        loaded[line] = plan.store.load(plan.store.root / line)
                    except (StoreError, SchemaError) as fault:
                        loaded[line] = None
                        lost[line] = f"{fault.cause}. {fault.cure}"
            return tuple(found for line in lines if (found := loaded[line]) is not None)

        names = [phase.name for phase in plan.phases]
        built = {name: marked("build", name, "+*") for name in names}
        runs, mixtures = (
            {name: found[0] for name in names if (found := marked(stage, name))}
            for stage in ("runs", "mixtures")
        )
        listed = tuple(f"{path}: {fault}" for path, fault in sorted(lost.items()))
        return MarkedArtefacts(built=built, runs=runs, mixtures=mixtures, lost=listed)

    @property
    def artefacts(self) -> dict[str, Artefact]:
        """Artefacts of the builds of all phases, by key."""
        return {artefact.key: artefact for phase in self.built.values() for artefact in phase}

    @property
    def folders(self) -> list[Path]:
        """Sorted paths of all artefacts."""
        every = (*self.artefacts.values(), *self.runs.values(), *self.mixtures.values())
        return sorted(artefact.path for artefact in every)

    def rows(self) -> Iterator[tuple[Artefact, list[Artefact]]]:
        """Yield each artefact of training rows once, with those of its inputs that were loaded.

        If imported rows name a tokenizer that isn't loaded, a loaded one with the same content takes its
        place.
        """
        built = self.artefacts
        alike = {
            artefact.content: key
            for key, artefact in built.items()
            if artefact.manifest.stage == TOKENIZERS
        }
        for rows in filter(_is_trained_on, built.values()):
            inputs = rows.manifest.inputs
            keys = (
                record.key if record.key in built else alike.get(record.content)
                for record in inputs
            )
            yield rows, [built[key] for key in keys if key is not None]


def read(plan: RunPlan, resources: Resources, marked: MarkedArtefacts) -> Facts:
    """Read the facts of a specialist, except for those in Parquet files."""
    diet, built = plan.diet, [*marked.artefacts.values()]
    statuses = phase_statuses(plan, resources)
    return Facts(
        specialist=diet.specialist,
        branch=diet.branch,
        why=diet.why,
        workspace=plan.store.workspace().name,
        corpus=plan.corpus.name,
        model=diet.model,
        tokenizer=diet.tokenizer,
        token_budget=diet.token_budget,
        written=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        phases=tuple(
            _phase(plan, number, status, marked) for number, status in enumerate(statuses, start=1)
        ),
        sources=_sources(built),
        exclusions=Exclusions.of(built),
        lost=marked.lost,
    )


def _is_trained_on(artefact: Artefact) -> bool:
    return artefact.manifest.stage == "rows" and artefact.manifest.labels["split"] == "train"


def _phase(plan: RunPlan, number: int, status: PhaseStatus, marked: MarkedArtefacts) -> PhaseFacts:
    phase = plan.phases[number - 1]
    run, mixture = marked.runs.get(phase.name), marked.mixtures.get(phase.name)
    rows = {
        artefact.key: artefact for artefact in marked.built[phase.name] if _is_trained_on(artefact)
    }
    found = Attempt.at(run.path) if run else None
    current = None
    if run and found:
        current = replace(TrainedRun.of(plan.store, found), versions=versions(run.manifest))
    mixed = [record.key for record in mixture.manifest.inputs] if mixture else [*rows]
    begun = found or (Attempt.at(status.run) if status.run else None)
    return PhaseFacts(
        number=number,
        phase=phase,
        evaluation=plan.diet.phases[-1].phase if phase.is_anneal else phase.name,
        status=status,
        run=current,
        approval=gates.find_approval(plan.store, run) if run else None,
        mixture=mixture_report_of(mixture) if mixture else None,
        packed=tuple(
            PackedDataSet(
                key=key,
                labels=rows[key].manifest.labels,
                report=rows[key].reported(RowsReport),
            )
            for key in mixed
            if key in rows
        ),
        earlier=tuple(_earlier(plan, phase, run, status)),
        started=begun.job.begun if begun else "",
    )


def _earlier(
    plan: RunPlan, phase: ResolvedPhase, run: Artefact | None, status: PhaseStatus
) -> list[TrainedRun]:
    """Return the attempts at a phase that are neither current nor running, in the order of their start."""
    excluded = {run.path if run else None, status.run if status.state == "running" else None}
    branch = [label_folder("branch", plan.diet.branch)] if plan.diet.branch else []
    specialist = label_folder("specialist", plan.diet.specialist)
    folder = Path("runs", specialist, *branch, label_folder("phase", phase.name))
    files = (plan.store.root / folder).glob(f"*/attempt=*/{REPORT}")
    found = [Attempt.at(file.parent) for file in files if file.parent not in excluded]
    return [
        TrainedRun.of(plan.store, attempt)
        for attempt in sorted(found, key=lambda attempt: attempt.order)
    ]


def _sources(built: Sequence[Artefact]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for artefact in built:
        if artefact.manifest.stage == "documents":
            report, family = (
                artefact.reported(DocumentsReport),
                family_title(artefact.manifest.labels),
            )
            documents, num_bytes = found.get(family, (0, 0))
            found[family] = documents + report.documents, num_bytes + report.num_bytes
    return dict(sorted(found.items()))


def mean_of(figures: Sequence[Figure], phase: str) -> Figure | None:
    """Return the weighted mean over the fixed set `phase`, or over the validation rows of that phase."""
    means = (figure for figure in figures if figure.family == "*" and figure.is_whole)
    return next((mean for mean in means if mean.phase == phase), None)


REPORTS = "reports"
"""Folder of reports in a workspace."""


def report_path(root: Path, specialist: str, branch: str | None) -> Path:
    """Return the path that the report of a specialist has in the workspace `root`."""
    return root / REPORTS / report_name(specialist, branch)


def report_name(specialist: str, branch: str | None) -> str:
    """Return the file name of a specialist's report."""
    return f"{file_stem((specialist, branch))}.html"
