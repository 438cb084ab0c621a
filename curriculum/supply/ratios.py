"""Estimated training tokens by kind of rows: counts of a sample, scaled up to the corpus by ratios."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum.corpus.decisions import read_sides
from curriculum.corpus.survey import MAX_COMMITS, NO_FILE, WINDOW
from curriculum.stages.file_shares import FileShare
from curriculum.stages.file_sides import FileSide
from curriculum.stages.stage import Coordinator, Workers
from curriculum.stages.tokens import Tokenizing
from curriculum.stages.worker_rights import worker_rights
from curriculum.store import Store
from curriculum.supply.foreseen_split import foreseen_val
from curriculum.supply.measure import DocumentKind, measure
from curriculum.supply.sampled_corpus import (
    SampledCorpus,
    SamplingPlan,
    readable_plan,
    sample_corpus,
)
from curriculum.supply.scaling import estimate_by_ratio, product
from curriculum.supply.shown_text import NOTHING_EARLIER, EarlierVersions, extrapolate_tokens
from schemas.families import CHAT_FAMILY, FAMILIES
from schemas.objectives import Score
from schemas.progress import Progress, ProgressCallback

Floats = npt.NDArray[np.float64]


ESTIMATED = ("tokens", "documents", "shortened", "routed", "scored")
"""Columns of MEASURES_SCHEMA that are scaled by the sizes of units."""
ALL = "*"
"""Domain of a SupplyLine that counts all domains together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SupplyLine:
    """Tokens of one repository and kind of rows, in one domain or in ALL."""

    family: str
    row_length: int
    score: Score
    repository: str
    domain: str
    tokens: float
    """Valid tokens in training rows."""
    error: float
    """Standard error of `tokens`; 0 if `tokens` is counted rather than estimated."""
    scored: float
    """Scored tokens among `tokens`."""
    distinct: float
    """Tokens of new lines, which are lines that no earlier document shows."""
    documents: float
    """Number of documents with tokens in rows of this kind."""
    shortened: float
    """Number of documents with parts left out to fit a row."""
    routed: float
    """Number of documents that are too long for this row length and need longer rows."""
    held_out: float
    """Number of documents in split val, whatever their length."""

    @property
    def is_total(self) -> bool:
        """True if the line counts all domains."""
        return self.domain == ALL

    @property
    def kind(self) -> DocumentKind:
        """Family, row length and score."""
        return DocumentKind(family=self.family, row_length=self.row_length, score=self.score)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledShare:
    """Size of the sample of a repository or a source of conversations."""

    repository: str
    units: int
    """Number of commits with a change that the corpus reads, or of conversations in the source."""
    read: int
    walked: int
    """Number of commits whose graphs were walked."""
    num_bytes: int
    """Bytes of all file versions that the corpus reads, or of all turns."""
    in_log: int = 0
    """Number of commits in the log up to the repository's pin; 0 for conversations and plain folders."""
    unread: str = ""
    """Text with the number of commits that each limit excludes, highest number first."""


def _lines(
    taken: SampledCorpus, plan: SamplingPlan, kind: DocumentKind, foreseen: Set[str]
) -> Iterator[SupplyLine]:
    """Yield the SupplyLines of one kind, for each repository or source of conversations."""
    for repository in taken.surveys:
        sources = taken.sources(kind.family, repository, plan.corpus)
        if not sources:
            continue
        changes = _changes(taken, kind, repository, foreseen)
        earlier = _earlier(taken, kind, repository, changes)
        selection = taken.selections[kind.family]
        found = [measure(kind, source, selection, taken.tokenizer, earlier) for source in sources]
        counts = pl.concat([measured.counts for measured in found])
        if FAMILIES[kind.family].reads == "commits":
            lines = pl.concat([measured.lines for measured in found])
            yield from _graph_lines(taken, kind, repository, counts, lines)
        else:
            yield from _file_lines(taken, kind, repository, counts, changes)


