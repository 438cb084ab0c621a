"""Packing plans by exact, global best-fit decreasing; the cost grows with the number of distinct lengths.

Best-fit decreasing takes documents from the longest to the shortest and puts every document into the fullest
row with enough free space. Rows with equal free space are interchangeable, and so are documents of equal
length. The planner therefore moves whole groups: *m rows with r free tokens take k documents of length l
each*. A million documents need about ten thousand such moves. To find the row for a move, the planner keeps a
byte map of the amounts of free space that existing rows have.

A document that fits into a row is never divided. Planning takes about 60 bytes of memory per document; the
plan itself takes 8. For more than a few 10⁸ documents, plan each domain on its own.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from curriculum.packing.boundaries import require_tokens
from curriculum.splitmix import mixed_words
from schemas.errors import PackError
from schemas.packed_row import HISTOGRAM_EDGES

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True, slots=True)
class PackPlan:
    """Assignment of documents to rows: row i holds order[row_starts[i] : row_starts[i + 1]], in this order.

    Example: documents of the lengths [3 5 2 4 1] in rows of 8 tokens give the rows {5 3} and {4 2 1}, which
    are stored as order [1 0 3 2 4] and row_starts [0 2 5]. The seed decides which of the two rows comes
    first.
    """

    row_length: int
    order: Int64s
    row_starts: Int64s

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.row_starts) - 1

    def reindex(self, documents: Int64s) -> "PackPlan":
        """Return the plan with document i replaced by documents[i].

        With order [1 0], documents [4 9] give order [9 4].
        """
        return replace(self, order=documents[self.order])


def tie_breakers(document_ids: npt.NDArray[np.uint8], seed: int) -> UInt64s:
    """Return a hash of (document id, seed) for each document, which orders documents of equal length.

    `document_ids` [n, 16] are raw ids. A family that only adds columns to another family passes the ids of
    its base documents, so that both families are packed in the same way.
    """
    first = np.ascontiguousarray(document_ids[:, :8]).view("<u8")[:, 0]
    return seeded_hashes(first, seed)


def seeded_hashes(words: UInt64s, seed: int) -> UInt64s:
    """Hash words by a bijection that the seed selects. Sorting by the hashes shuffles the words."""
    return mixed_words(words ^ _seed_word(seed))


def plan(lengths: Int64s, row_length: int, tie_breakers: UInt64s, seed: int) -> PackPlan:
    """Plan rows by exact best-fit decreasing, and shuffle the rows by (seed, tie_breakers).

    Documents of equal length are taken in the order of their tie_breakers. With distinct tie_breakers, the
    rows don't depend on the order of the input. Every row begins with its longest document.

    Raises:
        PackError: for an empty document, and for a document longer than a row. Divide or drop long
            documents before packing.
    """
    assert len(lengths) == len(tie_breakers), "one tie breaker per document"
    if len(lengths) == 0:
        return PackPlan(row_length=row_length, order=_empty(), row_starts=np.zeros(1, np.int64))
    _refuse_misfits(lengths, row_length)
    by_tie_breaker = np.argsort(tie_breakers, kind="stable")
    longest_first = by_tie_breaker[_stable_order(row_length - lengths[by_tie_breaker])]
    rows = _rows_of(_best_fit_decreasing(_histogram(lengths, row_length), row_length))
    rows = _shuffled(rows, tie_breakers[longest_first], seed)
    counts = np.bincount(rows)
    return PackPlan(
        row_length=row_length,
        order=longest_first[_stable_order(rows)],
        row_starts=np.concatenate([[0], np.cumsum(counts)]),
    )


def rows_needed(lengths: Int64s, row_length: int) -> int:
    """Return how many rows a plan for documents of these lengths has, without planning.

    The cost depends on the number of distinct lengths.

    >>> rows_needed(np.array([3, 5, 2, 4, 1]), 8), rows_needed(np.array([], dtype=np.int64), 8)
    (2, 0)

    Raises:
        PackError: for an empty document, and for a document longer than a row.
    """
    if len(lengths) == 0:
        return 0
    _refuse_misfits(lengths, row_length)
    moves = _best_fit_decreasing(_histogram(lengths, row_length), row_length)
    return max(move.first_row + move.rows for move in moves)


MAX_FIRST_FIT_DOCUMENTS = 50_000
"""Maximum number of documents on which first fit runs for comparison, which takes 0.4 s."""


def first_fit_rows(lengths: Int64s, row_length: int) -> int:
    """Return how many rows first fit needs, which puts each document into the first row with enough space.

    Documents are taken in the given order.

    >>> first_fit_rows(np.array([3, 5, 2, 4, 1]), 6)
    3
    """
    size = 1 << len(lengths).bit_length()
    room = [row_length] * (2 * size)
    rows = 0
    for length in lengths.tolist():
        node = 1
        while node < size:
            node = 2 * node if room[2 * node] >= length else 2 * node + 1
        rows = max(rows, node - size + 1)
        room[node] -= length
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return rows


class Move(NamedTuple):
    """Assignment of the next documents of one length to rows.

    Each of the `rows` rows from `first_row` on gets `documents_per_row` of these documents.
    """

    first_row: int
    rows: int
    documents_per_row: int


def _best_fit_decreasing(histogram: list[tuple[int, int]], row_length: int) -> list[Move]:
    """Return the moves for the (length, count) pairs in `histogram`, which begins with the longest length.

    A row that has taken a document also takes the next documents of this length as long as they fit: after
    each document, it is still the fullest row in which they fit. Rows with equal free space form a stack.
    """
    exists = bytearray(row_length + 1)
    stacks: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    moves: list[Move] = []
    opened = 0

    def put(residual: int, first_row: int, rows: int) -> None:
        if rows:
            stacks[residual].append((first_row, rows))
            exists[residual] = 1

    for length, count in histogram:
        while count:
            residual = exists.find(1, length)
            if residual < 0:
                residual = row_length
                needed = -(-count // (row_length // length))
                put(row_length, opened, needed)
                opened += needed
            stack = stacks[residual]
            first_row, rows = stack.pop()
            exists[residual] = bool(stack)
            per_row = min(residual // length, count)
            taking = min(rows, count // per_row)
            moves.append(Move(first_row, taking, per_row))
            count -= taking * per_row
            put(residual - per_row * length, first_row, taking)
            put(residual, first_row + taking, rows - taking)
    return moves


def _histogram(lengths: Int64s, row_length: int) -> list[tuple[int, int]]:
    counts = np.bincount(lengths, minlength=row_length + 1)
    present = np.flatnonzero(counts)[::-1]
    return list(zip(present.tolist(), counts[present].tolist(), strict=True))


def _rows_of(moves: list[Move]) -> Int64s:
    """Return the row of every document.

    The moves (first_row 0, 2 rows, 2 documents per row) and (first_row 1, 1 row, 1 document) give [0 0 1 1
    1].
    """
    first_row, rows, per_row = np.array(moves, dtype=np.int64).T
    documents = rows * per_row
    begins = np.cumsum(documents) - documents
    within: Int64s = np.arange(int(documents.sum()), dtype=np.int64) - np.repeat(begins, documents)
    within //= np.repeat(per_row, documents)
    within += np.repeat(first_row, documents)
    return within


def _shuffled(rows: Int64s, tie_breakers: UInt64s, seed: int) -> Int64s:
    """Renumber rows in the order of a hash of the seed and the tie_breakers of their documents."""
    sums = np.zeros(int(rows.max()) + 1, dtype=np.uint64)
    np.add.at(sums, rows, tie_breakers)
    places = np.empty(len(sums), dtype=np.int64)
    places[np.argsort(seeded_hashes(sums, seed), kind="stable")] = np.arange(len(sums))
    return places[rows]


def _stable_order(keys: Int64s) -> Int64s:
    """Return np.argsort(keys, kind="stable") for keys ≥ 0, but faster.

    The keys are sorted by 16 bits at a time, for which numpy uses a radix sort.
    """
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    largest = int(keys.max())
    for shift in range(16, largest.bit_length(), 16):
        digit = ((keys[order] >> shift) & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order


def _seed_word(seed: int) -> np.uint64:
    golden = np.uint64(0x9E3779B97F4A7C15)
    return np.uint64(mixed_words(np.array([seed % 2**64], dtype=np.uint64) + golden)[0])


def _refuse_misfits(lengths: Int64s, row_length: int) -> None:
    require_tokens(lengths)
    longest = int(lengths.argmax())
    if lengths[longest] > row_length:
        raise PackError(
            f"document {longest}",
            f"{lengths[longest]} tokens",
            cause=f"a row has {row_length} tokens, and packing neither divides nor truncates documents",
            cure="Fit documents to the row length before packing",
        )


def _empty() -> Int64s:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackReport:
    """Statistics of a plan, none of which depends on the machine."""

    row_length: int
    rows: int
    fewest_rows: int
    """⌈tokens / T⌉, the minimum number of rows of any packing."""
    documents: int
    tokens: int
    attention_pairs: int
    """Number of pairs that masked attention computes: Σ len·(len+1)/2 over the documents."""
    unmasked_pairs: int
    """Number of pairs that attention over whole rows computes: rows · T·(T+1)/2."""
    context_histogram: tuple[int, ...]
    """Numbers of tokens with < 1k, 1–4k, 4–16k, > 16k preceding tokens of their document; first tokens don't
    count.
    """
    first_fit_yield: float
    """Yield of first fit, 0…1, for the first MAX_FIRST_FIT_DOCUMENTS documents in their order."""

    @property
    def pack_yield(self) -> float:
        """Share of positions that are tokens and not padding, 0…1."""
        return self.tokens / max(1, self.rows * self.row_length)

    @property
    def padded_yield(self) -> float:
        """Share of positions that would be tokens and not padding if every document had its own row, 0…1."""
        return self.tokens / max(1, self.documents * self.row_length)

    @property
    def documents_per_row(self) -> float:
        """Mean number of documents in a row."""
        return self.documents / max(1, self.rows)

    def cost(self, *, positions_per_gpu_second: float, price_per_gpu_hour: float) -> float:
        """Return the cost of one epoch over the rows, in the currency of the price."""
        gpu_seconds = self.rows * self.row_length / positions_per_gpu_second
        return gpu_seconds / 3600 * price_per_gpu_hour

    def padded_cost(self, *, positions_per_gpu_second: float, price_per_gpu_hour: float) -> float:
        """Return the cost of one epoch if every document had its own row."""
        gpu_seconds = self.documents * self.row_length / positions_per_gpu_second
        return gpu_seconds / 3600 * price_per_gpu_hour


def report(plan: PackPlan, lengths: Int64s) -> PackReport:
    """Compute the statistics of a plan, whose `order` contains indices into `lengths`."""
    packed = lengths[plan.order].astype(np.int64)
    tokens, row_length = int(packed.sum()), plan.row_length
    return PackReport(
        row_length=row_length,
        rows=plan.num_rows,
        fewest_rows=-(-tokens // row_length),
        documents=len(packed),
        tokens=tokens,
        attention_pairs=int((packed * (packed + 1) // 2).sum()),
        unmasked_pairs=plan.num_rows * (row_length * (row_length + 1) // 2),
        context_histogram=context_histogram(packed),
        first_fit_yield=_first_fit_yield(
            lengths[np.sort(plan.order)[:MAX_FIRST_FIT_DOCUMENTS]], row_length
        ),
    )


def _first_fit_yield(lengths: Int64s, row_length: int) -> float:
    return int(lengths.sum()) / max(1, first_fit_rows(lengths, row_length) * row_length)


def context_histogram(lengths: Int64s) -> tuple[int, ...]:
    """Count tokens by the number of tokens that precede them in their document; first tokens don't count.

    A document of 5 tokens has tokens with 1, 2, 3 and 4 preceding tokens: it adds 4 to the first bucket.
    """
    below = [np.minimum(np.maximum(lengths, 1), edge).sum() for edge in (1, *HISTOGRAM_EDGES)]
    return tuple(np.diff([*below, lengths.sum()]).astype(int).tolist())
