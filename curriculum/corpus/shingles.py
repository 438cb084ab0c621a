"""Shingles of a file, which are hashes of five consecutive tokens; files are compared by common shingles.

A token is a word (letters, digits, underscores, all bytes beyond ASCII) or any other single byte. White space
only separates tokens, so that reformatting changes no shingle. The leading comment is excluded, because two
files with the same licence header are not copies of each other.
"""

import re

import numpy as np
import numpy.typing as npt

from curriculum.splitmix import mixed_words

UInt64s = npt.NDArray[np.uint64]

SHINGLE_TOKENS = 5
MAX_WORD_BYTES = 64
"""Number of distinct positions within a word; in longer words the positions repeat."""

_LEADING = re.compile(r"(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|#(?=[ \t\n])[^\n]*)*", re.DOTALL)
"""Pattern of white space and comments; in build files, `#` begins a comment if white space follows."""
_IS_SPACE = np.zeros(256, dtype=np.bool_)
_IS_SPACE[list(b" \t\n\r\v\f\0")] = True
_IS_WORD = np.zeros(256, dtype=np.bool_)
_IS_WORD[list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] = True
_IS_WORD[128:] = True
_random = np.random.Generator(np.random.PCG64(17))
_BYTES: UInt64s = _random.integers(1 << 64, size=(MAX_WORD_BYTES, 256), dtype=np.uint64).ravel()
"""Random number for each byte value at each position of a word."""


def without_leading_comment(text: str) -> str:
    """Return the text of a file without the comments at its start."""
    leading = _LEADING.match(text)
    assert leading is not None
    return text[leading.end() :]


def shingles(text: str) -> UInt64s:
    r"""Return the shingles of a file, sorted and distinct; empty if the file has fewer than five tokens.

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
    """Return the hash of each token, in order."""
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
