"""The comment that a definition begins with, and what follows it."""

from typing import NamedTuple

BLANK = b" \t\r\n\f\v"


class DocComment(NamedTuple):
    """Comments that have their lines to themselves, and the first byte of the code below."""

    start: int
    end: int
    code: int


def comment_above(data: bytes, start: int, end: int) -> DocComment | None:
    r"""The comments that `data[start:end]` begins with, or None where it begins with a line of code.

    >>> comment_above(b"  // a\n  /* b */\nint f();", 0, 21)
    DocComment(start=2, end=16, code=17)
    >>> comment_above(b"// a\n/* b */ int f();", 0, 17)
    DocComment(start=0, end=4, code=5)
    """
    first = code = at = _after_blanks(data, start, end)
    last = first
    while at < end:
        if data.startswith(b"//", at):
            done = _end_of_line(data, at, end)
        elif data.startswith(b"/*", at):
            closing = data.find(b"*/", at + 2, end)
            done = closing + 2 if closing >= 0 else end
        else:
            break
        at = _after_blanks(data, done, end)
        if b"\n" in data[done:at]:
            last, code = done, at
    return DocComment(first, last, code) if last > first else None


def _after_blanks(data: bytes, at: int, end: int) -> int:
    while at < end and data[at] in BLANK:
        at += 1
    return at


def _end_of_line(data: bytes, at: int, end: int) -> int:
    found = data.find(b"\n", at, end)
    return found if found >= 0 else end
