"""Facts of a specialist for its report, from manifests and reports; no Parquet is read."""

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import get_args

from pydantic import BaseModel

from curriculum.corpus.skips import Unreadable
from curriculum.inspection.held_out import filling_of
from curriculum.inspection.paired import Place, changes_within
from curriculum.inspection.row_yields import RowYields
from curriculum.inspection.runs import report_of
from curriculum.mixing.mix import report_of as mixture_report_of
from curriculum.mixing.resolve import ResolvedPhase
from curriculum.pipeline import gates
from curriculum.pipeline.context import Resources
from curriculum.pipeline.plan import RunPlan
from curriculum.pipeline.status import PhaseStatus, phase_statuses
from curriculum.published_files import require_published
from curriculum.store import Artefact, inside, read_mark
from curriculum.store.artefact import KEY_DIGITS
from curriculum.train.document_sums import PairedChange
from curriculum.train.run_directory import HEARTBEAT, JOB, REPORT, read_report
from dashboards.rows.write import Example
from schemas import regular_files
from schemas.errors import SchemaError, StoreError
from schemas.job import Figure, Heartbeat, Report
from schemas.label_folders import label_folder
from schemas.mixture import MixtureReport
from schemas.phase_status import Approval
from schemas.reports import DocumentsReport, RowsReport, SelectionReport, SkipsReport
from schemas.specialist import file_stem

TOKENIZERS = "tokenizers"


class _JobFields(BaseModel):
    """The fields that are read of a job, so that jobs of earlier versions can be shown too."""

    begun: str = ""
    ordinal: int = 0
    gpu_price: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """A data set of training rows: how full they are, and what became of the documents, by outcome."""

    family: str
    name: str
    """The family, with the one that it adds structure to."""
    how: str
    """Objective, row length, variant, and the packer where it isn't best fit."""
    rows: int
    tokens: int
    row_length: int
    documents: dict[str, int]
    elided_bytes: int
    key: str
    fullness: str = ""
    """The yields of other ways to fill rows, and why these aren't full."""
    example: Example | None = None
    """A row to look at, where its page could be written."""

    @property
    def full(self) -> float:
        """The yield: the share of positions that aren't padding."""
        return self.tokens / (self.rows * self.row_length) if self.rows else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """An attempt at a phase that isn't its current run."""

    number: int
    ordinal: int
    key: str
    report: Report
    started: str = ""
    ended: str = ""
    """Time of the end; ISO 8601, empty where it isn't known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseFacts:
    """Facts of a phase."""

    number: int
    phase: ResolvedPhase
    evaluation: str
    """The phase whose held-out rows it is measured on: itself, of the anneal the one before."""
    status: PhaseStatus
    heartbeat: Heartbeat | None
    """Progress of an open attempt."""
    run: str
    """Path of the current run, relative to the workspace; empty where there is none."""
    ended: str
    """Time of the end; ISO 8601."""
    report: Report | None
    changes: Mapping[Place, PairedChange]
    """Changes of its figures on the same documents."""
    price: float | None
    """Price of an hour of one GPU, as in the run's job."""
    approval: Approval | None
    mixture: MixtureReport | None
    packed: tuple[Packed, ...]
    earlier: tuple[Attempt, ...]
    started: str = ""
    """Start of its current run, or of the attempt that is running; ISO 8601."""
    filled: str = ""
    """The files that fill val, in words; empty where there are many."""

    @property
    def name(self) -> str:
        """Name of the phase in the diet."""
        return self.phase.name

    @property
    def spent(self) -> list[Report]:
        """The reports of all its attempts."""
        current = [self.report] if self.report else []
        return [*current, *(each.report for each in self.earlier)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The documents of a family over all repositories."""

    family: str
    documents: int
    num_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Losses:
    """Input that was not made a document, by reason: lost data first, then choices."""

    changes: int
    lost: tuple[tuple[str, int], ...]
    chosen: tuple[tuple[str, int], ...]
    left_out: tuple[tuple[str, int], ...]
    """Changes that a family makes no document of."""
    rejected: tuple[tuple[str, int], ...]
    """Documents that a selection doesn't keep."""
    documents: int
    kept: int
    val: int


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
    sources: tuple[Source, ...]
    losses: Losses
    lost: tuple[str, ...] = ()
    """Artefacts that the report lacks, since they are gone or damaged: path and fault of each."""


Lost = dict[Path, str]
"""Artefacts that can't be loaded, with the fault of each."""


def read(
    plan: RunPlan,
    resources: Resources,
    examples: Mapping[str, Example] = MappingProxyType({}),
) -> Facts:
    """The facts of a specialist, as its workspace holds them now; `examples` has rows by their key."""
    diet, lost = plan.diet, Lost()
    built = list({each.key: each for each in _built(plan, lost)}.values())
    phases = tuple(_phases(plan, resources, examples, lost, filled=filling_of(built)))
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
        phases=phases,
        sources=tuple(_sources(built)),
        losses=_losses(built),
        lost=tuple(
            f"{path.relative_to(plan.store.root)}: {fault}" for path, fault in sorted(lost.items())
        ),
    )


