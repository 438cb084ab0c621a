"""The comment that a definition begins with."""

BLANK = b" \t\r\n\f\v"


def comment_above(data: bytes, start: int, end: int) -> tuple[int, int] | None:
    r"""The bytes of the comments that `data[start:end]` begins with, or None where it begins with code.

    >>> comment_above(b"  // a\n  /* b */\nint f();", 0, 21)
    (2, 16)
    """
    first = at = _after_blanks(data, start, end)
    last = first
    while at < end:
        if data.startswith(b"//", at):
            last = _end_of_line(data, at, end)
        elif data.startswith(b"/*", at):
            closing = data.find(b"*/", at + 2, end)
            last = closing + 2 if closing >= 0 else end
        else:
            break
        at = _after_blanks(data, last, end)
    return (first, last) if last > first else None


def _after_blanks(data: bytes, at: int, end: int) -> int:
    while at < end and data[at] in BLANK:
        at += 1
    return at


def _end_of_line(data: bytes, at: int, end: int) -> int:
    found = data.find(b"\n", at, end)
    return found if found >= 0 else end
