"""Packing plans: global, exact best-fit-decreasing, at a cost per distinct length.

Best-fit-decreasing takes documents from the longest down and puts each into the fullest row that still
has room. Rows that are equally full are interchangeable, and so are documents of one length. So the
planner moves whole groups: *m rows with r tokens left take k documents of length l each*. A million
documents are some ten thousand such moves, each found in a byte map of the residuals that exist.

No document that fits is ever divided. Memory is some 60 bytes a document while planning, 8 after; past
a few 10⁸ documents, plan domain by domain.
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
    """Row i holds the documents order[row_starts[i] : row_starts[i + 1]], in this order.

    Lengths [3 5 2 4 1] into rows of 8 -> rows {5 3} and {4 2 1}: order [1 0 3 2 4], row_starts [0 2 5],
    or the same two rows the other way round, as the seed has it.
    """

    row_length: int
    order: Int64s
    row_starts: Int64s

    @property
    def num_rows(self) -> int:
        """Rows of the plan."""
        return len(self.row_starts) - 1

    def over(self, documents: Int64s) -> "PackPlan":
        """The same rows for a plan made of a subset: order [1 0] over documents [4 9] -> [9 4]."""
        return replace(self, order=documents[self.order])


def ties(document_ids: npt.NDArray[np.uint8], seed: int) -> UInt64s:
    """Return hashes of (document, seed) that order one length, from ids of 16 raw bytes, [n, 16].

    A family that only adds columns to another passes the ids of its base documents, and so packs alike.
    """
    first = np.ascontiguousarray(document_ids[:, :8]).view("<u8")[:, 0]
    return hashed(first, seed)


def hashed(words: UInt64s, seed: int) -> UInt64s:
    """Return a bijection of words that a seed chooses: sorted by it, they are shuffled."""
    return mixed_words(words ^ _seed_word(seed))


def plan(lengths: Int64s, row_length: int, ties: UInt64s, seed: int) -> PackPlan:
    """Rows as full as exact best-fit-decreasing makes them, shuffled by (seed, ties).

    Documents of one length are taken in the order of their ties, so with distinct ties the rows don't
    depend on the order of the input. A row holds its longest document first.

    Raises:
        PackError: for a document without a token, and for one longer than a row, which fitting has to divide
            or route before.
    """
    assert len(lengths) == len(ties), "a tie for each document"
    if len(lengths) == 0:
        return PackPlan(row_length=row_length, order=_empty(), row_starts=np.zeros(1, np.int64))
    _refuse_misfits(lengths, row_length)
    by_tie = np.argsort(ties, kind="stable")
    longest_first = by_tie[_stable_order(row_length - lengths[by_tie])]
    rows = _rows_of(_best_fit_decreasing(_histogram(lengths, row_length), row_length))
    rows = _shuffled(rows, ties[longest_first], seed)
    counts = np.bincount(rows)
    return PackPlan(
        row_length=row_length,
        order=longest_first[_stable_order(rows)],
        row_starts=np.concatenate([[0], np.cumsum(counts)]),
    )


def rows_needed(lengths: Int64s, row_length: int) -> int:
    """Rows of a plan of these lengths, which isn't made: its cost is that of the distinct lengths.

    >>> rows_needed(np.array([3, 5, 2, 4, 1]), 8), rows_needed(np.array([], dtype=np.int64), 8)
    (2, 0)

    Raises:
        PackError: for a document without a token, and for one longer than a row.
    """
    if len(lengths) == 0:
        return 0
    _refuse_misfits(lengths, row_length)
    moves = _best_fit_decreasing(_histogram(lengths, row_length), row_length)
    return max(move.first_row + move.rows for move in moves)


FIRST_FIT_DOCUMENTS = 50_000
"""Documents that first fit is tried on, for comparison: 0.4 s."""


def first_fit_rows(lengths: Int64s, row_length: int) -> int:
    """Rows of first fit in order: each document goes into the first row that has room for it.

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
    """Rows first_row … first_row + rows - 1 take the next documents of one length, `each` apiece."""

    first_row: int
    rows: int
    each: int


