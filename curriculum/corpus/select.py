"""Selection over a whole corpus: the documents that are kept, and their side of the split.

No text is read: ids, lineages, times and provenance are enough. The same text in two repositories is kept in
the one that the corpus names first. Domains come after (domains.py), so that another rule for them moves
nothing here.

Documents of files decide the sides. Documents of graphs are selected later, each family by itself, on the
sides that are known then: what they say changes nothing for what was packed before.

No file and no copy of one is on both sides:

    lineage   repository:path, through renames
    cluster   lineages that share a byte-equal blob, and theirs: vendored copies, forks, moved files
    side      by the hash of the cluster's oldest lineage; with many repositories, of its repository

The oldest is the one whose repository the corpus names first, and in it the one that began first: what is
added to a corpus at its end, or to a history, takes the side of what was there.

`touched_files` finds the files whose functions each commit touched, as the documents of files show them:

    v3_simple   a `repeated` span, lines that a hunk added, meets a `body` span
    v2_simple   a file that is new, since v3 has nothing of it, with a `body` span
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from curriculum import frames
from schemas.corpus import CODE, CorpusSpec
from schemas.document import KEPT_SCHEMA, SIDES_SCHEMA
from schemas.reports import SelectionReport

WHOLE_REPOSITORIES = 20
"""Number of repositories from which on a repository is on one side as a whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lineage:
    """A lineage as the split needs it; `order` is its repository's place in the corpus."""

    name: str
    repository: str
    order: int
    since: int
    """Seconds UTC of its first document."""

    @property
    def age(self) -> tuple[int, int, str]:
        """Sorts the oldest first."""
        return self.order, self.since, self.name


def clusters(lineages: Iterable[Lineage], pairs: Iterable[tuple[str, str]]) -> dict[str, Lineage]:
    """The oldest lineage of each lineage's cluster, by name; `pairs` are names that share a blob.

    Memory is that of the lineages, not of the documents.
    """
    known = {lineage.name: lineage for lineage in lineages}
    parent = {name: name for name in known}
    for one, other in pairs:
        first, second = sorted(
            (known[_root(parent, one)], known[_root(parent, other)]), key=lambda each: each.age
        )
        parent[second.name] = first.name
    return {name: known[_root(parent, name)] for name in known}


def hash_fraction(unit: str) -> float:
    """Hash a unit to a number in [0, 1), the same for ever; below val_fraction is val."""
    return int.from_bytes(hashlib.sha256(unit.encode()).digest()[:7]) / 256**7


def held_out(
    units: Mapping[str, Sequence[str]], *, val_fraction: float
) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """The units in val, and the (family, unit) that had to join so that the family has any.

    `units` are those of each family. A family with a single unit keeps it in train.
    """
    val = {unit for each in units.values() for unit in each if hash_fraction(unit) < val_fraction}
    joined: list[tuple[str, str]] = []
    for family, own in units.items():
        if val.isdisjoint(own) and len(set(own)) > 1:
            lowest = min(own, key=lambda unit: (hash_fraction(unit), unit))
            val.add(lowest)
            joined.append((family, lowest))
    return frozenset(val), tuple(joined)


def held_out_alone(
    commits: Sequence[frozenset[str]], val: frozenset[str], *, val_fraction: float
) -> tuple[str, ...]:
    """The units that join val, lowest hash first, so that enough commits lie in it whole.

    `commits` are the units that each commit changed. A document of a commit that changed units on both
    sides is lost. Where that leaves val without any, it gets its fraction of all commits from those that
    changed one unit alone, and one at least; train keeps one at least.

    >>> commits = [frozenset("a"), frozenset("ab"), frozenset("b"), frozenset("c"), frozenset("c")]
    >>> held_out_alone(commits, frozenset(), val_fraction=0.4)
    ('c',)
    >>> held_out_alone(commits, frozenset("a"), val_fraction=0.4)
    ()
    """
    if any(changed <= val for changed in commits):
        return ()
    wanted, held = max(1, val_fraction * len(commits)), 0
    alone = Counter(next(iter(changed)) for changed in commits if len(changed) == 1)
    joined: list[str] = []
    candidates = sorted(alone.keys() - val, key=lambda unit: (hash_fraction(unit), unit))
    for unit in candidates[: len(alone) - 1]:
        if held >= wanted:
            break
        held += alone[unit]
        joined.append(unit)
    return tuple(joined)


