"""Valid tokens of rows or mixtures by document and origin, and differences between two counts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.inspection.lineage import UNKNOWN, inputs, origins
from curriculum.mixing.mix import PLAN_NAME
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from schemas.errors import StoreError

ROWS = "rows"
KINDS = ("phase", "serving", "family", "domain", "repository", "licence")
"""Kinds by which tokens are counted."""
DOCUMENT_COLUMNS = (*KINDS, "document_id", "path", "commit", "lineage", "tokens")
NO_LICENCE = "none"
_COLUMNS = ("document_ids", "doc_starts", "valid_token_count", "domain")
_TYPES: dict[str, pa.DataType] = {"tokens": pa.int64()}
_FIELDS = [pa.field(name, _TYPES.get(name, pa.string())) for name in DOCUMENT_COLUMNS]
_NOTHING = pa.schema(_FIELDS).empty_table()
_NO_TOKENS = _NOTHING.select(["document_id", "domain", "tokens"])
_SUM: Any = [("tokens", "sum")]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenCounts:
    """Valid tokens of some rows artefacts or mixtures, taken as one."""

    title: str
    artefacts: tuple[Artefact, ...]
    rows: int
    """Packed rows, each as often as it comes."""
    positions: int
    documents: pa.Table
    """A line a document and way in which it is served, of DOCUMENT_COLUMNS."""

    @property
    def tokens(self) -> int:
        """Valid tokens."""
        return sum(_values(self.documents, "tokens"))

    def by(self, kind: str) -> dict[str, int]:
        """Valid tokens by one of KINDS, or by document_id or lineage."""
        grouped = self.documents.group_by(kind).aggregate(_SUM)
        return dict(zip(_values(grouped, kind), _values(grouped, "tokens_sum"), strict=True))


def counted(store: Store, title: str, artefacts: Sequence[Artefact]) -> TokenCounts:
    """Count the valid tokens of rows and mixtures, document by document; `title` is for a reader.

    Raises:
        StoreError: where rows that a mixture draws on are gone.
    """
    by_key = {each.key: each for each in store.artefacts()}
    parts = [part for each in artefacts for part in _parts(store, each, by_key)]
    documents = pa.concat_tables([_NOTHING, *(part.documents for part in parts)])
    return TokenCounts(
        title=title,
        artefacts=tuple(artefacts),
        rows=sum(part.rows for part in parts),
        positions=sum(part.positions for part in parts),
        documents=documents,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """Rows taken of one rows artefact."""

    rows: int
    positions: int
    documents: pa.Table


def _parts(store: Store, artefact: Artefact, by_key: Mapping[str, Artefact]) -> Iterator[_Part]:
    """Yield the rows taken of each rows artefact: all of rows, of a mixture those in its plan."""
    if artefact.manifest.stage == ROWS:
        yield _part(store, artefact, None, phase="")
        return
    plan = parquet.read_table(artefact.path / PLAN_NAME, columns=["rows_key", "shard", "row"])
    for key in _values(plan, "rows_key", once=True):
        if key not in by_key:
            raise StoreError(
                str(artefact.path),
                f"rows {key[:KEY_DIGITS]}",
                cause="the plan draws on rows that are gone",
                cure="Build the phase again: the same key comes back",
            )
        mine = plan.filter(pc.field("rows_key") == key)
        phase = artefact.manifest.labels["phase"]
        yield _part(store, by_key[key], _Taken.of(mine), phase=phase)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Taken:
    """The rows that a plan takes of one artefact, a line a time."""

    shards: Int64s
    rows: Int64s

    @staticmethod
    def of(plan: pa.Table) -> "_Taken":
        """The lines of a plan that are of one artefact."""
        return _Taken(shards=plan["shard"].to_numpy(), rows=plan["row"].to_numpy())

    def times(self, shard: int, rows: int) -> Int64s:
        """[rows]: how often each row of a shard is taken."""
        return np.bincount(self.rows[self.shards == shard], minlength=rows).astype(np.int64)


def _part(store: Store, rows: Artefact, taken: _Taken | None, *, phase: str) -> _Part:
    labels = rows.manifest.labels
    length, number, pieces = int(labels["row_length"]), 0, []
    for shard, file in enumerate(rows.files(".parquet")):
        table = parquet.read_table(file, columns=list(_COLUMNS)).combine_chunks()
        ones = np.ones(len(table), np.int64)
        times = ones if taken is None else taken.times(shard, len(table))
        number += int(times.sum())
        pieces.append(_tokens(table, times))
    counted = (
        pa.concat_tables([_NO_TOKENS, *pieces]).group_by(["document_id", "domain"]).aggregate(_SUM)
    )
    counted = counted.rename_columns(["document_id", "domain", "tokens"])
    documents = _with_origins(store, rows, counted.filter(pc.field("tokens") > 0))
    family = f"{labels['family']} of {labels['base']}" if "base" in labels else labels["family"]
    packer = f" {labels['packer']}" if "packer" in labels else ""
    serving = f"{family} {labels['objective']} {length}{packer}"
    for name, value in (("family", family), ("serving", serving), ("phase", phase)):
        documents = documents.append_column(name, pa.array([value] * len(documents), pa.string()))
    return _Part(
        rows=number, positions=number * length, documents=documents.select(list(DOCUMENT_COLUMNS))
    )


def _tokens(table: pa.Table, times: Int64s) -> pa.Table:
    """A line a document in a row: its valid tokens, as often as the row comes.

    Two rows of 8, the second taken twice: documents of 3 and 5 tokens, and one of 6 before padding, are
    lines of 3, 5 and 12.
    """
    ids: Any = table["document_ids"].combine_chunks()
    starts: Any = table["doc_starts"].combine_chunks()
    parents = pc.list_parent_indices(ids).to_numpy().astype(np.int64)
    counts = pc.list_value_length(ids).to_numpy().astype(np.int64)
    within = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
    flat = starts.flatten().to_numpy().astype(np.int64)
    listed = pc.list_value_length(starts).to_numpy().astype(np.int64)
    first = np.repeat(np.cumsum(listed) - listed, counts) + within
    valid = table["valid_token_count"].to_numpy().astype(np.int64)[parents]
    is_last = within == counts[parents] - 1
    following = flat[np.minimum(first + 1, max(len(flat) - 1, 0))]
    lengths = np.where(is_last, valid, following) - flat[first]
    columns: dict[str, Any] = {
        "document_id": pc.cast(ids.flatten(), pa.string()),
        "domain": pc.cast(table["domain"], pa.string()).take(parents),
        "tokens": pa.array(lengths * times[parents]),
    }
    return pa.table(columns)


def _with_origins(store: Store, rows: Artefact, counted: pa.Table) -> pa.Table:
    """Counts with the origin of each document; unknown where the documents are gone."""
    known = origins(inputs(store, rows, "documents")).drop_columns(["family"])
    joined = counted.join(known, keys="document_id", join_type="left outer")
    is_known: Any = pc.is_valid(joined["repository"])
    columns: dict[str, Any] = {name: joined[name] for name in joined.column_names}
    for name in ("repository", "commit", "path", "lineage"):
        columns[name] = pc.fill_null(columns[name], UNKNOWN)
    licence = pc.fill_null(columns["licence"], NO_LICENCE)
    columns["licence"] = pc.if_else(is_known, licence, UNKNOWN)
    return pa.table(columns)


def _values(table: pa.Table, name: str, *, once: bool = False) -> list[Any]:
    column: Any = table[name]
    return list((pc.unique(column) if once else column).to_pylist())


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenChange:
    """Valid tokens of one thing before and after, and their share of all; 0 where it isn't there."""

    name: str
    tokens_before: int
    share_before: float
    tokens_after: int
    share_after: float
    tokens_change: int
    share_change: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentChange:
    """Valid tokens of a document before and after, and where it comes from."""

    document_id: str
    family: str
    repository: str
    commit: str
    path: str
    licence: str
    lineage: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TotalChange:
    """One total of all rows before and after."""

    name: str
    before: float
    after: float
    change: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedSide:
    """Name of one side of a difference, and the paths of its artefacts."""

    title: str
    paths: tuple[Path, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenDifference:
    """All that changes between two token counts."""

    before: CountedSide
    after: CountedSide
    totals: tuple[TotalChange, ...]
    by: Mapping[str, tuple[TokenChange, ...]]
    """Changes by KINDS, largest first."""
    documents: tuple[DocumentChange, ...]
    """Changes of documents, largest first; unchanged ones too."""


def difference(before: TokenCounts, after: TokenCounts) -> TokenDifference:
    """Compute the difference between two token counts."""
    sides = (before, after)
    named = (CountedSide(title=s.title, paths=tuple(a.path for a in s.artefacts)) for s in sides)
    first, last = named
    old, new = (_totals(side) for side in sides)
    return TokenDifference(
        before=first,
        after=last,
        totals=tuple(
            TotalChange(name=name, before=old[name], after=new[name], change=new[name] - old[name])
            for name in old
        ),
        by={kind: changes(before.by(kind), after.by(kind)) for kind in KINDS},
        documents=_document_changes(before, after),
    )


def _totals(side: TokenCounts) -> dict[str, float]:
    return {
        "tokens": side.tokens,
        "rows": side.rows,
        "documents": len(side.by("document_id")),
        "source_files": len(side.by("lineage")),
        "positions": side.positions,
        "padding_share": 1 - side.tokens / max(side.positions, 1),
    }


def _document_changes(before: TokenCounts, after: TokenCounts) -> tuple[DocumentChange, ...]:
    columns = [*list(DocumentChange.__dataclass_fields__)[:-2]]
    known: dict[str, dict[str, str]] = {
        line["document_id"]: line
        for side in (before, after)
        for line in side.documents.select(columns).to_pylist()
    }
    return tuple(
        DocumentChange(
            **known[change.name],
            tokens_before=change.tokens_before,
            tokens_after=change.tokens_after,
        )
        for change in changes(before.by("document_id"), after.by("document_id"))
    )


def changes(before: Mapping[str, int], after: Mapping[str, int]) -> tuple[TokenChange, ...]:
    """A change for each name, the largest first.

    >>> [(c.name, c.tokens_change, c.share_change) for c in changes({"a": 3, "b": 1}, {"b": 4})]
    [('a', -3, -0.75), ('b', 3, 0.75)]
    """
    old, new = ({**dict.fromkeys([*before, *after], 0), **side} for side in (before, after))
    all_old, all_new = max(sum(old.values()), 1), max(sum(new.values()), 1)
    found = [
        TokenChange(
            name=name,
            tokens_before=old[name],
            share_before=old[name] / all_old,
            tokens_after=new[name],
            share_after=new[name] / all_new,
            tokens_change=new[name] - old[name],
            share_change=new[name] / all_new - old[name] / all_old,
        )
        for name in old
    ]
    return tuple(sorted(found, key=lambda change: (-abs(change.tokens_change), change.name)))
