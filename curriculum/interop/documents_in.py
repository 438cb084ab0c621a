"""Documents that know of no rows are packed into rows, as ours are: best fit, none that fits divided.

They are learnt causally, every token but a document's first being a target. A document longer than a row
is cut, and each cut counted; where a BOS marks documents, one leads each of its pieces.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.interop.derive_columns import FILLS, Completion, RowFacts
from curriculum.interop.publish import Imported, Shard
from curriculum.interop.token_files import TokenFiles
from curriculum.packing import best_fit
from curriculum.packing.layout import lists
from curriculum.packing.write import SHARD_TOKENS
from schemas.document import list_of
from schemas.errors import SchemaError
from schemas.manifest import TokenFormat
from schemas.packed_row import RowFormat
from schemas.reports import ImportReport

BATCH_TOKENS = 1 << 18
SEED = 17
Int64s = npt.NDArray[np.int64]
CAUSAL = "causal"


def token_lists(rows: npt.NDArray[Any]) -> Any:
    """[n, T] as n lists of T."""
    each = np.full(len(rows), rows.shape[1])
    return lists(pa.array(rows.reshape(-1)), each, pa.from_numpy_dtype(rows.dtype))


def packed_rows(
    tokens: TokenFiles, form: TokenFormat, said: RowFacts, row_format: RowFormat
) -> Imported:
    """Rows of documents that lie end to end.

    Raises:
        SchemaError: where no family is said, and where a BOS that must mark documents doesn't.
    """
    if said.family is None:
        raise SchemaError(
            "--family",
            cause="tokens don't say of which family they are",
            cure="Say it: --family v3_simple, or a name of your own",
        )
    if said.objective not in (None, CAUSAL):
        raise SchemaError(
            "--objective",
            said.objective,
            cause="without a loss mask every next token is a target, which is causal",
            cure="Leave it out, or import rows with a loss mask as Parquet",
        )
    known = {name: getattr(said, name) for name in ("family", "variant", "domain", "split")}
    facts = replace(FILLS, **{name: value for name, value in known.items() if value is not None})
    _require_bos(tokens, row_format)
    cuts = _cut(tokens.edges, row_format)
    return Imported(
        format=form,
        files=tokens.files,
        shards=_Packing(tokens, cuts, row_format).shards(),
        completion=Completion(row_format=row_format, facts=facts, stored=tuple(_PACKED.names)),
        settings={"pack_seed": SEED},
        notes=ImportReport(
            divided=cuts.divided,
            added_bos=cuts.added,
            empty=tokens.empty,
            unscored=int((cuts.lengths < 2).sum()),
        ),
    )


def _require_bos(tokens: TokenFiles, row_format: RowFormat) -> None:
    """Require that BOS begins each document and is nowhere else, where it marks documents."""
    if not row_format.bos_marks_documents:
        return
    leads = np.asarray(tokens.ids[tokens.edges[:-1]]) == row_format.bos_id
    marked = sum(
        int((tokens.ids[first : first + SHARD_TOKENS] == row_format.bos_id).sum())
        for first in range(0, len(tokens.ids), SHARD_TOKENS)
    )
    if not leads.all() or marked != len(leads):
        without = int(np.argmin(leads)) if not leads.all() else None
        raise SchemaError(
            str(tokens.path),
            f"no BOS {row_format.bos_id} begins document {without:,}"
            if without is not None
            else f"{marked:,} BOS in {len(leads):,} documents",
            cause="the tokenizer's BOS begins every document and stands nowhere else",
            cure="Say --document-tokens eos where documents have none, or give their tokenizer",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cuts:
    """Documents, and the pieces of those that are longer than a row."""

    starts: Int64s
    """[n], of each piece in the ids."""
    lengths: Int64s
    """[n], as they stand in a row: with the BOS that leads a later piece."""
    later: npt.NDArray[np.bool_]
    """[n], whether a BOS is put before it."""
    divided: int
    added: int


def _cut(edges: Int64s, row_format: RowFormat) -> _Cuts:
    """Rows of 4 with a BOS: a document of 9 becomes 4, BOS + 3, BOS + 2."""
    lengths, room = np.diff(edges), row_format.row_length
    lead = int(row_format.bos_marks_documents)
    long = np.flatnonzero(lengths > room)
    more = np.zeros(len(lengths), dtype=np.int64)
    more[long] = -(-(lengths[long] - room) // (room - lead))
    piece = _counted(more + 1)
    document = np.repeat(np.arange(len(lengths)), more + 1)
    inside = np.where(piece == 0, 0, room + (piece - 1) * (room - lead))
    left = lengths[document] - inside
    taken = np.minimum(left, np.where(piece == 0, room, room - lead))
    later = (piece > 0) & bool(lead)
    return _Cuts(
        starts=edges[:-1][document] + inside,
        lengths=taken + later,
        later=later,
        divided=len(long),
        added=int(later.sum()),
    )


def _counted(counts: Int64s) -> Int64s:
    """0, 1, 2 … for each count: [2 1 3] -> [0 1 0 0 1 2]."""
    ends = np.cumsum(counts)
    numbers: Int64s = np.arange(int(ends[-1])) - np.repeat(ends - counts, counts)
    return numbers


class _Packing:
    """Rows of documents, packed as ours are; 40 bytes a document."""

    def __init__(self, tokens: TokenFiles, cuts: _Cuts, row_format: RowFormat) -> None:
        self._tokens, self._cuts, self._format = tokens, cuts, row_format
        scored = np.flatnonzero(cuts.lengths > 1)
        raw = np.zeros((len(scored), 16), dtype=np.uint8)
        raw[:, :8] = scored.astype("<u8").view(np.uint8).reshape(-1, 8)
        plan = best_fit.plan(
            cuts.lengths[scored], row_format.row_length, best_fit.ties(raw, SEED), SEED
        )
        self._plan = plan.over(scored)

    def shards(self) -> list[Shard]:
        """Rows in shards of bounded size."""
        rows = max(1, SHARD_TOKENS // self._format.row_length)
        firsts = range(0, self._plan.num_rows, rows)
        return [self._shard(first, min(first + rows, self._plan.num_rows)) for first in firsts]

    def _shard(self, first: int, last: int) -> Shard:
        at_once = max(1, BATCH_TOKENS // self._format.row_length)

        def tables() -> Iterator[pa.Table]:
            for row in range(first, last, at_once):
                yield self._table(row, min(row + at_once, last))

        return Shard(name=self._tokens.path.name, tables=tables)

    def _table(self, first: int, last: int) -> pa.Table:
        edges = self._plan.row_starts[first : last + 1]
        shape = last - first, self._format.row_length
        ids = np.full(shape, self._format.pad_id, dtype=np.int32)
        mask = np.zeros(shape, dtype=np.uint8)
        starts: list[int] = []
        valid = np.zeros(last - first, dtype=np.int32)
        for row in range(last - first):
            at = 0
            for document in self._plan.order[edges[row] : edges[row + 1]].tolist():
                starts.append(at)
                at = self._put(ids[row], mask[row], at, document)
            valid[row] = at
        counts = np.diff(edges)
        return pa.table(
            {
                "input_ids": token_lists(ids),
                "loss_mask": token_lists(mask),
                "doc_starts": lists(pa.array(np.array(starts, dtype=np.int32)), counts, pa.int32()),
                "valid_token_count": pa.array(valid),
            },
            schema=_PACKED,
        )

    def _put(self, ids: Any, mask: Any, at: int, document: int) -> int:
        """Put a document into a row at a position; the position after it."""
        cuts = self._cuts
        end = at + int(cuts.lengths[document])
        mask[at : end - 1] = 1
        if cuts.later[document]:
            ids[at] = self._format.bos_id
            at += 1
        start = int(cuts.starts[document])
        ids[at:end] = self._tokens.ids[start : start + end - at]
        return end


_PACKED = pa.schema(
    [
        pa.field("input_ids", list_of(pa.int32())),
        pa.field("loss_mask", list_of(pa.uint8())),
        pa.field("doc_starts", list_of(pa.int32())),
        pa.field("valid_token_count", pa.int32()),
    ]
)