def _root(parent: dict[str, str], name: str) -> str:
    """The root of a name's tree, halving the path on the way."""
    while parent[name] != name:
        parent[name] = parent[parent[name]]
        name = parent[name]
    return name


_WIDTH = 1 << 32
"""Room for the offsets of one document, so that those of all are one sorted column."""


def touched_files(rows: pl.LazyFrame) -> list[list[str]]:
    """Return the lineages in which each commit touched a function in C or C++.

    `rows` are documents with family, language, lineage, timestamp, spans and provenance. Costs a join of
    their spans, some 40 bytes each.
    """
    coded = (
        rows.filter(pl.col("language").is_in(sorted(CODE)))
        .with_columns(
            commit=pl.col("provenance").list.first().struct.field("commit"),
            kinds=pl.col("spans").list.eval(pl.element().struct.field("kind")),
        )
        .filter(pl.col("kinds").list.contains("body"))
        .select("family", "lineage", "commit", "timestamp", "spans")
    )
    edits = coded.filter(family="v3_simple").with_row_index("document").collect(engine="streaming")
    first = pl.col("timestamp") == pl.col("timestamp").min().over("lineage")
    new = (
        coded.filter(first, family="v2_simple")
        .select("lineage", "commit")
        .join(edits.lazy(), on=["lineage", "commit"], how="anti")
    )
    files = pl.concat([_edited(edits.lazy()).select("lineage", "commit"), new]).unique()
    found = files.group_by("commit").agg(pl.col("lineage").sort()).sort("commit")
    return found.collect(engine="streaming")["lineage"].to_list()


def _edited(documents: pl.LazyFrame) -> pl.LazyFrame:
    """The documents in which added lines meet a function's body."""
    place = pl.col("document").cast(pl.Int64) * _WIDTH
    spans = (
        documents.explode("spans")
        .unnest("spans")
        .select(
            "lineage", "commit", "kind", start=place + pl.col("start"), end=place + pl.col("end")
        )
    )
    bodies = spans.filter(kind="body").select(body_start="start", body_end="end").sort("body_end")
    added = spans.filter(kind="repeated").sort("start")
    # The first body that ends behind the place where the added lines begin.
    met = added.with_columns(at=pl.col("start") + 1).join_asof(
        bodies, left_on="at", right_on="body_end", strategy="forward"
    )
    return met.filter(pl.col("body_start") < pl.col("end"))


