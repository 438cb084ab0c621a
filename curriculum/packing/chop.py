"""Packing plans that concatenate documents in a seeded order and cut them every T tokens.

Other pipelines usually pack in this way. This planner exists only for comparisons with best_fit.py. All rows
of a domain are full except the last one, and nearly every row begins inside a document. The parts of a cut
document are called divisions. A division is a document of its own in its row: positions begin at 0, and
attention doesn't reach earlier rows.

If documents begin with BOS, a BOS is inserted before each division except the first, as in documents longer
than a row (encode/fit.py, interop/tokens_in.py). The inserted BOS predicts the token after the cut. Without a
BOS, nothing predicts this token, because it is the first token of its row.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum.packing.best_fit import Int64s, PackPlan, UInt64s, seeded_hashes
from curriculum.packing.boundaries import require_tokens
from curriculum.packing.spool import Encodings, Spool, SpooledDocuments
from curriculum.tokens.encoding import BYTE_END, BYTE_START, KIND, TOKEN_END, TOKEN_START
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE, RowFormat

REVISION = 1
"""Revision of the planner. Raise it whenever the same documents are cut into other rows."""
BLOCK_TOKENS = 1 << 20
"""Number of tokens that are cut and written at a time."""
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChopPlan:
    """Assignment of divisions to rows: row i holds the divisions row_starts[i] to row_starts[i + 1].

    For example, documents of the lengths [3 5 2 4 1], in this order, in rows of 6 tokens. On the left no BOS
    is inserted, on the right one is inserted before each division except the first of a document:

        row_starts  [0 2 5 7]               [0 2 5 7]
        documents   [0 1 | 1 2 3 | 3 4]     [0 1 | 1 2 3 | 3 4]
        starts      [0 0 | 3 0 0 | 2 0]     [0 0 | 3 0 0 | 1 0]
        lengths     [3 3 | 2 2 2 | 2 1]     [3 3 | 3 2 1 | 4 1]
        with_bos    [- - | - - - | - -]     [- - | 1 - - | 1 -]
    """

    row_length: int
    row_starts: Int64s
    """[n + 1]: first division of each row, then the number of divisions."""
    documents: Int64s
    """[d]: document to which each division belongs; the divisions of a document are adjacent."""
    starts: Int64s
    """[d]: offset of each division's first token in its document."""
    lengths: Int64s
    """[d]: number of tokens of each division in its row, including an inserted BOS."""
    with_bos: Bools
    """[d]: True for each division before which a BOS is inserted."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_starts) - 1


def plan(
    lengths: Int64s, row_length: int, tie_breakers: UInt64s, seed: int, *, with_bos: bool
) -> ChopPlan:
    """Shuffle documents by (seed, tie_breakers) and cut them every `row_length` tokens.

    Documents with equal tie_breakers, such as the encodings of one document, keep their order. Planning takes
    about 60 bytes of memory per document.

    Raises:
        PackError: for an empty document.
    """
    assert len(lengths) == len(tie_breakers), "one tie breaker per document"
    require_tokens(lengths)
    order = np.argsort(seeded_hashes(tie_breakers, seed), kind="stable")
    cuts = cut(lengths[order], row_length, with_bos=with_bos)
    return ChopPlan(
        row_length=row_length,
        row_starts=cuts.row_starts,
        documents=order[cuts.documents],
        starts=cuts.starts,
        lengths=cuts.lengths,
        with_bos=cuts.with_bos,
    )


def cut(lengths: Int64s, row_length: int, *, with_bos: bool) -> ChopPlan:
    """Cut documents of these lengths every `row_length` tokens, in the given order.

    >>> cuts = cut(np.array([3, 5, 2, 4, 1]), 6, with_bos=False)
    >>> [row.tolist() for row in np.split(cuts.lengths, cuts.row_starts[1:-1])]
    [[3, 3], [2, 2, 2], [2, 1]]
    >>> cuts = cut(np.array([3, 5, 2, 4, 1]), 6, with_bos=True)
    >>> [row.tolist() for row in np.split(cuts.lengths, cuts.row_starts[1:-1])]
    [[3, 3], [3, 2, 1], [4, 1]]
    """
    require_tokens(lengths)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    row_edges = _row_edges(edges, row_length, with_bos=with_bos)
    borders = np.union1d(edges, row_edges)
    documents = np.searchsorted(edges, borders[:-1], side="right") - 1
    starts = borders[:-1] - edges[documents]
    later = (starts > 0) & with_bos
    return ChopPlan(
        row_length=row_length,
        row_starts=np.searchsorted(borders, row_edges),
        documents=documents,
        starts=starts,
        lengths=np.diff(borders) + later,
        with_bos=later,
    )


def _row_edges(edges: Int64s, row_length: int, *, with_bos: bool) -> Int64s:
    """Return the first token of each row, then the end of the last row.

    Tokens are counted through all documents; `edges` are the borders of the documents.
    """
    found, at, lead = [0], 0, 0
    while at < edges[-1]:
        at = min(at + row_length - lead, int(edges[-1]))
        found.append(at)
        lead = int(with_bos and edges[np.searchsorted(edges, at)] != at)
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChopCounts:
    """Counts of cut documents and rows."""

    begun_inside: int
    """Number of rows that begin inside a document."""
    divided: int
    """Number of documents that are divided over several rows."""
    unscored_rows: int
    """Number of rows that are dropped because they have no target."""
    unscored_row_tokens: int
    """Number of tokens in the dropped rows."""


def rows_with_targets(plan: ChopPlan, scored: Int64s) -> tuple[PackPlan, ChopCounts]:
    """Return a plan of those rows that have a target, and counts of the documents and rows.

    `scored` [d] is the number of targets in each division.
    """
    first, sizes = plan.row_starts[:-1], np.diff(plan.row_starts)
    kept = np.add.reduceat(scored, first) > 0
    inside = np.repeat(kept, sizes)
    rows = PackPlan(
        row_length=plan.row_length,
        order=np.flatnonzero(inside),
        row_starts=np.concatenate([[0], np.cumsum(sizes[kept])]),
    )
    return rows, ChopCounts(
        begun_inside=int((plan.starts[first][kept] > 0).sum()),
        divided=len(np.unique(plan.documents[plan.starts > 0])),
        unscored_rows=int((~kept).sum()),
        unscored_row_tokens=int(plan.lengths[~inside].sum()),
    )


def spool_divisions(
    spooled: SpooledDocuments,
    plan: ChopPlan,
    folder: Path,
    *,
    row_format: RowFormat,
    token_bytes: Int32s,
) -> SpooledDocuments:
    """Write the divisions of a plan into an empty folder; each becomes a document, in row order."""
    assert not spooled.structured, "structure isn't cut"
    block_rows = max(1, BLOCK_TOKENS // plan.row_length)
    with Spool(folder) as spool:
        for first in range(0, plan.num_rows, block_rows):
            edges = plan.row_starts[first : first + block_rows + 1]
            some = slice(int(edges[0]), int(edges[-1]))
            spool.extend(_divisions(spooled, plan, some, row_format.bos_id or 0, token_bytes))
    return SpooledDocuments(folder)


def _divisions(
    spooled: SpooledDocuments, plan: ChopPlan, some: slice, bos_id: int, token_bytes: Int32s
) -> Encodings:
    """Encode the range `some` of divisions: join their documents, then cut the tokens."""
    documents, lengths, with_bos = plan.documents[some], plan.lengths[some], plan.with_bos[some]
    distinct = documents[np.flatnonzero(np.diff(documents, prepend=-1))]
    ids, mask = spooled.ids.take(distinct), spooled.loss_mask.take(distinct)
    taken = lengths - with_bos
    begins = plan.starts[some][0] + np.cumsum(taken) - taken
    first, end = int(begins[0]), int(begins[-1] + taken[-1])
    # The BOS takes the loss mask of the token before the cut: both predict the token behind the cut.
    scored = np.insert(mask[first:end], begins[with_bos] - first, mask[begins[with_bos] - 1])
    scored[np.cumsum(lengths) - 1] = 0
    pieces = _cut_pieces(_joined_pieces(spooled, distinct), token_bytes[ids], begins, end)
    counts, pieces = _pieces_with_bos(pieces, begins, with_bos)
    return Encodings(
        document_ids=spooled.document_ids[documents],
        lengths=lengths,
        ids=np.insert(ids[first:end], begins[with_bos] - first, bos_id),
        loss_mask=scored,
        piece_counts=counts,
        pieces=pieces.astype(np.int32),
    )


def _joined_pieces(spooled: SpooledDocuments, documents: Int64s) -> Int64s:
    """Return the pieces [k, 5] of joined documents; token offsets count from the first document's start."""
    lengths = spooled.lengths[documents]
    pieces = spooled.pieces.take(documents).astype(np.int64)
    before = np.repeat(np.cumsum(lengths) - lengths, spooled.pieces.counts(documents))
    pieces[:, (TOKEN_START, TOKEN_END)] += before[:, None]
    return pieces