def _file_lines(
    taken: SampledCorpus,
    kind: DocumentKind,
    repository: str,
    measured: pl.DataFrame,
    changes: pl.DataFrame,
) -> Iterator[SupplyLine]:
    """Yield the SupplyLines of a family whose documents show files.

    Tokens are assumed to be proportional to the bytes that a commit shows or edits in training files. The
    tokens of new lines are scaled by these bytes for the first document of each file, and by the number of
    changes for its later documents.
    """
    units, population = taken.sampled[repository], _population(taken, repository)

    def scaled(own: pl.DataFrame, name: str, sizes: pl.DataFrame) -> tuple[float, float]:
        return estimate_by_ratio(
            _amounts(own, name, units),
            _amounts(sizes.filter("is_train"), "size", units),
            whole=float(sizes.filter("trains")["size"].sum()),
            population=population,
        )

    first = changes.filter(earlier=0)
    later = changes.filter(pl.col("earlier") > 0).with_columns(size=1)
    for domain in (ALL, *sorted(measured["domain"].unique())):
        own = measured if domain == ALL else measured.filter(domain=domain)
        estimated = [scaled(own, name, changes)[0] for name in ESTIMATED]
        error = scaled(own, "tokens", changes)[1]
        distinct = scaled(own, "first", first)[0] + scaled(own, "later", later)[0]
        held = _count(own, "held_out", units, population)
        yield _line(kind, repository, domain, estimated, error, distinct, held)


def _graph_lines(
    taken: SampledCorpus,
    kind: DocumentKind,
    repository: str,
    measured: pl.DataFrame,
    lines: pl.DataFrame,
) -> Iterator[SupplyLine]:
    """Yield the SupplyLines of a family whose documents are built from graphs.

    Tokens are assumed to be proportional to the size of what a commit touches. Few commits are walked: they
    give the tokens per unit of size. The larger number of sampled commits give the sizes.
    """
    sizes, population = taken.sizes[repository], _population(taken, repository)
    walked, sampled = taken.walked[repository], taken.sampled[repository]
    known = _amounts(sizes, "size", walked)
    each_one = np.ones(len(sampled))
    distinct_share = 0.0
    for domain in (ALL, *sorted(sizes["domain"].unique())):
        own = sizes if domain == ALL else sizes.filter(domain=domain)
        measured_here = measured if domain == ALL else measured.filter(domain=domain)
        amounts = _amounts(own, "size", sampled)
        whole = estimate_by_ratio(amounts, each_one, whole=float(population), population=population)
        share = np.count_nonzero(amounts) / len(sampled)
        touching = max(len(walked), round(population * share))
        found = [
            product(
                estimate_by_ratio(
                    _amounts(measured, name, walked), known, whole=1.0, population=touching
                ),
                whole,
            )
            for name in ESTIMATED
        ]
        estimated, (tokens, error) = [amount for amount, _ in found], found[0]
        if domain == ALL and tokens:
            distinct = extrapolate_tokens(lines, read=len(walked), population=touching)
            distinct_share = min(distinct, estimated[-1]) / tokens
        held = _count(measured_here, "held_out", walked, population)
        yield _line(kind, repository, domain, estimated, error, distinct_share * tokens, held)


def _count(frame: pl.DataFrame, column: str, units: Sequence[str], population: int) -> float:
    """Return the total of `column` over all `population` units, scaled from its mean over `units`."""
    return float(_amounts(frame, column, units).sum()) * population / max(len(units), 1)


def _line(
    kind: DocumentKind,
    repository: str,
    domain: str,
    estimated: Sequence[float],
    error: float,
    distinct: float,
    held_out: float,
) -> SupplyLine:
    """Return the SupplyLine whose `estimated` values are in the order of ESTIMATED."""
    tokens, documents, shortened, routed, scored = estimated
    return SupplyLine(
        family=kind.family,
        row_length=kind.row_length,
        score=kind.score,
        repository=repository,
        domain=domain,
        tokens=tokens,
        error=error,
        scored=distinct if kind.score == "new" else scored,
        distinct=distinct,
        documents=documents,
        shortened=shortened,
        routed=routed,
        held_out=held_out,
    )