def rows_of(plan: RunPlan) -> Iterator[tuple[Artefact, list[Artefact]]]:
    """Yield the rows that the phases of a plan are trained on, each once, with all that they are made of."""
    built = {each.key: each for each in _built(plan, {})}
    for each in built.values():
        if _is_trained_on(each):
            yield each, [built[key] for key in _made_of(each, built) if key in built]


def _made_of(rows: Artefact, built: Mapping[str, Artefact]) -> Iterator[str]:
    """The keys of its inputs; imported rows were made with a tokenizer that is like the one built with."""
    alike = {each.content: key for key, each in built.items() if each.manifest.stage == TOKENIZERS}
    for record in rows.manifest.inputs:
        yield record.key if record.key in built else alike.get(record.content, record.key)


def _is_trained_on(artefact: Artefact) -> bool:
    return artefact.manifest.stage == "rows" and artefact.manifest.labels["split"] == "train"


def _phases(
    plan: RunPlan,
    resources: Resources,
    examples: Mapping[str, Example],
    lost: Lost,
    *,
    filled: str,
) -> Iterator[PhaseFacts]:
    statuses = phase_statuses(plan, resources)
    for number, (phase, status) in enumerate(zip(plan.phases, statuses, strict=True), start=1):
        run, mixture = (
            next(_loaded(plan, plan.mark_of(stage, phase.name), lost), None)
            for stage in ("runs", "mixtures")
        )
        rows = {each.key: each for each in _marked(plan, phase, lost) if _is_trained_on(each)}
        report = report_of(run) if run else None
        mixed = [record.key for record in mixture.manifest.inputs] if mixture else [*rows]
        yield PhaseFacts(
            number=number,
            phase=phase,
            evaluation=plan.diet.phases[-1].phase if phase.is_anneal else phase.name,
            status=status,
            heartbeat=_heartbeat(status.run) if status.run and not status.report else None,
            run=run.path.relative_to(plan.store.root).as_posix() if run else "",
            ended=run.manifest.created if run else "",
            report=report,
            changes=changes_within(run.path, report) if run and report else {},
            price=_job(run.path).gpu_price if run else None,
            approval=gates.find_approval(plan.store, run) if run else None,
            mixture=mixture_report_of(mixture) if mixture else None,
            packed=tuple(_packed(rows[key], examples.get(key)) for key in mixed if key in rows),
            earlier=tuple(_earlier(plan, phase, run, status)),
            started=_job(begun).begun if (begun := run.path if run else status.run) else "",
            filled=filled,
        )


def _job(run: Path) -> _JobFields:
    """The fields of a run's job; empty ones where there is none yet.

    Raises:
        StoreError: for another job than the published one.
    """
    file = run / JOB
    require_published(file)
    return (
        _JobFields.model_validate_json(regular_files.read(file)) if file.is_file() else _JobFields()
    )


def _earlier(
    plan: RunPlan, phase: ResolvedPhase, run: Artefact | None, status: PhaseStatus
) -> list[Attempt]:
    """The attempts that are neither the current run nor running, in the order in which they began."""
    excluded = {run.path if run else None, status.run if status.state == "running" else None}
    branch = [label_folder("branch", plan.diet.branch)] if plan.diet.branch else []
    specialist = label_folder("specialist", plan.diet.specialist)
    folder = Path("runs", specialist, *branch, label_folder("phase", phase.name))
    files = (plan.store.root / folder).glob(f"*/attempt=*/{REPORT}")
    found = [
        Attempt(
            number=report.attempt,
            ordinal=job.ordinal,
            key=file.parent.parent.name,
            report=report,
            started=job.begun,
            ended=report.ended,
        )
        for file in files
        if file.parent not in excluded
        for report, job in [(read_report(file.parent), _job(file.parent))]
    ]
    return sorted(found, key=lambda each: (each.ordinal, each.number))


def _heartbeat(run: Path) -> Heartbeat | None:
    """The heartbeat of an open attempt; None before its first, and while it is being written."""
    return inside.read(Heartbeat, run / HEARTBEAT)