def _best_fit_decreasing(histogram: list[tuple[int, int]], row_length: int) -> list[Move]:
    """Moves in the order of the documents, for (length, count) from the longest length down.

    The fullest row that fits takes documents of one length until it has no room for another: what it
    has left still is the least that fits. Rows of one residual follow each other as a stack.
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
            each = min(residual // length, count)
            taking = min(rows, count // each)
            moves.append(Move(first_row, taking, each))
            count -= taking * each
            put(residual - each * length, first_row, taking)
            put(residual, first_row + taking, rows - taking)
    return moves


def _histogram(lengths: Int64s, row_length: int) -> list[tuple[int, int]]:
    counts = np.bincount(lengths, minlength=row_length + 1)
    present = np.flatnonzero(counts)[::-1]
    return list(zip(present.tolist(), counts[present].tolist(), strict=True))


def _rows_of(moves: list[Move]) -> Int64s:
    """The row of each document: moves (row 0, 2 rows, 2 each), (row 1, 1, 1) -> [0 0 1 1 1]."""
    first_row, rows, each = np.array(moves, dtype=np.int64).T
    documents = rows * each
    begins = np.cumsum(documents) - documents
    within: Int64s = np.arange(int(documents.sum()), dtype=np.int64) - np.repeat(begins, documents)
    within //= np.repeat(each, documents)
    within += np.repeat(first_row, documents)
    return within


def _shuffled(rows: Int64s, ties: UInt64s, seed: int) -> Int64s:
    """Rows renumbered by a hash of (seed, the ties they hold)."""
    sums = np.zeros(int(rows.max()) + 1, dtype=np.uint64)
    np.add.at(sums, rows, ties)
    places = np.empty(len(sums), dtype=np.int64)
    places[np.argsort(hashed(sums, seed), kind="stable")] = np.arange(len(sums))
    return places[rows]


def _stable_order(keys: Int64s) -> Int64s:
    """np.argsort(keys, kind="stable") for keys ≥ 0, by 16 bits at a time, which numpy sorts by radix."""
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
            cause=f"a row has {row_length}, and packing neither divides nor truncates",
            cure="Fit documents to the row length first",
        )


def _empty() -> Int64s:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class PackReport:
    """Figures of a plan that don't depend on a machine."""

    row_length: int
    rows: int
    fewest_rows: int
    """⌈tokens / T⌉: what no packing can go below."""
    documents: int
    tokens: int
    attention_pairs: int
    """Σ len·(len+1)/2 over documents: what masked attention computes."""
    unmasked_pairs: int
    """rows · T·(T+1)/2: what attention over whole rows computes."""
    context_histogram: tuple[int, ...]
    """Tokens with < 1k, 1–4k, 4–16k, > 16k tokens of their own document before them, first ones left out."""
    first_fit_yield: float
    """The yield of first fit in order, 0…1, on the first FIRST_FIT_DOCUMENTS documents."""

    @property
    def pack_yield(self) -> float:
        """Valid tokens over positions, 0…1."""
        return self.tokens / max(1, self.rows * self.row_length)

    @property
    def padded_yield(self) -> float:
        """The yield, had each document a row of its own."""
        return self.tokens / max(1, self.documents * self.row_length)

    @property
    def documents_per_row(self) -> float:
        """Mean number of documents in a row."""
        return self.documents / max(1, self.rows)

    def cost(self, *, positions_per_gpu_second: float, price_per_gpu_hour: float) -> float:
        """Cost of one epoch over the rows, in the price's currency."""
        gpu_seconds = self.rows * self.row_length / positions_per_gpu_second
        return gpu_seconds / 3600 * price_per_gpu_hour

    def padded_cost(self, *, positions_per_gpu_second: float, price_per_gpu_hour: float) -> float:
        """Cost of the same documents, each in a row of its own."""
        gpu_seconds = self.documents * self.row_length / positions_per_gpu_second
        return gpu_seconds / 3600 * price_per_gpu_hour


def report(plan: PackPlan, lengths: Int64s) -> PackReport:
    """The figures of a plan over the documents it packs; `lengths` are those that `order` indexes."""
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
            lengths[np.sort(plan.order)[:FIRST_FIT_DOCUMENTS]], row_length
        ),
    )


def _first_fit_yield(lengths: Int64s, row_length: int) -> float:
    return int(lengths.sum()) / max(1, first_fit_rows(lengths, row_length) * row_length)


def context_histogram(lengths: Int64s) -> tuple[int, ...]:
    """Tokens of documents by how many stand before them in their document, first tokens left out.

    A document of 5 tokens adds those with 1, 2, 3, 4 before them: 4 to the first bucket.
    """
    below = [np.minimum(np.maximum(lengths, 1), edge).sum() for edge in (1, *HISTOGRAM_EDGES)]
    return tuple(np.diff([*below, lengths.sum()]).astype(int).tolist())
