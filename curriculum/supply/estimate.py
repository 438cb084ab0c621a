"""Estimate of the tokens in a corpus: one cached artefact per kind of rows (family, row length, score).

    estimates/corpus-<name>/family-v3_simple/row_length-512/score-new/<key12>/
        lines.parquet  samplings.parquet  files.parquet  shares.parquet

The key covers everything that decides the figures: commits and rules of the corpus, tokenizer, share,
revisions. No other artefact refers to an estimate, so gc deletes estimates, and the next estimate samples
again.
"""

import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeVar, get_type_hints

import polars as pl

from curriculum import frames
from curriculum.corpus import git
from curriculum.corpus.sources import Sources, plain_folders
from curriculum.graph.syntax_tree import grammar_versions
from curriculum.stages.documents import repositories
from curriculum.stages.file_shares import FileShare
from curriculum.stages.file_sides import FileSide
from curriculum.stages.indexes import Index
from curriculum.stages.stage import Coordinator, Stage
from curriculum.stages.tokens import Tokenizing
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.supply.estimate_key import own_ingredients, shared_ingredients
from curriculum.supply.measure import DocumentKind
from curriculum.supply.ratios import ALL, KindEstimate, SampledShare, SupplyLine, estimate_kinds
from curriculum.supply.sampled_corpus import SamplingPlan
from curriculum.supply.sampled_documents import write_frame
from curriculum.tokens import train
from schemas.corpus import CorpusSpec
from schemas.families import FAMILIES
from schemas.progress import ProgressCallback, ignore_progress
from schemas.reports import EstimateReport

