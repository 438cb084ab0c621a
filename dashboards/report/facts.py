"""Facts of a specialist for its report, from manifests, reports, and a few columns of Parquet files."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from curriculum.inspection.formats import count, family_title
from curriculum.inspection.held_out import filling_of
from curriculum.inspection.losses import Exclusions
from curriculum.inspection.paired import Place, changes_within
from curriculum.inspection.row_yields import RowYields
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline import gates
from curriculum.pipeline.attempts import Attempt
from curriculum.pipeline.context import Resources
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.status import PhaseStatus, phase_statuses
from curriculum.published_files import require_published
from curriculum.stages.file_shares import FileShare, file_shares
from curriculum.store import Artefact, Store, read_mark
from curriculum.train.document_sums import PairedChange
from curriculum.train.run_directory import JOB, REPORT, read_report
from dashboards.report.step_curves import StepCurves, read_step_curves
from dashboards.rows.write import ExampleRow
from schemas.errors import CurriculumError, SchemaError, StoreError
from schemas.job import Figure, Job, Report
from schemas.label_folders import label_folder
from schemas.mixture import MixtureReport
from schemas.objectives import FIXED_SETS, PHASE_SET
from schemas.packed_row import unusual_options
from schemas.phase_status import Approval
from schemas.reports import DocumentsReport, RowsReport
from schemas.specialist import file_stem

TOKENIZERS = "tokenizers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A data set of training rows, with a row to look at where its page could be written."""

    labels: Mapping[str, str]
    report: RowsReport
    example: ExampleRow | None = None

    @property
    def name(self) -> str:
        """The family, with the one that it adds structure to."""
        return family_title(self.labels)

    @property
    def how(self) -> str:
        """Objective, row length, variant, and what is unusual."""
        labels = self.labels
        variant = f", variant {labels['variant']}" if labels["objective"] == "fim" else ""
        options = f", {unusual}" if (unusual := unusual_options(labels)) else ""
        imported = ", imported" if "imported" in labels else ""
        return f"{labels['objective']} at {int(labels['row_length']):,}{variant}{options}{imported}"

    @property
    def yields(self) -> RowYields | None:
        """The yield beside those of other ways to fill rows, and why these aren't full."""
        return RowYields.of(self.report, int(self.labels["row_length"]))

    @property
    def distinct(self) -> str:
        """Distinct tokens beside scored ones, in words."""
        windows = self.report.windows
        return f"{count(windows.distinct)} distinct of {count(windows.scored)} scored tokens"


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedRun:
    """A run with a report, by its path relative to the workspace; its times are ISO 8601."""

    path: str
    report: Report
    started: str = ""
    ended: str = ""
    """Time of its end; empty where it isn't known."""
    price: float | None = None
    """Price of an hour of one GPU, as in its job."""
    job: Job | None = None
    """Job of the run, with its hyperparameters and seed."""
    trained_shares: Mapping[str, float] = field(default_factory=dict)
    """Share of the targets of each set, by its phase, that training documents show; these aren't scored."""

    @staticmethod
    def of(store: Store, attempt: Attempt) -> "TrainedRun":
        """Read the report of an attempt; its job was read already.

        Raises:
            StoreError: for another job than the published one.
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
        """The first digits of its key."""
        return self.path.split("/")[-2]


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseFacts:
    """Facts of a phase."""

    number: int
    phase: ResolvedPhase
    evaluation: str
    """The phase whose held-out rows it is measured on: itself, of the anneal the one before."""
    status: PhaseStatus
    run: TrainedRun | None
    """The current run."""
    changes: Mapping[Place, PairedChange]
    """Changes of its figures on the same documents."""
    approval: Approval | None
    mixture: MixtureReport | None
    packed: tuple[Packed, ...]
    earlier: tuple[TrainedRun, ...]
    """Attempts that are neither the current run nor running, in the order in which they began."""
    started: str = ""
    """Start of its current run, or of the attempt that is running; ISO 8601."""
    steps: StepCurves | None = None
    """Training loss and learning rate of the current run."""
    filled: str = ""
    """The files that fill val, in words; empty where there are many."""

    @property
    def name(self) -> str:
        """Name of the phase in the diet."""
        return self.phase.name

    @property
    def report(self) -> Report | None:
        """The report of the current run."""
        return self.run.report if self.run else None

    @property
    def ended(self) -> str:
        """Time of the current run's end; ISO 8601."""
        return self.run.ended if self.run else ""

    @property
    def spent(self) -> list[Report]:
        """The reports of all its attempts."""
        return [run.report for run in (self.run, *self.earlier) if run is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Facts of a specialist for its report."""

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
    """Documents and their bytes by family, over all repositories."""
    exclusions: Exclusions
    largest_files: tuple[FileShare, ...] = ()
    """Source files with the largest shares of the training tokens of each family."""
    lost: tuple[str, ...] = ()
    """Artefacts that the report lacks, since they are gone or damaged: path and fault of each."""

    @property
    def trained_shares(self) -> dict[str, float]:
        """Share of the targets of each set that training documents show, as the last run has it."""
        shares: dict[str, float] = {}
        for phase in self.phases:
            if phase.run is not None:
                shares |= phase.run.trained_shares
        return shares


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedArtefacts:
    """Artefacts that a specialist's phases left last, each loaded once."""

    built: Mapping[str, tuple[Artefact, ...]]
    """Those of the builds of a phase, of whatever corpus and row length."""
    runs: Mapping[str, Artefact]
    """Current runs by phase."""
    mixtures: Mapping[str, Artefact]
    lost: tuple[str, ...]
    """Artefacts that are gone or damaged: path and fault of each."""

    @staticmethod
    def of(plan: RunPlan) -> "MarkedArtefacts":
        """Load what the marks of a plan list."""
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
        """Those of all builds, by key."""
        return {each.key: each for phase in self.built.values() for each in phase}

    def rows(self) -> Iterator[tuple[Artefact, list[Artefact]]]:
        """Yield the rows that are trained on, each once, with what they are made of that is there.

        Imported rows were made with a tokenizer that is like the one built with.
        """
        built = self.artefacts
        alike = {
            each.content: key for key, each in built.items() if each.manifest.stage == TOKENIZERS
        }
        for rows in filter(_is_trained_on, built.values()):
            inputs = rows.manifest.inputs
            keys = (each.key if each.key in built else alike.get(each.content) for each in inputs)
            yield rows, [built[key] for key in keys if key is not None]


def read(
    plan: RunPlan,
    resources: Resources,
    marked: MarkedArtefacts,
    examples: Mapping[str, ExampleRow] = MappingProxyType({}),
) -> Facts:
    """The facts of a specialist, as its workspace holds them now; `examples` has rows by their key."""
    diet, built = plan.diet, [*marked.artefacts.values()]
    filled, statuses = filling_of(built), phase_statuses(plan, resources)
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
            _phase(plan, number, status, marked, examples, filled=filled)
            for number, status in enumerate(statuses, start=1)
        ),
        sources=_sources(built),
        exclusions=Exclusions.of(built),
        largest_files=_largest_files(built),
        lost=marked.lost,
    )


