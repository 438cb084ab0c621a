"""Packing plans that cut: documents end to end in a seeded order, cut every T tokens.

The usual packer of others, to compare best_fit.py with and for nothing else: every row of a domain but its
last is full, and nearly each begins inside a document. Where it is cut, a document becomes divisions, each
with a boundary of its own in its row: positions begin at 0, and nothing reads what an earlier row holds.

Where a BOS marks documents, one leads each later division, as in a document that is longer than a row
(encode/fit.py, interop/tokens_in.py); from it the token behind the cut is predicted. Without a BOS that
token is the first of its row, which nothing predicts.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum.packing.best_fit import Int64s, PackPlan, UInt64s, hashed
from curriculum.packing.boundaries import require_tokens
from curriculum.packing.spool import Encodings, Spool, SpooledDocuments
from curriculum.tokens.encoding import BYTE_END, BYTE_START, KIND, TOKEN_END, TOKEN_START
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE, RowFormat

REVISION = 1
"""Raised when the same documents are cut into other rows."""
BLOCK_TOKENS = 1 << 20
"""Tokens that are cut at a time."""
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChopPlan:
    """Rows of divisions: row i holds those from row_starts[i] to row_starts[i + 1].

    Lengths [3 5 2 4 1], in this order, in rows of 6, without a BOS and with one before later divisions:

        row_starts  [0 2 5 7]               [0 2 5 7]
        documents   [0 1 | 1 2 3 | 3 4]     [0 1 | 1 2 3 | 3 4]
        starts      [0 0 | 3 0 0 | 2 0]     [0 0 | 3 0 0 | 1 0]
        lengths     [3 3 | 2 2 2 | 2 1]     [3 3 | 3 2 1 | 4 1]
        led         [- - | - - - | - -]     [- - | 1 - - | 1 -]
    """

    row_length: int
    row_starts: Int64s
    """[n + 1]"""
    documents: Int64s
    """[d]: document that each is of; divisions of one follow each other."""
    starts: Int64s
    """[d]: first token of the document that is in it."""
    lengths: Int64s
    """[d]: tokens in the row, the BOS of a led one among them."""
    led: Bools
    """[d]: later divisions, where a BOS leads them."""

    @property
    def num_rows(self) -> int:
        """Rows of the plan."""
        return len(self.row_starts) - 1


def plan(lengths: Int64s, row_length: int, ties: UInt64s, seed: int, *, led: bool) -> ChopPlan:
    """Cut documents, shuffled by (seed, ties), every `row_length` tokens.

    What has one tie, as the encodings of one document have, stays in its order. Memory is some 60 bytes a
    document.

    Raises:
        PackError: for a document without a token.
    """
    assert len(lengths) == len(ties), "a tie for each document"
    require_tokens(lengths)
    order = np.argsort(hashed(ties, seed), kind="stable")
    cuts = cut(lengths[order], row_length, led=led)
    return ChopPlan(
        row_length=row_length,
        row_starts=cuts.row_starts,
        documents=order[cuts.documents],
        starts=cuts.starts,
        lengths=cuts.lengths,
        led=cuts.led,
    )


def cut(lengths: Int64s, row_length: int, *, led: bool) -> ChopPlan:
    """Cut documents in their order.

    >>> cuts = cut(np.array([3, 5, 2, 4, 1]), 6, led=False)
    >>> [row.tolist() for row in np.split(cuts.lengths, cuts.row_starts[1:-1])]
    [[3, 3], [2, 2, 2], [2, 1]]
    >>> cuts = cut(np.array([3, 5, 2, 4, 1]), 6, led=True)
    >>> [row.tolist() for row in np.split(cuts.lengths, cuts.row_starts[1:-1])]
    [[3, 3], [3, 2, 1], [4, 1]]
    """
    require_tokens(lengths)
    edges = np.concatenate([[0], np.cumsum(lengths)])
    row_edges = _row_edges(edges, row_length, led=led)
    borders = np.union1d(edges, row_edges)
    documents = np.searchsorted(edges, borders[:-1], side="right") - 1
    starts = borders[:-1] - edges[documents]
    later = (starts > 0) & led
    return ChopPlan(
        row_length=row_length,
        row_starts=np.searchsorted(borders, row_edges),
        documents=documents,
        starts=starts,
        lengths=np.diff(borders) + later,
        led=later,
    )


def _row_edges(edges: Int64s, row_length: int, *, led: bool) -> Int64s:
    """Tokens at which rows begin, and the last ends; documents begin and end at `edges`."""
    found, at, lead = [0], 0, 0
    while at < edges[-1]:
        at = min(at + row_length - lead, int(edges[-1]))
        found.append(at)
        lead = int(led and edges[np.searchsorted(edges, at)] != at)
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChopCounts:
    """Counts of rows that were cut."""

    begun_inside: int
    """Rows that begin inside a document."""
    divided: int
    """Documents in several rows."""
    unscored_rows: int
    """Rows without a token to learn from, which are left out."""
    unscored_row_tokens: int
    """Tokens in them."""


def rows_with_targets(plan: ChopPlan, scored: Int64s) -> tuple[PackPlan, ChopCounts]:
    """The rows that have a target, over the divisions of a plan; `scored` [d] counts those of each."""
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
    """Spool the divisions of a plan into an empty folder, as documents in the order of the rows."""
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
    """Some divisions; their documents are laid end to end and cut at `begins`."""
    documents, lengths, led = plan.documents[some], plan.lengths[some], plan.led[some]
    each = documents[np.flatnonzero(np.diff(documents, prepend=-1))]
    ids, mask = spooled.ids.take(each), spooled.loss_mask.take(each)
    taken = lengths - led
    begins = plan.starts[some][0] + np.cumsum(taken) - taken
    first, end = int(begins[0]), int(begins[-1] + taken[-1])
    # A BOS counts as the token before the cut did: both predict the token behind it.
    scored = np.insert(mask[first:end], begins[led] - first, mask[begins[led] - 1])
    scored[np.cumsum(lengths) - 1] = 0
    pieces = _cut_pieces(_joined_pieces(spooled, each), token_bytes[ids], begins, end)
    counts, pieces = _led_pieces(pieces, begins, led)
    return Encodings(
        document_ids=spooled.document_ids[documents],
        lengths=lengths,
        ids=np.insert(ids[first:end], begins[led] - first, bos_id),
        loss_mask=scored,
        piece_counts=counts,
        pieces=pieces.astype(np.int32),
    )


def _joined_pieces(spooled: SpooledDocuments, documents: Int64s) -> Int64s:
    """[k, 5]: the pieces of documents; token offsets count from the first one's first token."""
    lengths = spooled.lengths[documents]
    pieces = spooled.pieces.take(documents).astype(np.int64)
    before = np.repeat(np.cumsum(lengths) - lengths, spooled.pieces.counts(documents))
    pieces[:, (TOKEN_START, TOKEN_END)] += before[:, None]
    return pieces


def _cut_pieces(pieces: Int64s, sizes: Int32s, begins: Int64s, end: int) -> Int64s:
    """[k, 5]: pieces from begins[0] to `end`, cut at `begins`; the bytes of cut text follow its tokens.

    Tokens of 2 bytes: text 0:5 that is cut at 3 -> tokens 0:3 with bytes 0:6, and 3:5 with 6:10.
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


def _led_pieces(pieces: Int64s, begins: Int64s, led: Bools) -> tuple[Int64s, Int64s]:
    """Pieces in each division, and all of them: offsets count from its first token, which may be a BOS."""
    division = np.searchsorted(begins, pieces[:, TOKEN_START], side="right") - 1
    pieces[:, (TOKEN_START, TOKEN_END)] += (led - begins)[division][:, None]
    at = np.searchsorted(division, np.flatnonzero(led))
    leads = np.zeros((len(at), pieces.shape[1]), dtype=np.int64)
    leads[:, KIND], leads[:, TOKEN_END] = GENERATED_PIECE, 1
    leads[:, BYTE_START] = leads[:, BYTE_END] = pieces[at, BYTE_START]
    counts = np.bincount(division, minlength=len(begins)) + led
    return counts, np.insert(pieces, at, leads, axis=0)