def _packed(rows: Artefact, example: Example | None) -> Packed:
    labels, report = rows.manifest.labels, rows.reported(RowsReport)
    of = f" of {labels['base']}" if "base" in labels else ""
    imported = ", imported" if "imported" in labels else ""
    variant = f", variant {labels['variant']}" if labels["objective"] == "fim" else ""
    packer = f", {labels['packer']}" if "packer" in labels else ""
    yields = RowYields.of(report, int(labels["row_length"]))
    return Packed(
        family=labels["family"],
        name=f"{labels['family']}{of}",
        how=f"{labels['objective']} at {int(labels['row_length']):,}{variant}{packer}{imported}",
        rows=sum(each.rows for each in report.domains.values()),
        tokens=sum(each.tokens for each in report.domains.values()),
        row_length=int(labels["row_length"]),
        documents=report.encode.documents,
        elided_bytes=report.encode.elided_bytes,
        key=rows.key[:KEY_DIGITS],
        fullness=yields.words if yields else "",
        example=example,
    )


def _marked(plan: RunPlan, phase: ResolvedPhase, lost: Lost) -> Iterator[Artefact]:
    """Yield the artefacts that the builds of a phase left last, of whatever corpus and row length."""
    yield from _loaded(plan, f"{plan.mark_of('build', phase.name)}+*", lost)


def _loaded(plan: RunPlan, marks: str, lost: Lost) -> Iterator[Artefact]:
    """Yield the artefacts of some marks, and note those that are gone or damaged."""
    for file in sorted((plan.store.root / "current").glob(f"{marks}.txt")):
        for line in read_mark(file):
            path = plan.store.root / line
            try:
                yield plan.store.load(path)
            except (StoreError, SchemaError) as fault:
                lost[path] = f"{fault.cause}. {fault.cure}"


def _built(plan: RunPlan, lost: Lost) -> Iterator[Artefact]:
    for phase in plan.phases:
        yield from _marked(plan, phase, lost)


def _sources(built: Sequence[Artefact]) -> Iterator[Source]:
    documents: dict[str, list[DocumentsReport]] = {}
    for each in built:
        if each.manifest.stage == "documents":
            labels = each.manifest.labels
            of = f" of {labels['base']}" if "base" in labels else ""
            report = each.reported(DocumentsReport)
            documents.setdefault(labels["family"] + of, []).append(report)
    for family, reports in sorted(documents.items()):
        yield Source(
            family=family,
            documents=sum(each.documents for each in reports),
            num_bytes=sum(each.num_bytes for each in reports),
        )


def _losses(built: Sequence[Artefact]) -> Losses:
    changes: dict[str, SkipsReport] = {}
    left_out: Counter[str] = Counter()
    for each in built:
        if each.manifest.stage == "documents":
            report = each.reported(DocumentsReport)
            left_out.update(report.left_out)
            # All families of a repository read the same history.
            changes.setdefault(each.manifest.labels.get("repository", ""), report.changes)
    skipped: Counter[str] = Counter()
    for read_changes in changes.values():
        skipped.update(read_changes.skipped)
    rejected: Counter[str] = Counter()
    # Selections of one step only say what is kept; the others decide split and domain too.
    selected = [
        each.reported(SelectionReport)
        for each in built
        if each.manifest.stage == "selections" and "step" not in each.manifest.labels
    ]
    for selection in selected:
        rejected.update(selection.rejected)
    unreadable = get_args(Unreadable)
    return Losses(
        changes=sum(each.read for each in changes.values()),
        lost=_most({name: n for name, n in skipped.items() if name in unreadable}),
        chosen=_most({name: n for name, n in skipped.items() if name not in unreadable}),
        left_out=_most(left_out),
        rejected=_most(rejected),
        documents=sum(each.documents for each in selected),
        kept=sum(each.kept for each in selected),
        val=sum(each.val for each in selected),
    )


def _most(counted: dict[str, int]) -> tuple[tuple[str, int], ...]:
    ranked = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple((name, number) for name, number in ranked if number)


def mean_of(figures: Sequence[Figure], phase: str) -> Figure | None:
    """The weighted mean of all that a phase serves, by its name; `anchor` for the anchor."""
    means = (each for each in figures if each.family == "*" and each.is_whole)
    return next((each for each in means if each.phase == phase), None)


REPORTS = "reports"
"""The folder of a workspace's reports."""


def report_path(root: Path, specialist: str, branch: str | None) -> Path:
    """Return the path of a specialist's report in its workspace."""
    return root / REPORTS / report_name(specialist, branch)


def report_name(specialist: str, branch: str | None) -> str:
    """Return the file name of a specialist's report."""
    return f"{file_stem((specialist, branch))}.html"
