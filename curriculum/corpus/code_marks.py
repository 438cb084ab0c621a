"""Comments and literals of C and C++ texts, found in time linear in the text, whoever wrote it.

A regular expression that finds a literal tries each quote in an open one again, to the end of the line. Here
a quote in what was found open is open too: until its end, only escaped quotes lie there.
"""

import re
from collections.abc import Callable

MARKS = re.compile(rb"//|/\*|\"|'")
"""Beginnings of comments and literals."""
QUOTES = re.compile(rb"[\"']")
_LITERALS = {
    b'"': re.compile(rb"\"(?:\\.|[^\"\\\n]++)*+(\"?)", re.DOTALL),
    b"'": re.compile(rb"'(?:\\.|[^'\\\n]++)*+('?)", re.DOTALL),
}


def replace_marks(
    code: bytes, begins: re.Pattern[bytes], replacement: Callable[[bytes], bytes]
) -> bytes:
    r"""Replace comments and literals that begin as `begins` says; a line goes on from another `begins`.

    A character literal has a character, and a comment without end reaches to the end of the text.

    >>> replace_marks(b'f("/*"); // it\'s', MARKS, lambda found: found[:1])
    b'f("); /'
    """
    pieces: list[bytes] = []
    opened = dict.fromkeys(_LITERALS, 0)
    """End of the last open literal, by its quote."""
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
