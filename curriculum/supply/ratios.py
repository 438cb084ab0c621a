"""Tokens to train on, by kind of rows: those of sampled commits and conversations, scaled by ratios."""

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import encode, frames
from curriculum.corpus.decisions import decisions, read_sides, val_lineages
from curriculum.corpus.split import side_fraction
from curriculum.corpus.survey import MAX_COMMITS, NO_FILE, WINDOW
from curriculum.objectives import objective_of
from curriculum.stages.file_shares import FileShare
from curriculum.stages.file_sides import FileSide
from curriculum.stages.row_sources import RowSource, apply_objective
from curriculum.stages.stage import Coordinator, Workers
from curriculum.stages.tokens import Tokenizing
from curriculum.stages.worker_rights import worker_rights
from curriculum.store import Artefact, Store
from curriculum.supply.sampled_corpus import (
    SampledCorpus,
    SamplingPlan,
    readable_plan,
    sample_corpus,
)
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.store import TokenStore
from schemas.families import CHAT_FAMILY, FAMILIES
from schemas.objectives import CHAT_OBJECTIVE, USUAL_OBJECTIVE
from schemas.progress import Progress, ProgressCallback

Floats = npt.NDArray[np.float64]


def by_ratio(
    amounts: Floats, sizes: Floats, *, whole: float, population: int
) -> tuple[float, float]:
    """Estimate the total of all units, and its standard error; 0 for an error where all units are sampled.

    `amounts` and `sizes` [n] are those of the sampled units, `whole` is the size of all `population` units.
    The error is that of a ratio under simple sampling without replacement; of one unit it is the amount.

    >>> by_ratio(np.array([10.0, 20.0]), np.array([1.0, 2.0]), whole=30.0, population=20)
    (300.0, 0.0)
    >>> by_ratio(np.array([10.0, 26.0]), np.array([1.0, 2.0]), whole=3.0, population=2)
    (36.0, 0.0)
    """
    assert len(amounts) == len(sizes) <= population
    sampled = float(sizes.sum())
    if not sampled:
        return 0.0, 0.0
    total = float(amounts.sum()) * whole / sampled
    number = len(amounts)
    if number == population:
        return total, 0.0
    if number == 1:
        return total, total
    residuals = amounts - amounts.sum() / sampled * sizes
    variance = float(residuals @ residuals) / (number - 1)
    spread = number * (1 - number / population) * variance
    return total, whole / sampled * math.sqrt(spread)


MEASURES_SCHEMA = pl.Schema(
    {
        "unit": pl.String,
        "domain": pl.String,
        "tokens": pl.Int64,
        "documents": pl.Int64,
        "shortened": pl.Int64,
        "routed": pl.Int64,
        "held_out": pl.Int64,
    }
)
"""Columns by unit, a commit or a conversation, and domain: valid tokens of rows to train on, documents that
have some, those among them that leave out parts to fit, documents that are too long for such a row, and
documents that are held out."""


ESTIMATED = ("tokens", "documents", "shortened", "routed")
"""Columns of MEASURES_SCHEMA that are scaled with the sizes of units."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Kind:
    """Documents of a family in rows of some length."""

    family: str
    """Never v6_enriched: what has structure is as long as without."""
    row_length: int

    @property
    def objective(self) -> str:
        """The one that leaves most as it is."""
        return CHAT_OBJECTIVE if self.family == CHAT_FAMILY else USUAL_OBJECTIVE


def measure(
    kind: Kind, source: RowSource, selection: Artefact, tokenizer: Tokenizer
) -> pl.DataFrame:
    """A table of MEASURES_SCHEMA, of the documents that the selection keeps; in no order."""
    built = objective_of(kind.objective, tokenizer, variant=0)
    room = kind.row_length - built.reserve
    fitter = encode.fitter_of(
        tokenizer, row_length=room, family=kind.family, overlong=source.overlong
    )
    picked = decisions(selection, source.documents)
    units = _units(source.documents)
    rows = []
    for fitted in encode.encode_documents(
        source.documents.shards(),
        TokenStore.open(source.tokens.path),
        fitter,
        kept=picked.kept & ~picked.val,
        val=picked.val,
        val_lineages=val_lineages(selection),
        objective=apply_objective(built, tokenizer, row_length=kind.row_length),
    ):
        domain = picked.domains[int(picked.domain[fitted.row])]
        tokens = sum(len(encoding.ids) for encoding in fitted.encodings)
        routed = int(fitted.outcome in ("routed", "too_long"))
        shortened = int(tokens > 0 and fitted.elided_bytes > fitted.other_side_bytes)
        rows.append((units[fitted.row], domain, tokens, int(tokens > 0), shortened, routed, 0))
    rows += [
        (units[at], picked.domains[int(picked.domain[at])], 0, 0, 0, 0, 1)
        for at in np.flatnonzero(picked.kept & picked.val)
    ]
    frame = pl.DataFrame(rows, schema=MEASURES_SCHEMA, orient="row")
    return frame.group_by("unit", "domain").sum()


def _units(documents: Artefact) -> list[str]:
    """Return the commit of each document; of a conversation its digest."""
    own = "blob" if documents.manifest.labels["family"] == CHAT_FAMILY else "commit"
    cited = frames.scan(documents.shards(), ["provenance"]).select(
        pl.col("provenance").list.first().struct.field(own)
    )
    return cited.collect().to_series().to_list()


ALL = "*"
"""The domain of a line that counts all domains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SupplyLine:
    """Tokens of one repository and kind of rows, in one domain or in ALL."""

    family: str
    row_length: int
    repository: str
    domain: str
    tokens: float
    """Valid tokens of rows to train on."""
    error: float
    """Their standard error; 0 where nothing is estimated."""
    documents: float
    """Number of documents that have tokens in such rows."""
    shortened: float
    """Number of those documents that leave out parts to fit a row."""
    routed: float
    """Number of documents that are too long for such a row and wait for a longer one."""
    held_out: float
    """Number of documents of split val, whatever their length."""

    @property
    def is_total(self) -> bool:
        """Return True if it counts all domains."""
        return self.domain == ALL

    @property
    def kind(self) -> Kind:
        """Family and row length."""
        return Kind(family=self.family, row_length=self.row_length)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """Sampled share of a repository, or of a source of conversations."""

    repository: str
    units: int
    """Commits with a change that the corpus reads; of a source its conversations."""
    read: int
    walked: int
    """Commits whose graphs were walked."""
    num_bytes: int
    """Bytes of all versions of files that the corpus reads, or of all turns."""
    in_log: int = 0
    """Commits that lead to the pin; 0 for conversations and plain directories."""
    unread: str = ""
    """Number of those of which nothing is read by what limits it, in words; the most first."""