REVISION = 8
"""Revision of the estimates; increase it when a sample is drawn or scaled differently."""
LINES_NAME, SAMPLINGS_NAME, FILES_NAME = "lines.parquet", "samplings.parquet", "files.parquet"
SHARES_NAME = "shares.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """Estimated supply of a corpus.

    For each repository and kind of rows, `lines` has one SupplyLine per domain and one for ALL domains.
    """

    kinds: frozenset[DocumentKind]
    """Estimated kinds of rows. If `lines` has no line of a kind, the corpus has no tokens of the kind."""
    lines: tuple[SupplyLine, ...]
    samplings: tuple[SampledShare, ...]
    notes: tuple[str, ...]
    """Sentences about ways in which a build may differ from this estimate."""
    files: tuple[FileSide, ...] = ()
    """Files of the sample with their side of the split, largest first."""
    shares: tuple[FileShare, ...] = ()
    """Files of the sample with the most tokens, by family."""

    @property
    def is_whole(self) -> bool:
        """True if every commit was read, so that the figures are counted rather than estimated."""
        return all(sampling.read >= sampling.units for sampling in self.samplings)

    def total(
        self, kind: DocumentKind, domain: str = ALL, repositories: Iterable[str] = ()
    ) -> tuple[float, float]:
        """Return the tokens of `domain` and their standard error; no `repositories` means all."""
        found = [line for line in self._of(kind, repositories) if line.domain == domain]
        tokens = math.fsum(line.tokens for line in found)
        return tokens, math.sqrt(math.fsum(line.error**2 for line in found))

    def lines_of(
        self, kind: DocumentKind, repositories: Iterable[str] = ()
    ) -> tuple[SupplyLine, ...]:
        """Return the lines of `kind` by repository and domain, without ALL; no `repositories` means all."""
        return tuple(line for line in self._of(kind, repositories) if not line.is_total)

    def _of(self, kind: DocumentKind, repositories: Iterable[str]) -> Iterator[SupplyLine]:
        only = frozenset(repositories)
        for line in self.lines:
            if line.kind == kind and (not only or line.repository in only):
                yield line

    @property
    def domains(self) -> tuple[str, ...]:
        """Domains that have tokens in any repository, sorted."""
        return tuple(sorted({line.domain for line in self.lines if line.tokens} - {ALL}))


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimateTask:
    """A corpus to sample, and the kinds of rows to estimate."""

    plan: SamplingPlan
    kinds: tuple[DocumentKind, ...]
    """Kinds of rows that the caller asked for."""
    tokenizing: Tokenizing

    @staticmethod
    def from_corpus(
        corpus: CorpusSpec,
        kinds: Sequence[DocumentKind],
        *,
        tokenizing: Tokenizing,
        share: float,
        sources: Sources,
        indexes: Sequence[Index] = (),
    ) -> "EstimateTask":
        """Return the task that samples a `share` of each repository's commits, but at least a fixed number.

        Unseen repositories and later commits are excluded, because they are never trained on.

        `indexes` are existing or planned indexes of the workspace. While an index is only planned, a family
        that needs the index is estimated by its stand-in family.

        Raises:
            CorpusError: if a pin can't be resolved.
        """
        corpus = corpus.trained()
        task = EstimateTask(
            plan=SamplingPlan(
                corpus=corpus,
                families=frozenset(),
                share=share,
                repositories=repositories(corpus, sources),
                indexes=tuple(indexes),
            ),
            kinds=tuple(kinds),
            tokenizing=tokenizing,
        )
        return replace(task, plan=task.plan_of(task.measured))

    @property
    def measured(self) -> tuple[DocumentKind, ...]:
        """Kinds that are sampled: the requested kinds, and a stand-in for each kind that needs an index."""
        stand_ins = {
            replace(kind, family=stand_in)
            for kind in self.kinds
            if (stand_in := FAMILIES[kind.family].stand_in)
        }
        return tuple(sorted({*self.kinds, *stand_ins}))

    def plan_of(self, kinds: Iterable[DocumentKind]) -> SamplingPlan:
        """Return the sampling plan with only the families of `kinds`."""
        return replace(self.plan, families=frozenset(kind.family for kind in kinds))


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates(Stage[EstimateTask, EstimateTask]):
    """Stage that makes one estimate per kind of rows; all missing estimates are made from one sample."""

    name = "estimate"
    placement = "coordinator"
    workers: int
    watch: ProgressCallback

    def tasks(self, inputs: EstimateTask) -> Sequence[EstimateTask]:
        """Return the corpus as a single task."""
        return [inputs]

    def title(self, task: EstimateTask) -> str:
        """Return the corpus' name."""
        return task.plan.corpus.name

    def recipes(self, task: EstimateTask) -> Sequence[Recipe]:
        """Return the recipe of each kind.

        Raises:
            TokenizerError: for a given tokenizer that can't be used.
        """
        shared = shared_ingredients(task.plan, task.tokenizing)
        tools = {"git": git.version(), **grammar_versions(), **train.TOOLS}
        return [
            Recipe(
                stage="estimates",
                labels=(
                    ("corpus", task.plan.corpus.name),
                    ("family", kind.family),
                    ("row_length", str(kind.row_length)),
                    ("score", kind.score),
                ),
                revision=REVISION,
                config={**shared, **own_ingredients(task.plan, kind)},
                tools=tools,
            )
            for kind in task.measured
        ]

    def run(self, task: EstimateTask, drafts: Sequence[StagingDirectory]) -> None:
        """Sample the corpus once for all kinds without a cached estimate."""
        labels = [draft.recipe.labels for draft in drafts]
        kind_of = dict(
            zip((recipe.labels for recipe in self.recipes(task)), task.measured, strict=True)
        )
        kinds = [kind_of[label] for label in labels]
        found = estimate_kinds(
            task.plan_of(kinds), kinds, task.tokenizing, workers=self.workers, watch=self.watch
        )
        for draft, kind_estimate in zip(drafts, found, strict=True):
            write_frame(_frame(kind_estimate.lines, SupplyLine), draft.path / LINES_NAME)
            write_frame(_frame(kind_estimate.samplings, SampledShare), draft.path / SAMPLINGS_NAME)
            write_frame(_frame(kind_estimate.files, FileSide), draft.path / FILES_NAME)
            write_frame(_frame(kind_estimate.shares, FileShare), draft.path / SHARES_NAME)
            tokens = math.fsum(line.tokens for line in kind_estimate.lines if line.is_total)
            units = sum(sampling.read for sampling in kind_estimate.samplings)
            draft.record(EstimateReport(tokens=round(tokens), units=units))


def estimate(
    task: EstimateTask,
    *,
    store: Store | None = None,
    workers: int = 1,
    watch: ProgressCallback = ignore_progress,
) -> Estimate:
    """Estimate the supply of each kind.

    Estimates in `store` are reused, and new ones are written to it. Without a store, all work happens in a
    temporary folder.

    Raises:
        CorpusError: for a history without a usable file.
        TokenizerError: for a given tokenizer that can't be used.
    """
    if store is None:
        with tempfile.TemporaryDirectory(prefix="curriculum-estimate-") as folder:
            return estimate(task, store=Store(Path(folder)), workers=workers, watch=watch)
    with store.leased():
        return _read(
            task,
            Coordinator(store=store).make(Estimates(workers=workers, watch=watch), task),
        )


