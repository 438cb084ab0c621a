"""Shingles of a file: five tokens in a row, as 64-bit hashes, to compare files by the text they share.

A token is a word (letters, digits, underscores, all bytes beyond ASCII) or any other byte alone. White space
separates tokens and counts for nothing, so that a formatter changes no shingle. The comment that a file
begins with is left out: the same licence above two files makes neither a copy of the other.
"""

import re

import numpy as np
import numpy.typing as npt

from curriculum.splitmix import mixed_words

UInt64s = npt.NDArray[np.uint64]

SHINGLE_TOKENS = 5
MAX_WORD_BYTES = 64
"""Bytes of a word after which places are counted from 0 again."""

_LEADING = re.compile(r"(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|#(?=[ \t\n])[^\n]*)*", re.DOTALL)
"""White space and comments; a `#` before white space begins one in build files."""
_IS_SPACE = np.zeros(256, dtype=np.bool_)
_IS_SPACE[list(b" \t\n\r\v\f\0")] = True
_IS_WORD = np.zeros(256, dtype=np.bool_)
_IS_WORD[list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] = True
_IS_WORD[128:] = True
_random = np.random.Generator(np.random.PCG64(17))
_BYTES: UInt64s = _random.integers(1 << 64, size=(MAX_WORD_BYTES, 256), dtype=np.uint64).ravel()
"""One number for each byte at each place of a word."""


def without_leading_comment(text: str) -> str:
    """Return a file's text from behind the comments that it begins with."""
    leading = _LEADING.match(text)
    assert leading is not None
    return text[leading.end() :]


def shingles(text: str) -> UInt64s:
    r"""Hash the shingles of a file, each once, sorted; none where it has fewer than five tokens.

    >>> one, other = shingles("int f() { return 1; }"), shingles("// A\nint f()\n{\n  return 1;\n}")
    >>> len(one), one.tolist() == other.tolist()
    (5, True)
    """
    tokens = _tokens(without_leading_comment(text).encode())
    if len(tokens) < SHINGLE_TOKENS:
        return np.empty(0, dtype=np.uint64)
    count = len(tokens) - SHINGLE_TOKENS + 1
    joined = tokens[:count].copy()
    for at in range(1, SHINGLE_TOKENS):
        joined *= _STEP
        joined += tokens[at : at + count]
    return np.unique(mixed_words(joined))


_STEP = np.uint64(0x9E3779B97F4A7C15)


def _tokens(data: bytes) -> UInt64s:
    """Hash each token, in order."""
    every = np.frombuffer(data, dtype=np.uint8)
    is_word = _IS_WORD[every]
    is_start = ~_IS_SPACE[every]
    is_start[1:] &= ~(is_word[1:] & is_word[:-1])
    kept = ~_IS_SPACE[every]
    text = every[kept]
    starts = np.flatnonzero(is_start[kept])
    if not len(starts):
        return np.empty(0, dtype=np.uint64)
    place = np.arange(len(text), dtype=np.int32)
    place -= np.repeat(starts.astype(np.int32), np.diff(starts, append=len(text)))
    place &= MAX_WORD_BYTES - 1
    return np.add.reduceat(_BYTES[(place << 8) | text], starts)
