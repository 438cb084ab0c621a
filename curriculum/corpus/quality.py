"""Quality rules that reject texts, and folder names that indicate vendored code."""

import re
import zlib

from curriculum.corpus.skips import Reason
from schemas.corpus import QualitySpec

VENDORED = re.compile(
    r"(?:^|/)(?:third[_-]?party|3rd[_-]?party|thirdparty|vendor|vendored|externals?|extern|bundled|"
    r"single_include|node_modules|gtest|gmock|googletest|googlemock|deps)/",
    re.IGNORECASE,
)
HEAD_BYTES = 2000
"""Number of bytes at the start of a file in which a statement that it is generated is searched."""
LEADING_COMMENT = re.compile(
    r"(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|#(?!\s*include)[^\n]*|--[^\n]*)*", re.DOTALL
)
"""Pattern of comments, guards and pragmas before the first include or line of code, in every language."""
_LINE_END = re.compile(rb"(?<!\\)\n")
_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else|endif|define|undef|error|warning|pragma|line)\b[^\n]*",
    re.MULTILINE,
)
_MARKS = " \t\r*/#;!-=|_<>'\""
"""Characters that may surround the words of a comment line."""
HINTS = (b"generated", b"amalgamat", b"a bison parser", b"produced by gperf")
"""Words of which every comment that STATED matches has at least one; they are faster to search."""
STATED = re.compile(
    r"@generated\b"
    r"|\ba lexical scanner generated\b|\ba bison parser, made\b|\bproduced by gperf\b"
    r"|\ban amalgamation of\b|^(?:\S+\s+){0,2}amalgamated\s+(?:\w+\s+)?(?:header|source|file)\b"
    r"|(?:^|[.!:]\s+)(?:most of )?(?:this|the following|everything below)\s+(?:\w+\s+){0,3}?"
    r"(?:is|was|are|were|has been)\s+(?!not\b)(?:an?\s+)?(?:\w+\s+)?{made}\b(?!\s+in\s+the\s+future)"
    r"|^(?:[\w+]+\s+){0,3}(?:code|tables?|file)\s+(?:\w+\s+)?{made}\s+(?:by|from|with|using|on)\b"
    r"|(?:^|[.!:;=(]\s*|--? )auto(?:matically)?[- ]?(?:re)?generated\b"
    r"|\bgenerated\s+(?:(?:include|source|header|configuration)\s+)?file\s*(?:$|[-.!])"
    r"|\bgenerated\b(?=.{0,300}\bdo\s+not\s+(?:edit|modify|change)\b)"
    r"|\bdo\s+not\s+(?:edit|modify|change)\b(?=.{0,300}\bgenerated\b)"
    r"|(?:^|\.\s+)(?-i:Generated|GENERATED)(?:\s+(?:automatically|code|file|by|from|on|using|with)\b|:)".replace(
        "{made}", r"(?:(?:\w+ly|always|now|machine|auto)[- ]?)?(?:re)?generated"
    ),
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
"""Pattern of statements that the file is generated or amalgamated, or must not be edited for this reason."""
MIN_REPETITIVE_BYTES = 20_000
MAX_REPETITIVE_RATIO = 0.08
"""Maximum compression ratio, at zlib's fastest level, of a text that counts as repetitive.

A program or repeated copying makes such texts.
"""
MIN_TABLE_BYTES = 1_000
MAX_NUMBER_SHARE = 0.5
_MIN_DIGIT_SHARE = 0.1
"""Minimum share of digits in a text of which more than half consists of numbers."""
_SPACE = b" \t\n"
_NUMBER_LINE = re.compile(
    rb"^[ \t{(]*+[-+\"'.]*+\\?x?[0-9][-+0-9a-fA-FxXuUlL.,{}()/* \t;\\\"']*+$", re.MULTILINE
)
"""Pattern of a line that begins with a number and has only numbers, punctuation and byte escapes."""
TABLE_BYTES_PER_STATEMENT = 4_000
"""Minimum number of bytes per control statement in a table of numbers.

Handwritten code with tables in it has more control statements.
"""
_NO_CODE = re.compile(rb"/\*.*?(?:\*/|\Z)|//[^\n]*|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE)
"""Pattern of comments and directives."""
_STATEMENT = re.compile(rb"\b(?:return|if|for|while|switch)\b")


def is_vendored(path: str) -> bool:
    """Return True if a folder in the path has a name that indicates vendored code, such as third_party."""
    return VENDORED.search(path) is not None


def is_generated(text: bytes) -> bool:
    """Return True if a text says that it is generated, is a table of numbers, or is very repetitive."""
    return states_generated(text) or is_number_table(text) or is_repetitive(text)


def states_generated(text: bytes) -> bool:
    """Return True if the comments at the start of a text say that the file is generated or amalgamated."""
    head = text[:HEAD_BYTES]
    lowered = head.lower()
    if not any(hint in lowered for hint in HINTS):
        return False
    leading = LEADING_COMMENT.match(head.decode(errors="replace"))
    assert leading is not None
    lines = _DIRECTIVE.sub("", leading[0]).split("\n")
    return STATED.search("\n".join(line.strip(_MARKS) for line in lines)) is not None


def is_number_table(text: bytes) -> bool:
    """Return True if more than half of a text are lines of numbers and the text has hardly any functions.

    White space is not counted. Functions are recognised by return, branch and loop statements.
    """
    if len(text) < MIN_TABLE_BYTES:
        return False
    if len(text) - len(text.translate(None, b"0123456789")) < _MIN_DIGIT_SHARE * len(text):
        return False
    numbers = b"".join(_NUMBER_LINE.findall(text)).translate(None, _SPACE)
    if len(numbers) <= MAX_NUMBER_SHARE * len(text.translate(None, _SPACE)):
        return False
    statements = len(_STATEMENT.findall(_NO_CODE.sub(b"", text)))
    return statements * TABLE_BYTES_PER_STATEMENT < len(text)


def is_repetitive(text: bytes) -> bool:
    """Return True if a text of at least MIN_REPETITIVE_BYTES compresses to almost nothing."""
    return len(text) >= MIN_REPETITIVE_BYTES and len(
        zlib.compress(text, 1)
    ) < MAX_REPETITIVE_RATIO * len(text)


def reason_against(text: bytes, quality: QualitySpec) -> Reason | None:
    """Return the first quality rule that rejects a UTF-8 text, or None."""
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
    """Return True if a line is longer than `limit` bytes, without its line end.

    Lines that are joined by backslashes count as one line, because parsing such a line takes quadratic time.
    If a text has no joined lines, only a few of its bytes are examined.
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
