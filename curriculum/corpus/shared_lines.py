"""Lineages that share much of their text: edited copies, and files that were merged into others.

A window is WINDOW consecutive lines of a version of a file. White space, braces, includes and the leading
comment are removed first, so that reformatting changes few windows. Two lineages belong together if at least
a fifth of the windows of the smaller one occur in the other.

For the split, near copies (near_copies.py) are not enough. Their similarity misses files that have diverged,
and a small file inside of a large one. Lines that such files share would then be on both sides.

Windows are 64-bit hashes. If a corpus has more than MAX_WINDOWS, only hashes below a limit are kept, and the
limit is halved until the windows fit (FracMinHash). A share in this sample estimates the share of all
windows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from curriculum.corpus.shingles import without_leading_comment
from curriculum.splitmix import mixed_words

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

WINDOW = 3
MIN_LINE_BYTES = 2
"""Minimum number of bytes in a line that counts; a single semicolon or parenthesis doesn't."""
MIN_SHARED = 3
"""Minimum number of windows that two lineages must share; fewer may be coincidence."""
MIN_SHARE = 0.2
"""Minimum share of the windows of the smaller lineage that the other one must have."""
MAX_WINDOWS = 1 << 23
"""Maximum number of windows in memory; a window needs 12 bytes, and three times as many while sorting."""
MAX_SHARERS = 10
"""Size of the largest group of lineages with a common window in which all pairs are counted.

In a larger group, each lineage is paired only with its neighbours, which still joins all copies.
"""

_SKIPPED = np.isin(np.arange(256), np.frombuffer(b" \t\r\f\v{}", dtype=np.uint8))
"""True for the bytes of white space and braces, which formatters move between lines."""
_random = np.random.Generator(np.random.PCG64(5))
_BYTES: UInt64s = _random.integers(1 << 64, size=256, dtype=np.uint64)
_PLACES: UInt64s = _random.integers(1 << 64, size=4_096, dtype=np.uint64) | np.uint64(1)
_NEWLINE = ord("\n")


def windows(text: str) -> UInt64s:
    r"""Return the hashes of a file's windows, sorted and distinct.

    >>> one, other = windows("f();\n  g();\n\nh();\n"), windows("// A\n#include <a>\nf( );\ng();\nh();")
    >>> len(one), one.tolist() == other.tolist()
    (1, True)
    """
    lines = _lines(without_leading_comment(text).encode() + b"\n")
    if len(lines) < WINDOW:
        return np.empty(0, dtype=np.uint64)
    joined = np.zeros(len(lines) - WINDOW + 1, dtype=np.uint64)
    for at in range(WINDOW):
        joined = mixed_words(joined + lines[at : at + len(joined)])
    return np.unique(joined)


def _lines(data: bytes) -> UInt64s:
    """Return the hash of each line that windows consist of, in order.

    The last byte of `data` must be a line feed.
    """
    every = np.frombuffer(data, dtype=np.uint8)
    kept = every[~_SKIPPED[every]]
    ends = np.flatnonzero(kept == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    place = np.arange(len(kept)) - np.repeat(starts, lengths + 1)
    hashes = np.add.reduceat(_BYTES[kept] * _PLACES[place % len(_PLACES)], starts)
    include = np.frombuffer(b"#include", dtype=np.uint8)
    at = np.minimum(starts[:, None] + np.arange(len(include)), len(kept) - 1)
    is_include = (kept[at] == include).all(axis=1)
    return mixed_words(hashes[(lengths >= MIN_LINE_BYTES) & ~is_include])


def lineages_with_shared_text(
    versions: Iterable[tuple[str, str]], *, max_windows: int = MAX_WINDOWS
) -> Iterator[tuple[str, str]]:
    """Yield pairs of lineages that share much text; `versions` are pairs (lineage, text) in any order."""
    numbers: dict[str, int] = {}
    sample = _Sample(max_windows=max_windows)
    for lineage, text in versions:
        sample.add(windows(text), numbers.setdefault(lineage, len(numbers)))
    names = sorted(numbers)
    rank = np.empty(len(names), dtype=np.int64)
    rank[[numbers[name] for name in names]] = np.arange(len(names))
    hashes, owners = sample.sorted()
    for first, second in _pairs(hashes, rank[owners], len(names)).tolist():
        yield names[first], names[second]


@dataclass(kw_only=True, slots=True)
class _Sample:
    """Windows of all lineages that were added: sorted ones, and new ones that aren't merged yet."""

    max_windows: int
    limit: int = 1 << 64
    """Only hashes below this limit are kept."""
    hashes: UInt64s = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    owners: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    _waiting: list[tuple[UInt64s, int]] = field(default_factory=list)
    _waiting_count: int = 0

    def add(self, hashes: UInt64s, owner: int) -> None:
        """Add the sorted windows of a version of lineage number `owner`."""
        kept = hashes[: np.searchsorted(hashes, np.uint64(self.limit - 1), side="right")]
        self._waiting.append((kept, owner))
        self._waiting_count += len(kept)
        if self._waiting_count > max(self.max_windows // 4, len(self.hashes) // 2):
            self._merge()

    def sorted(self) -> tuple[UInt64s, npt.NDArray[np.int32]]:
        """Return the distinct windows of each lineage, as arrays of hashes and owners, sorted by hash."""
        self._merge()
        return self.hashes, self.owners

    def _merge(self) -> None:
        added = [np.full(len(new), owner, dtype=np.int32) for new, owner in self._waiting]
        hashes = np.concatenate([self.hashes, *(new for new, _ in self._waiting)])
        owners = np.concatenate([self.owners, *added])
        self._waiting, self._waiting_count = [], 0
        order = np.lexsort((owners, hashes))
        hashes, owners = hashes[order], owners[order]
        is_new = np.ones(len(hashes), dtype=np.bool_)
        is_new[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
        self.hashes, self.owners = hashes[is_new], owners[is_new]
        while len(self.hashes) > self.max_windows:
            self.limit //= 2
            end = int(np.searchsorted(self.hashes, np.uint64(self.limit)))
            self.hashes, self.owners = self.hashes[:end].copy(), self.owners[:end].copy()


def _pairs(hashes: UInt64s, owners: Int64s, lineages: int) -> npt.NDArray[Any]:
    """Return the pairs of lineages that share enough windows, [pairs, 2]; `hashes` must be sorted."""
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    codes = [np.empty(0, dtype=np.int64)]
    for distance in range(1, MAX_SHARERS):
        same = group[distance:] == group[:-distance]
        if distance > 1:
            same &= sizes[group[distance:]] <= MAX_SHARERS
        one, other = owners[:-distance][same], owners[distance:][same]
        codes.append(np.minimum(one, other) * lineages + np.maximum(one, other))
    pairs, shared = np.unique(np.concatenate(codes), return_counts=True)
    first, second = np.divmod(pairs, max(1, lineages))
    total = np.bincount(owners, minlength=lineages)
    smaller = np.minimum(total[first], total[second])
    enough = (shared >= MIN_SHARED) & (shared >= MIN_SHARE * smaller)
    return np.column_stack((first, second))[enough]