def _lines(taken: SampledCorpus, plan: SamplingPlan, kind: Kind) -> Iterator[SupplyLine]:
    """Yield the lines of each repository or source of one kind."""
    for repository in taken.surveys:
        overlong = plan.corpus.overlong_of(repository)
        sources = taken.sources(kind.family, repository, overlong)
        if sources:
            selection = taken.selections[kind.family]
            frames = [measure(kind, each, selection, taken.tokenizer) for each in sources]
            found = pl.concat(frames)
            if FAMILIES[kind.family].reads == "commits":
                yield from _graph_lines(taken, kind, repository, found)
            else:
                yield from _file_lines(taken, plan, kind, repository, found)


def _file_lines(
    taken: SampledCorpus, plan: SamplingPlan, kind: Kind, repository: str, measured: pl.DataFrame
) -> Iterator[SupplyLine]:
    """Tokens go with the bytes that a commit shows, or edited, of files on the train side."""
    column = "edits" if FAMILIES[kind.family].edits_only else "versions"
    sizes = _bytes_by_commit(taken, plan, kind, repository, column)
    units = taken.sampled[repository]
    known = np.array([float(sizes.get(each, 0)) for each in units])
    whole, population = float(sum(sizes.values())), _population(taken, repository)
    for domain in (ALL, *sorted(measured["domain"].unique())):
        own = measured if domain == ALL else measured.filter(domain=domain)
        estimated = tuple(
            by_ratio(_amounts(own, name, units), known, whole=whole, population=population)
            for name in ESTIMATED
        )
        held = _count(own, "held_out", units, population)
        yield _line(kind, repository, domain, estimated, held)


def _graph_lines(
    taken: SampledCorpus, kind: Kind, repository: str, measured: pl.DataFrame
) -> Iterator[SupplyLine]:
    """Tokens go with what a commit touched: walked commits tell how many, sampled ones how much of it."""
    sizes, population = taken.sizes[repository], _population(taken, repository)
    walked, sampled = taken.walked[repository], taken.sampled[repository]
    known = _amounts(sizes, "size", walked)
    each_one = np.ones(len(sampled))
    for domain in (ALL, *sorted(sizes["domain"].unique())):
        own = sizes if domain == ALL else sizes.filter(domain=domain)
        measured_here = measured if domain == ALL else measured.filter(domain=domain)
        amounts = _amounts(own, "size", sampled)
        whole = by_ratio(amounts, each_one, whole=float(population), population=population)
        share = np.count_nonzero(amounts) / len(sampled)
        touching = max(len(walked), round(population * share))
        estimated = tuple(
            _product(
                by_ratio(_amounts(measured, name, walked), known, whole=1.0, population=touching),
                whole,
            )
            for name in ESTIMATED
        )
        held = _count(measured_here, "held_out", walked, population)
        yield _line(kind, repository, domain, estimated, held)


def _count(frame: pl.DataFrame, column: str, units: Sequence[str], population: int) -> float:
    """The sum of a column over all units, by its mean over some."""
    return float(_amounts(frame, column, units).sum()) * population / max(len(units), 1)


def _line(
    kind: Kind,
    repository: str,
    domain: str,
    estimated: Sequence[tuple[float, float]],
    held_out: float,
) -> SupplyLine:
    """The line of estimates with their errors, in the order of ESTIMATED."""
    tokens, documents, shortened, routed = estimated
    return SupplyLine(
        family=kind.family,
        row_length=kind.row_length,
        repository=repository,
        domain=domain,
        tokens=tokens[0],
        error=tokens[1],
        documents=documents[0],
        shortened=shortened[0],
        routed=routed[0],
        held_out=held_out,
    )


