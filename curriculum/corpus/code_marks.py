"""Comments and literals in C and C++ texts, found in time that is linear in the length of the text.

In an unterminated literal, a naive regular expression tries every quote again, each time up to the end of the
line. A hostile file makes this quadratic. So the end of the last unterminated literal is remembered for each
kind of quote, and quotes before that end are not tried again.
"""

import re
from collections.abc import Callable

MARKS = re.compile(rb"//|/\*|\"|'")
"""Pattern of the beginnings of comments and literals."""
QUOTES = re.compile(rb"[\"']")
_LITERALS = {
    b'"': re.compile(rb"\"(?:\\.|[^\"\\\n]++)*+(\"?)", re.DOTALL),
    b"'": re.compile(rb"'(?:\\.|[^'\\\n]++)*+('?)", re.DOTALL),
}


def replace_marks(
    code: bytes, begins: re.Pattern[bytes], replacement: Callable[[bytes], bytes]
) -> bytes:
    r"""Replace each comment and literal of `code` whose beginning matches `begins`.

    `replacement` returns the new text for a comment or literal. An unterminated comment extends to the end of
    the text. Other matches of `begins` stay in the text, such as an unterminated quote or an empty character
    literal.

    >>> replace_marks(b'f("/*"); // it\'s', MARKS, lambda found: found[:1])
    b'f("); /'
    """
    pieces: list[bytes] = []
    opened = dict.fromkeys(_LITERALS, 0)
    """End of the last unterminated literal, for each kind of quote."""
    copied = at = 0
    while found := begins.search(code, at):
        start, mark = found.start(), found[0]
        end = start + 1
        if mark not in _LITERALS:
            end = _end_of_comment(code, start)
        elif start >= opened[mark]:
            literal = _LITERALS[mark].match(code, start)
            assert literal is not None
            if not literal[1]:
                opened[mark] = literal.end()
            elif mark == b'"' or literal.end() > start + 2:
                end = literal.end()
        at = end
        if end > start + 1:
            pieces += (code[copied:start], replacement(code[start:end]))
            copied = end
    return b"".join((*pieces, code[copied:]))


def _end_of_comment(code: bytes, start: int) -> int:
    closing, skipped = (b"*/", 2) if code.startswith(b"/*", start) else (b"\n", 0)
    end = code.find(closing, start + skipped)
    return len(code) if end < 0 else end + skipped