def _cut_pieces(pieces: Int64s, sizes: Int32s, begins: Int64s, end: int) -> Int64s:
    """Return the pieces from the token begins[0] to the token `end`, cut at each token of `begins`, [k, 5].

    The byte ranges of cut text are computed from the `sizes` of its tokens. With tokens of 2 bytes, a piece
    of the tokens 0:5 and the bytes 0:10, cut at 3, becomes tokens 0:3 with bytes 0:6 and tokens 3:5 with
    bytes 6:10.
    """
    borders = np.union1d(pieces[:, TOKEN_START], begins)
    borders = borders[(borders >= begins[0]) & (borders < end)]
    ends = np.append(borders[1:], end)
    whole = pieces[np.searchsorted(pieces[:, TOKEN_START], borders, side="right") - 1]
    before = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    is_text = whole[:, KIND] == TEXT_PIECE
    low = whole[:, BYTE_START] + is_text * (before[borders] - before[whole[:, TOKEN_START]])
    high = whole[:, BYTE_END] - is_text * (before[whole[:, TOKEN_END]] - before[ends])
    return np.stack((whole[:, KIND], borders, ends, low, high), axis=1)


def _pieces_with_bos(pieces: Int64s, begins: Int64s, with_bos: Bools) -> tuple[Int64s, Int64s]:
    """Return the number of pieces of each division, and all pieces.

    Each inserted BOS adds a generated piece. Token offsets count from the division's first token, which may
    be this BOS.
    """
    division = np.searchsorted(begins, pieces[:, TOKEN_START], side="right") - 1
    pieces[:, (TOKEN_START, TOKEN_END)] += (with_bos - begins)[division][:, None]
    at = np.searchsorted(division, np.flatnonzero(with_bos))
    leads = np.zeros((len(at), pieces.shape[1]), dtype=np.int64)
    leads[:, KIND], leads[:, TOKEN_END] = GENERATED_PIECE, 1
    leads[:, BYTE_START] = leads[:, BYTE_END] = pieces[at, BYTE_START]
    counts = np.bincount(division, minlength=len(begins)) + with_bos
    return counts, np.insert(pieces, at, leads, axis=0)
