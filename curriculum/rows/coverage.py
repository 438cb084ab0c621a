"""Rule 7 of the packed row: no byte of a document is taught twice, and pack_ids rise.

The byte ranges of all rows are compared by document. They are cut into partitions by a hash of the
document; past a million ranges the partitions lie on disk, so memory stays flat.
"""

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from curriculum.rows.columns import Columns
from curriculum.rows.faults import Fault, Faults, Place, Rule
from curriculum.rows.layout import Layout
from curriculum.rows.ragged import Int64s, Values
from schemas.packed_row import TEXT_PIECE

RANGE = np.dtype(
    [
        ("high", np.uint64),
        ("low", np.uint64),
        ("start", np.int32),
        ("end", np.int32),
        ("shard", np.int32),
        ("row", np.int64),
        ("doc", np.int32),
    ]
)
"""Bytes start:end of the document whose 128-bit hash is high, low stand in a row as its document doc."""
HELD_RANGES = 1 << 20
PARTITIONS = 64
LABELS = ("objective", "variant")
"""The same bytes may come again under another objective or variant."""


class Coverage:
    """Collects the ranges of one data set, and finds those that overlap."""

    def __init__(self, folder: Path, *, held_ranges: int = HELD_RANGES) -> None:
        """An empty folder for what doesn't fit into memory; the caller removes it."""
        self._folder = folder
        self._held: list[Values] = []
        self._held_ranges = held_ranges
        self._spilled = False
        self._last_pack_id = b""
        self._shards: list[str] = []

    def begin(self, shard: str) -> None:
        """What is added from now on stands in this shard."""
        self._shards.append(shard)

    def add(self, columns: Columns, layout: Layout, rows: Int64s) -> None:
        """The text ranges of rows whose pieces are sound; `rows` are their numbers in the shard."""
        ranges = _text_ranges(columns, layout, rows)
        ranges["shard"] = len(self._shards) - 1
        self._held.append(ranges)
        if sum(map(len, self._held)) > self._held_ranges:
            self._spill()

    def pack_ids(self, columns: Columns, place: Place) -> None:
        """Files a fault for each pack_id that isn't greater than the one before it, over all shards."""
        ids = [self._last_pack_id, *columns.text("pack_id")]
        self._last_pack_id = ids[-1]
        falls = np.array([after <= before for before, after in itertools.pairwise(ids)])
        place.wrong(
            Rule.COVERAGE,
            falls,
            "pack_ids rise",
            lambda i: f"pack_id {ids[i + 1].decode()} comes after {ids[i].decode()}",
        )

    def finish(self, faults: Faults) -> None:
        """Files a fault for each range that begins inside another of its document."""
        for ranges in self._partitions():
            self._overlaps(ranges, faults)

    def _overlaps(self, ranges: Values, faults: Faults) -> None:
        keys = [ranges[name] for name in ("row", "shard", "start", "low", "high")]
        ranges = ranges[np.lexsort(keys)]
        before, after = ranges[:-1], ranges[1:]
        same = (before["high"] == after["high"]) & (before["low"] == after["low"])
        for index in np.flatnonzero(same & (after["start"] < before["end"])).tolist():
            faults.add(self._fault(before[index], after[index]))

    def _fault(self, first: np.void, second: np.void) -> Fault:
        later, earlier = sorted((first, second), key=_place, reverse=True)
        start, end = second["start"], min(first["end"], second["end"])
        return Fault(
            rule=Rule.COVERAGE,
            shard=self._shards[later["shard"]],
            row=int(later["row"]),
            found=(
                f"bytes {start}:{end} of its document {later['doc']} stand in row {earlier['row']} of "
                f"{self._shards[earlier['shard']]} too"
            ),
            cause="a byte is taught once in each objective and variant",
        )

    def _spill(self) -> None:
        ranges = np.concatenate(self._held)
        self._held, self._spilled = [], True
        partition = ranges["high"] % PARTITIONS
        for number in range(PARTITIONS):
            with self._partition(number).open("ab") as file:
                ranges[partition == number].tofile(file)

    def _partitions(self) -> Iterator[Values]:
        if not self._spilled:
            yield np.concatenate([np.zeros(0, dtype=RANGE), *self._held])
            return
        self._spill()
        for number in range(PARTITIONS):
            yield np.fromfile(self._partition(number), dtype=RANGE)

    def _partition(self, number: int) -> Path:
        return self._folder / str(number)


def _text_ranges(columns: Columns, layout: Layout, rows: Int64s) -> Values:
    """Byte ranges of the text, continuing ones joined: 0:5, 5:9, 12:13, 13:20, 30:31 -> 0:9, 12:20, 30:31."""
    edges, piece = columns.offsets("pieces"), columns.fields("pieces")
    row = np.repeat(np.arange(len(columns)), np.diff(edges))
    text = piece["kind"] == TEXT_PIECE
    if not text.any():
        return np.zeros(0, dtype=RANGE)
    document = (layout.first_document[row] + piece["doc"])[text]
    start, end = piece["byte_start"][text], piece["byte_end"][text]
    begins = np.ones(len(start), dtype=np.bool_)
    begins[1:] = (document[1:] != document[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(begins)
    ranges = np.zeros(len(first), dtype=RANGE)
    names = _document_hashes(columns)[document[first]]
    ranges["high"], ranges["low"] = names[:, 0], names[:, 1]
    ranges["start"] = start[first]
    ranges["end"] = end[np.append(first[1:], len(end)) - 1]
    ranges["row"] = rows[layout.row[document[first]]]
    ranges["doc"] = layout.slot[document[first]]
    return ranges


def _document_hashes(columns: Columns) -> npt.NDArray[np.uint64]:
    """[d, 2]: of (document, objective, variant), by row and slot."""
    labels = [columns.text(name) for name in LABELS if columns.has(name)]
    suffixes = [b"\0".join(label) for label in zip(*labels, strict=True)] or [b""] * len(columns)
    counts = np.diff(columns.offsets("document_ids"))
    row = np.repeat(np.arange(len(columns)), counts).tolist()
    ids = columns.texts("document_ids")
    digests = [
        hashlib.blake2b(name + b"\0" + suffixes[i], digest_size=16).digest()
        for i, name in zip(row, ids, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def _place(found: np.void) -> tuple[int, int, int]:
    return int(found["shard"]), int(found["row"]), int(found["doc"])
