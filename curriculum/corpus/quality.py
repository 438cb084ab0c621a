"""Rules of quality that refuse a text, and paths of other people's code."""

import re

from curriculum.corpus.skips import Reason
from schemas.corpus import QualitySpec

VENDORED = re.compile(
    r"(?:^|/)(?:third[_-]?party|3rd[_-]?party|thirdparty|vendor|vendored|externals?|extern|bundled|"
    r"single_include|node_modules|gtest|gmock|googletest|googlemock|deps)/",
    re.IGNORECASE,
)
GENERATED = re.compile(
    r"@generated\b"
    r"|\bdo not (?:edit|modify)\b"
    r"|\bauto(?:matically)?[- ]?generated\b"
    r"|^\W*(?:this file (?:is|was) |code )?generated (?:by|from|using|with)\b"
    r"|^\W*a (?:lexical scanner|bison parser)",
    re.IGNORECASE | re.MULTILINE,
)
HINTS = (b"generated", b"do not edit", b"do not modify", b"a lexical scanner", b"a bison parser")
"""One of these stands in whatever GENERATED finds; looked for first, since few texts have any."""
HEAD = 2000
"""Bytes in which a file would say that it was generated."""
LEADING_COMMENT = re.compile(
    r"(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|#(?!\s*include)[^\n]*|--[^\n]*)*", re.DOTALL
)
"""Comments, guards and pragmas before the first include or line of code, in every language we read."""
_LINE_END = re.compile(rb"(?<!\\)\n")


def is_vendored(path: str) -> bool:
    """Return True if a folder of the path says that other people's code lies there."""
    return VENDORED.search(path) is not None


def is_generated(text: bytes) -> bool:
    """Return True if the comments that a text begins with say that a program wrote it."""
    head = text[:HEAD]
    lowered = head.lower()
    if not any(hint in lowered for hint in HINTS):
        return False
    leading = LEADING_COMMENT.match(head.decode(errors="replace"))
    assert leading is not None
    return GENERATED.search(leading[0]) is not None


def reason_against(text: bytes, quality: QualitySpec) -> Reason | None:
    """Return the first rule of size, lines and head that refuses a text in UTF-8, or None."""
    if len(text) > quality.max_bytes:
        return "too_large"
    if len(text) < quality.min_bytes:
        return "too_small"
    if has_longer_line(text, quality.max_line_bytes):
        return "line_length"
    if not quality.generated and is_generated(text):
        return "generated"
    return None


def has_longer_line(text: bytes, limit: int) -> bool:
    """Find a line of more than `limit` bytes without its end; lines that backslashes join are one.

    The grammar takes the square of such a line's length. Looks at few of the bytes where none is joined.
    """
    if b"\\\n" in text:
        return any(len(line) > limit for line in _LINE_END.split(text))
    start = 0
    while len(text) - start > limit:
        end = text.rfind(b"\n", start, start + limit + 1)
        if end < 0:
            return True
        start = end + 1
    return False