def _is_trained_on(artefact: Artefact) -> bool:
    return artefact.manifest.stage == "rows" and artefact.manifest.labels["split"] == "train"


def _phase(
    plan: RunPlan,
    number: int,
    status: PhaseStatus,
    marked: MarkedArtefacts,
    examples: Mapping[str, ExampleRow],
    *,
    filled: str,
) -> PhaseFacts:
    phase = plan.phases[number - 1]
    run, mixture = marked.runs.get(phase.name), marked.mixtures.get(phase.name)
    rows = {each.key: each for each in marked.built[phase.name] if _is_trained_on(each)}
    found = Attempt.at(run.path) if run else None
    current = TrainedRun.of(plan.store, found) if found else None
    mixed = [record.key for record in mixture.manifest.inputs] if mixture else [*rows]
    begun = found or (Attempt.at(status.run) if status.run else None)
    return PhaseFacts(
        number=number,
        phase=phase,
        evaluation=plan.diet.phases[-1].phase if phase.is_anneal else phase.name,
        status=status,
        run=current,
        changes=changes_within(run.path, current.report) if run and current else {},
        approval=gates.find_approval(plan.store, run) if run else None,
        mixture=mixture_report_of(mixture) if mixture else None,
        packed=tuple(
            Packed(
                labels=rows[key].manifest.labels,
                report=rows[key].reported(RowsReport),
                example=examples.get(key),
            )
            for key in mixed
            if key in rows
        ),
        earlier=tuple(_earlier(plan, phase, run, status)),
        started=begun.job.begun if begun else "",
        steps=read_step_curves(run.path) if run else None,
        filled=filled,
    )


def _earlier(
    plan: RunPlan, phase: ResolvedPhase, run: Artefact | None, status: PhaseStatus
) -> list[TrainedRun]:
    """The attempts that are neither the current run nor running, in the order in which they began."""
    excluded = {run.path if run else None, status.run if status.state == "running" else None}
    branch = [label_folder("branch", plan.diet.branch)] if plan.diet.branch else []
    specialist = label_folder("specialist", plan.diet.specialist)
    folder = Path("runs", specialist, *branch, label_folder("phase", phase.name))
    files = (plan.store.root / folder).glob(f"*/attempt=*/{REPORT}")
    found = [Attempt.at(file.parent) for file in files if file.parent not in excluded]
    return [TrainedRun.of(plan.store, each) for each in sorted(found, key=lambda each: each.order)]


def _sources(built: Sequence[Artefact]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for each in built:
        if each.manifest.stage == "documents":
            report, family = each.reported(DocumentsReport), family_title(each.manifest.labels)
            documents, num_bytes = found.get(family, (0, 0))
            found[family] = documents + report.documents, num_bytes + report.num_bytes
    return dict(sorted(found.items()))


def _largest_files(built: Sequence[Artefact]) -> tuple[FileShare, ...]:
    """Return the files with the largest shares of tokens, if one selection decided over all documents."""
    by_stage = {
        stage: [artefact for artefact in built if artefact.manifest.stage == stage]
        for stage in ("selections", "documents", "tokens")
    }
    chosen = [
        selection
        for selection in by_stage["selections"]
        if not {"family", "step"} & set(selection.manifest.labels)
    ]
    if len(chosen) != 1:
        return ()
    try:
        return file_shares(by_stage["documents"], by_stage["tokens"], chosen[0])
    except (CurriculumError, OSError):
        return ()


def mean_of(figures: Sequence[Figure], phase: str) -> Figure | None:
    """The weighted mean of all that a phase serves, by its name, or of a fixed set, by its own."""
    means = (figure for figure in figures if figure.family == "*" and figure.is_whole)
    return next((mean for mean in means if mean.phase == phase), None)


REPORTS = "reports"
"""The folder of a workspace's reports."""


def report_path(root: Path, specialist: str, branch: str | None) -> Path:
    """Return the path of a specialist's report in its workspace."""
    return root / REPORTS / report_name(specialist, branch)


def report_name(specialist: str, branch: str | None) -> str:
    """Return the file name of a specialist's report."""
    return f"{file_stem((specialist, branch))}.html"