def _product(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The product of two estimates, and its standard error.

    >>> _product((10.0, 3.0), (2.0, 0.8))
    (20.0, 10.0)
    """
    return one[0] * other[0], math.hypot(one[1] * other[0], one[0] * other[1])


def _amounts(frame: pl.DataFrame, column: str, units: Sequence[str]) -> Floats:
    """[units]: the sum of a column over the rows of each."""
    sums = dict(frame.group_by("unit").agg(pl.col(column).sum()).iter_rows())
    return np.array([float(sums.get(each, 0)) for each in units])


def _population(taken: SampledCorpus, repository: str) -> int:
    return taken.surveys[repository]["commit"].n_unique()


def _bytes_by_commit(
    taken: SampledCorpus, plan: SamplingPlan, kind: Kind, repository: str, column: str
) -> dict[str, int]:
    """Return bytes of train-side files by commit; a file not in the sample goes by its hash."""
    selection = taken.selections[kind.family]
    sides = read_sides(selection)
    known = dict(sides.select("lineage", "split").iter_rows())
    survey = taken.surveys[repository]
    train = [
        known[each] == "train"
        if each in known
        else side_fraction(each, len(plan.corpus.repositories)) >= plan.corpus.val_fraction
        for each in survey["lineage"]
    ]
    ours = survey.filter(pl.Series(train, dtype=pl.Boolean))
    return dict(ours.group_by("commit").agg(pl.col(column).sum()).iter_rows())


def _samplings(taken: SampledCorpus, plan: SamplingPlan, kind: Kind) -> Iterator[Sampling]:
    """Yield what was read for a kind: conversations, and walked commits, for those that need them."""
    talks = {each.name for each in plan.corpus.conversations}
    own = (each for each in taken.documents if each.manifest.labels["family"] == kind.family)
    has_graphs = FAMILIES[kind.family].reads == "commits" and any(own)
    limits = {
        each.name: {
            "versions": plan.corpus.history.versions_per_path,
            MAX_COMMITS: each.spec.max_commits,
        }
        for each in plan.repositories
    }
    for name, survey in taken.surveys.items():
        if kind.family == CHAT_FAMILY or name not in talks:
            yield Sampling(
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
"""Words for what leaves commits out."""


def unread_words(unread: Mapping[str, int], limits: Mapping[str, int | None]) -> str:
    """Count commits by what leaves them out, with the numbers of the limits.

    >>> unread_words({"versions": 341, "merges": 40}, {"versions": 8})
    '341 beyond versions_per_path 8, 40 merges'
    """
    return ", ".join(
        f"{number:,} {_LIMITS.get(limit, limit.replace('_', ' '))} {limits.get(limit) or ''}".rstrip()
        for limit, number in unread.items()
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KindEstimate:
    """Supply of one kind of rows, by repository and domain, and the sample that it comes from."""

    lines: tuple[SupplyLine, ...]
    samplings: tuple[Sampling, ...]
    files: tuple[FileSide, ...]
    """Files of the sample, whatever the kind."""
    shares: tuple[FileShare, ...]
    """Files of the sample with most tokens of the family."""


def estimate_kinds(
    plan: SamplingPlan,
    kinds: Sequence[Kind],
    tokenizing: Tokenizing,
    *,
    workers: int,
    watch: ProgressCallback,
) -> Iterator[KindEstimate]:
    """Sample a corpus in a throw-away store, and yield the estimate of each kind; none depends on another.

    Raises:
        CorpusError: for a history without a file to read.
        TokenizerError: for a given tokenizer that can't be used.
    """
    with tempfile.TemporaryDirectory(prefix="curriculum-supply-") as folder:
        coordinator = _coordinator(Store(Path(folder)), plan, workers, watch)
        plan = readable_plan(coordinator, plan)
        taken = sample_corpus(coordinator, plan, tokenizing)
        for done, kind in enumerate(kinds):
            watch(_progress(done, len(kinds)))
            yield KindEstimate(
                lines=tuple(_lines(taken, plan, kind)),
                samplings=tuple(_samplings(taken, plan, kind)),
                files=tuple(taken.files),
                shares=tuple(each for each in taken.shares if each.family == kind.family),
            )
        watch(_progress(len(kinds), len(kinds)))


def _coordinator(
    store: Store, plan: SamplingPlan, workers: int, watch: ProgressCallback
) -> Coordinator:
    """Return one whose workers read the corpus, and indexes of the workspace."""
    shelves = ("documents", "surveys", "tokens")
    sandbox = worker_rights(store, plan.corpus, plan.repositories, shelves)
    if sandbox is not None:
        indexes = [str(each.artefact.path) for each in plan.indexes if each.artefact]
        sandbox = replace(sandbox, read=(*sandbox.read, *indexes))
    processes = Workers(processes=workers)
    return Coordinator(store=store, workers=processes, sandbox=sandbox, watch=watch)


def _progress(done: int, total: int) -> Progress:
    return Progress(stage="count", item="tokens", done=done, total=total, unit="row lengths")