def _amounts(frame: pl.DataFrame, column: str, units: Sequence[str]) -> Floats:
    """Return the sum of `column` over the rows of each unit, [units]."""
    sums = dict(frame.group_by("unit").agg(pl.col(column).sum()).iter_rows())
    return np.array([float(sums.get(unit, 0)) for unit in units])


def _population(taken: SampledCorpus, repository: str) -> int:
    return taken.surveys[repository]["commit"].n_unique()


def _changes(
    taken: SampledCorpus, kind: DocumentKind, repository: str, foreseen: Set[str]
) -> pl.DataFrame:
    """Return a table of the changes that documents of a kind show.

    Its columns are unit, lineage, size, is_train, trains, earlier and unread. `size` is in bytes. `earlier`
    is the number of earlier documents of the same file, and `unread` is the number of earlier changes of the
    file that are not in the sample.

    `is_train` is True for training files in the split of the sample. `trains` is True for training files in
    the split of a build. If the sample lacks commits, `foreseen` predicts the files that a build holds out.
    """
    known = dict(read_sides(taken.selections[kind.family]).select("lineage", "split").iter_rows())
    column = "edits" if FAMILIES[kind.family].edits_only else "versions"
    survey = taken.surveys[repository].rename({"commit": "unit", column: "size"})
    trains = [lineage not in foreseen for lineage in survey["lineage"]]
    is_train = [
        known[lineage] == "train" if lineage in known else built
        for lineage, built in zip(survey["lineage"], trains, strict=True)
    ]
    is_unread = ~pl.col("unit").is_in(taken.sampled[repository])
    is_whole = len(taken.sampled[repository]) == _population(taken, repository)
    return (
        survey.with_columns(
            pl.Series("is_train", is_train, dtype=pl.Boolean),
            pl.Series("trains", is_train if is_whole else trains, dtype=pl.Boolean),
        )
        .filter(pl.col("size") > 0)
        .select(
            *("unit", "lineage", "size", "is_train", "trains"),
            earlier=pl.int_range(pl.len()).over("lineage") if kind.is_compared else 0,
            unread=(is_unread.cum_sum() - is_unread.cast(pl.UInt32)).over("lineage"),
        )
    )


def _earlier(
    taken: SampledCorpus, kind: DocumentKind, repository: str, changes: pl.DataFrame
) -> EarlierVersions:
    """Return what the log and the sample say about each file before its sampled changes."""
    if not kind.is_compared:
        return NOTHING_EARLIER
    before = taken.before[repository]
    ours = changes.filter(pl.col("unit").is_in(taken.sampled[repository]))
    unread = ours.select("unit", "lineage", "unread").iter_rows()
    return EarlierVersions(
        again=frozenset(ours.filter(pl.col("earlier") > 0).select("unit", "lineage").iter_rows()),
        unread={(unit, lineage): number for unit, lineage, number in unread},
        lines={
            (unit, lineage): keys.to_numpy()
            for unit, lineage, keys in zip(
                before["unit"], before["lineage"], before["keys"], strict=True
            )
        },
    )


def _samplings(
    taken: SampledCorpus, plan: SamplingPlan, kind: DocumentKind
) -> Iterator[SampledShare]:
    """Yield the size of the sample of each repository or source of conversations, for one kind."""
    talks = {conversation.name for conversation in plan.corpus.conversations}
    own = (
        document
        for document in taken.documents
        if document.manifest.labels["family"] == kind.family
    )
    has_graphs = FAMILIES[kind.family].reads == "commits" and any(own)
    limits = {
        repository.name: {
            "versions": plan.corpus.history.versions_per_path,
            MAX_COMMITS: repository.spec.max_commits,
        }
        for repository in plan.repositories
    }
    for name, survey in taken.surveys.items():
        if kind.family == CHAT_FAMILY or name not in talks:
            yield SampledShare(
                repository=name,
                units=_population(taken, name),
                read=len(taken.sampled[name]),
                walked=len(taken.walked.get(name, ())) if has_graphs else 0,
                num_bytes=int(survey["versions"].sum()),
                in_log=taken.histories[name].in_log,
                unread=unread_words(taken.histories[name].unread, limits.get(name, {})),
            )