REVISION = 3
"""Raised when the same documents are kept or split otherwise."""
KEPT_NAME, SELECTION_NAME, SIDES_NAME = "kept.parquet", "selection.parquet", "sides.parquet"
GRAPHS = "graphs"
"""Stands for the families that are made of whole commits: their documents lie on one side only where all
files whose functions a commit changed do, so val needs files that some commits changed alone."""
ROWS_PER_GROUP = 100_000
KEY = ("family", "repository", "document_id")
_COLUMNS = (
    "document_id",
    "family",
    "language",
    "timestamp",
    "lineage",
    "spans",
    "provenance",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentsOf:
    """The documents of one family in one repository: a folder of part-*.parquet."""

    repository: str
    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Counts of a selection, in documents; `joined` are (family, unit) that had to join val."""

    documents: int
    repeated: int
    """Rows whose id a document of the same repository has already."""
    kept: int
    val: int
    rejected: tuple[tuple[str, int], ...]
    joined: tuple[tuple[str, str], ...]
    families_without_val: tuple[str, ...]

    def report(self) -> SelectionReport:
        """Values for a manifest."""
        return SelectionReport(
            documents=self.documents,
            repeated=self.repeated,
            kept=self.kept,
            val=self.val,
            rejected=dict(self.rejected),
            joined_val=tuple(f"{family}: {unit}" for family, unit in self.joined),
            families_without_val=self.families_without_val,
        )


def ingredients(corpus: CorpusSpec) -> dict[str, JsonValue]:
    """Return the settings of a corpus that decide a selection, beside its documents."""
    return {
        "repositories": [repository.name for repository in corpus.repositories],
        "val_fraction": corpus.val_fraction,
    }


def select(
    documents: Sequence[DocumentsOf], corpus: CorpusSpec, folder: Path, *, known: Path | None = None
) -> Summary:
    """Write which `documents` are kept and the sides of their files into `folder`.

    `known` are the sides that an earlier selection decided: they stay, and only files that it has never
    seen get one, that of a known file of the same bytes, else by their hash.

    Memory: some 200 bytes a document while it is sorted; what breaks first at 10⁸ documents.
    """
    order = {repository.name: i for i, repository in enumerate(corpus.repositories)}
    rows = _rows(documents, order)
    listed = _unique(rows)
    joined: tuple[tuple[str, str], ...] = ()
    if known is None:
        lineages = _lineages(rows)
        oldest = clusters(lineages, _sharing(rows))
        sides, joined = _splits(listed, lineages, oldest, touched_files(rows), corpus)
    else:
        sides = _extended(rows, frames.read(known), corpus)
    decided = _select(listed, sides, list(order))
    _write(decided, KEPT_SCHEMA, folder / KEPT_NAME)
    _write(sides.sort("lineage"), SIDES_SCHEMA, folder / SIDES_NAME)
    return _summary(decided, joined)


def _write(frame: pl.DataFrame, schema: pa.Schema, file: Path) -> None:
    table = frame.select(schema.names).to_arrow().cast(schema)
    pq.write_table(table, file, compression="zstd", row_group_size=ROWS_PER_GROUP)


def _rows(documents: Sequence[DocumentsOf], order: dict[str, int]) -> pl.LazyFrame:
    """One row a document: what the decisions rest on."""
    tables = []
    for each in documents:
        assert each.repository in order, f"{each.repository} is not in the corpus"
        tables.append(
            frames.stream(sorted(each.path.glob("part-*.parquet")), _COLUMNS).with_columns(
                repository=pl.lit(each.repository),
                order=pl.lit(order[each.repository], dtype=pl.Int32),
            )
        )
    return pl.concat(tables)


def _unique(rows: pl.LazyFrame) -> pl.DataFrame:
    """One row a document and repository, with the lineage that it has first; `rows` counts it."""
    return (
        rows.group_by(KEY)
        .agg(
            pl.col("order").first(),
            pl.col("lineage").sort_by("timestamp", "lineage").first(),
            pl.col("timestamp").min(),
            pl.len().alias("rows"),
        )
        .sort(KEY)
        .collect(engine="streaming")
    )


def _lineages(rows: pl.LazyFrame) -> list[Lineage]:
    found = (
        rows.group_by("lineage")
        .agg(pl.col("repository").first(), pl.col("order").min(), pl.col("timestamp").min())
        .collect(engine="streaming")
    )
    return [
        Lineage(name=name, repository=repository, order=order, since=since)
        for name, repository, order, since in found.sort("lineage").iter_rows()
    ]


def _cited(rows: pl.LazyFrame) -> pl.LazyFrame:
    """(lineage, blob, commit) of all that documents are made of, each once."""
    return (
        rows.select("provenance")
        .explode("provenance")
        .drop_nulls()
        .select(
            pl.col("provenance").struct.field(name).alias(name)
            for name in ("lineage", "blob", "commit")
        )
        .unique()
    )


def _sharing(rows: pl.LazyFrame) -> Iterator[tuple[str, str]]:
    """Pairs of lineages that share a blob: the first in the alphabet with each of the others."""
    pairs = (
        _cited(rows)
        .with_columns(first=pl.col("lineage").min().over("blob"))
        .filter(pl.col("first") != pl.col("lineage"))
        .select("first", "lineage")
        .unique()
        .sort("first", "lineage")
        .collect(engine="streaming")
    )
    return pairs.iter_rows()


def _splits(
    listed: pl.DataFrame,
    lineages: Sequence[Lineage],
    oldest: Mapping[str, Lineage],
    commits: Sequence[Sequence[str]],
    corpus: CorpusSpec,
) -> tuple[pl.DataFrame, tuple[tuple[str, str], ...]]:
    """(lineage, split, straddles) of all lineages, and the (family, unit) that had to join val.

    Only whole repositories can have a cluster on both sides; then its val members straddle.
    """
    whole = len(corpus.repositories) >= WHOLE_REPOSITORIES
    units = {each.name: each.repository if whole else oldest[each.name].name for each in lineages}
    val, joined = held_out(_units(listed, units), val_fraction=corpus.val_fraction)
    changed = [frozenset(units[name] for name in names) for names in commits]
    more = held_out_alone(changed, val, val_fraction=corpus.val_fraction)
    val, joined = val.union(more), (*joined, *((GRAPHS, unit) for unit in more))
    sides = pl.DataFrame(
        [(each.name, oldest[each.name].name, units[each.name] in val) for each in lineages],
        schema={"lineage": pl.String, "oldest": pl.String, "val": pl.Boolean},
        orient="row",
    )
    straddles = pl.col("val") & ~pl.col("val").all().over("oldest")
    split = pl.when("val").then(pl.lit("val")).otherwise(pl.lit("train"))
    return sides.with_columns(straddles=straddles, split=split), joined


def _extended(rows: pl.LazyFrame, known: pl.DataFrame, corpus: CorpusSpec) -> pl.DataFrame:
    """(lineage, split, oldest, straddles) of the known lineages and of those that only others cite."""
    cited = _cited(rows).select("lineage", "blob").unique().collect(engine="streaming")
    blobs = cited.join(known, on="lineage").group_by("blob").agg(pl.col("split").max())
    strange = cited.join(known, on="lineage", how="anti").join(blobs, on="blob", how="left")
    copies = strange.group_by("lineage").agg(pl.col("split").max()).sort("lineage")
    whole = len(corpus.repositories) >= WHOLE_REPOSITORIES
    hashed = [
        "val"
        if hash_fraction(name.partition(":")[0] if whole else name) < corpus.val_fraction
        else "train"
        for name in copies["lineage"]
    ]
    added = copies.select(
        "lineage", split=pl.coalesce("split", pl.Series("hashed", hashed, dtype=pl.String))
    )
    return pl.concat([known.select("lineage", "split"), added]).with_columns(
        oldest="lineage", straddles=pl.lit(value=False)
    )


def _units(listed: pl.DataFrame, units: Mapping[str, str]) -> dict[str, list[str]]:
    """The units of each family, in the order of families."""
    found: dict[str, list[str]] = {}
    pairs = listed.select("family", "lineage").unique().sort("family", "lineage")
    for family, lineage in pairs.iter_rows():
        found.setdefault(family, []).append(units[lineage])
    return found


def _select(listed: pl.DataFrame, sides: pl.DataFrame, repositories: list[str]) -> pl.DataFrame:
    """The selection's columns, and `rows`."""
    names = pl.lit(pl.Series(repositories, dtype=pl.String))
    first = pl.col("order").filter(~pl.col("straddles")).min().over("document_id")
    marked = listed.join(sides, on="lineage", how="left", validate="m:1").with_columns(first=first)
    duplicate = pl.col("order") > pl.col("first")
    straddles = pl.col("straddles")
    return marked.with_columns(
        keep=~(straddles | duplicate),
        reason=pl.when(straddles)
        .then(pl.lit("other_side"))
        .when(duplicate)
        .then(pl.lit("duplicate")),
        rule=pl.when(straddles)
        .then(pl.lit("a copy of the file is in train"))
        .when(duplicate)
        .then(pl.lit("the same text is kept once")),
        evidence=pl.when(straddles)
        .then(pl.col("oldest"))
        .when(duplicate)
        .then(names.gather(pl.col("first"))),
    ).sort(KEY)


def _summary(decided: pl.DataFrame, joined: tuple[tuple[str, str], ...]) -> Summary:
    kept = decided.filter("keep")
    val = kept.filter(pl.col("split") == "val")
    rejected = decided.filter(~pl.col("keep")).group_by("reason").len().sort("reason")
    without = set(decided["family"].unique()) - set(val["family"].unique())
    return Summary(
        documents=decided.height,
        repeated=int(decided["rows"].sum()) - decided.height,
        kept=kept.height,
        val=val.height,
        rejected=tuple(rejected.iter_rows()),
        joined=joined,
        families_without_val=tuple(sorted(without)),
    )
