"""What is too small, too large or not written by hand: each rule is a reason."""

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
HEAD = 2000
"""Characters in which a file would say that it was generated."""
LEADING_COMMENT = re.compile(
    r"(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|#(?!\s*include)[^\n]*|--[^\n]*)*", re.DOTALL
)
"""Comments, guards and pragmas before the first include or line of code, in every language we read."""


def is_vendored(path: str) -> bool:
    """Whether a folder of the path says that other people's code lies there."""
    return VENDORED.search(path) is not None


def is_generated(text: str) -> bool:
    """Whether the comments that a text begins with say that a program wrote it."""
    leading = LEADING_COMMENT.match(text[:HEAD])
    assert leading is not None
    return GENERATED.search(leading[0]) is not None


def reason_against(text: str, quality: QualitySpec) -> Reason | None:
    """Why a text is not taken, or None; the first rule that applies in the order size, lines, head."""
    size = len(text.encode())
    if size > quality.max_bytes:
        return "too_large"
    if size < quality.min_bytes:
        return "too_small"
    if has_longer_line(text, quality.max_line_bytes):
        return "line_length"
    if not quality.generated and is_generated(text):
        return "generated"
    return None


def has_longer_line(text: str, limit: int) -> bool:
    """Whether a line has more than `limit` bytes without its line end."""
    if len(text) <= limit // 4:
        return False
    return any(len(line.encode()) > limit for line in text.split("\n") if len(line) > limit // 4)