def known_estimate(task: EstimateTask, store: Store) -> Estimate | None:
    """Return the estimate of those kinds that are cached in `store`; None if no kind is cached.

    `store` must be a dry Store, which only plans and builds nothing. So nothing is sampled.
    """
    assert store.dry
    made = Coordinator(store=store).make(Estimates(workers=1, watch=ignore_progress), task)
    kept = {
        kind: artefact
        for kind, artefact in zip(task.measured, made, strict=True)
        if not artefact.planned
    }
    known = tuple(
        kind
        for kind in task.kinds
        if {kind, replace(kind, family=FAMILIES[kind.family].stand_in or kind.family)}
        <= kept.keys()
    )
    if not known:
        return None
    task = replace(task, kinds=known)
    return _read(task, [kept[kind] for kind in task.measured])


Row = TypeVar("Row", SupplyLine, SampledShare, FileSide, FileShare)


def _frame(rows: Sequence[Row], kind: type[Row]) -> pl.DataFrame:
    columns = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
    schema = {
        name: columns.get(annotation, pl.String)
        for name, annotation in get_type_hints(kind).items()
    }
    return pl.DataFrame([asdict(row) for row in rows], schema=schema)


def _rows(file: Path, kind: type[Row]) -> Iterator[Row]:
    return (kind(**row) for row in frames.read(file).iter_rows(named=True))


def _read(task: EstimateTask, made: Sequence[Artefact]) -> Estimate:
    """Read and combine the estimates of all kinds."""
    found = [
        KindEstimate(
            lines=tuple(_rows(artefact.path / LINES_NAME, SupplyLine)),
            samplings=tuple(_rows(artefact.path / SAMPLINGS_NAME, SampledShare)),
            files=tuple(_rows(artefact.path / FILES_NAME, FileSide)),
            shares=tuple(_rows(artefact.path / SHARES_NAME, FileShare)),
        )
        for artefact in made
    ]
    lines = [line for estimated in found for line in estimated.lines]
    lines += [line for kind in task.kinds for line in _stand_ins(task.plan, kind, lines)]
    samplings: dict[str, SampledShare] = {}
    for sampling in (sampling for estimated in found for sampling in estimated.samplings):
        other = samplings.get(sampling.repository, sampling)
        walked = max(other.walked, sampling.walked)
        samplings[sampling.repository] = replace(other, walked=walked)
    return Estimate(
        kinds=frozenset(task.kinds),
        lines=tuple(line for line in lines if line.kind in task.kinds),
        samplings=tuple(samplings.values()),
        notes=tuple(_notes(task, samplings.values())),
        files=next((estimated.files for estimated in found if estimated.files), ()),
        shares=tuple(dict.fromkeys(share for estimated in found for share in estimated.shares)),
    )


def _stand_ins(
    plan: SamplingPlan, kind: DocumentKind, lines: Sequence[SupplyLine]
) -> Iterator[SupplyLine]:
    """Yield lines of `kind` copied from its stand-in family, for repositories whose index isn't built yet."""
    stand_in = FAMILIES[kind.family].stand_in
    if stand_in:
        alike = replace(kind, family=stand_in)
        for line in lines:
            if line.kind == alike and plan.stands_in(line.repository):
                yield replace(line, family=kind.family)


def _notes(task: EstimateTask, samplings: Iterable[SampledShare]) -> Iterator[str]:
    plan, is_part = task.plan, any(sampling.read < sampling.units for sampling in samplings)
    yield from plain_folders([repository.spec for repository in plan.repositories])
    if task.tokenizing.given is None and is_part:
        yield (
            "tokens are counted with a tokenizer trained on the sample; "
            "one trained on the whole corpus may give other counts"
        )
    for family in sorted(name for name in plan.families if FAMILIES[name].needs_index):
        yield from _index_notes(plan, family)


def _index_notes(plan: SamplingPlan, family: str) -> Iterator[str]:
    """Yield notes about the repositories without an index for `family`.

    One note names the repositories whose index isn't built yet. The other notes name those that can't have an
    index, one note per reason.
    """
    stand_ins = [index.repository for index in plan.indexes if plan.stands_in(index.repository)]
    if stand_ins:
        yield (
            f"until {family} is built, it is assumed to have the tokens of {FAMILIES[family].stand_in}: "
            f"{', '.join(stand_ins)}"
        )
    without: dict[str, list[str]] = {}
    for index in plan.indexes:
        if index.artefact is None:
            without.setdefault(index.lacks, []).append(index.repository)
    for lacks, names in without.items():
        yield f"no {family} of {', '.join(names)}: {lacks}"