_LIMITS = {
    "versions": "beyond versions_per_path",
    MAX_COMMITS: "beyond max_commits",
    WINDOW: "outside since and until",
    NO_FILE: "without a change of a file that the corpus reads",
    "excluded": "of files that include and exclude leave out",
    "vendored": "of vendored folders",
    "boundary": "at the end of the shallow clone",
}
"""Descriptions in words of the limits that exclude commits."""


def unread_words(unread: Mapping[str, int], limits: Mapping[str, int | None]) -> str:
    """Describe in words the commits that were not read, by the limit that excluded them.

    `unread` is the number of commits by limit, and `limits` is the value of each limit.

    >>> unread_words({"versions": 341, "merges": 40}, {"versions": 8})
    '341 beyond versions_per_path 8, 40 merges'
    """
    return ", ".join(
        f"{number:,} {_LIMITS.get(limit, limit.replace('_', ' '))} {limits.get(limit) or ''}".rstrip()
        for limit, number in unread.items()
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KindEstimate:
    """Estimate for one kind of rows: its supply by repository and domain, and the size of the sample."""

    lines: tuple[SupplyLine, ...]
    samplings: tuple[SampledShare, ...]
    files: tuple[FileSide, ...]
    """Files of the sample, the same for every kind."""
    shares: tuple[FileShare, ...]
    """Files of the sample with the most tokens of the family."""


def estimate_kinds(
    plan: SamplingPlan,
    kinds: Sequence[DocumentKind],
    tokenizing: Tokenizing,
    *,
    workers: int,
    watch: ProgressCallback,
) -> Iterator[KindEstimate]:
    """Sample a corpus in a temporary store and yield the estimate of each kind.

    The estimate of a kind doesn't depend on the other kinds.

    Raises:
        CorpusError: for a history without a usable file.
        TokenizerError: for a given tokenizer that can't be used.
    """
    with tempfile.TemporaryDirectory(prefix="curriculum-supply-") as folder:
        coordinator = _coordinator(Store(Path(folder)), plan, workers, watch)
        plan = readable_plan(coordinator, plan)
        taken = sample_corpus(coordinator, plan, tokenizing)
        foreseen = _foreseen(taken, plan)
        for done, kind in enumerate(kinds):
            watch(_progress(done, len(kinds)))
            yield KindEstimate(
                lines=tuple(_lines(taken, plan, kind, foreseen)),
                samplings=tuple(_samplings(taken, plan, kind)),
                files=tuple(taken.files),
                shares=tuple(share for share in taken.shares if share.family == kind.family),
            )
        watch(_progress(len(kinds), len(kinds)))


def _foreseen(taken: SampledCorpus, plan: SamplingPlan) -> frozenset[str]:
    """Return the files and conversations that a build is predicted to hold out.

    Files and conversations are split independently of each other.
    """
    code = {repository.name: taken.surveys[repository.name] for repository in plan.repositories}
    chats = {name: survey for name, survey in taken.surveys.items() if name not in code}
    fraction = plan.corpus.val_fraction
    return foreseen_val(code, val_fraction=fraction) | foreseen_val(chats, val_fraction=fraction)


def _coordinator(
    store: Store, plan: SamplingPlan, workers: int, watch: ProgressCallback
) -> Coordinator:
    """Return a coordinator whose workers may read the corpus and the workspace's indexes."""
    shelves = ("documents", "surveys", "tokens")
    sandbox = worker_rights(store, plan.corpus, plan.repositories, shelves)
    if sandbox is not None:
        indexes = [str(index.artefact.path) for index in plan.indexes if index.artefact]
        sandbox = replace(sandbox, read=(*sandbox.read, *indexes))
    processes = Workers(processes=workers)
    return Coordinator(store=store, workers=processes, sandbox=sandbox, watch=watch)


def _progress(done: int, total: int) -> Progress:
    return Progress(stage="count", item="tokens", done=done, total=total, unit="row lengths")
