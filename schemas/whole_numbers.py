"""Whole numbers in text from elsewhere: names of folders, labels, metadata, git's output.

`int` refuses texts of more than 4,300 digits with an error of its own, and some texts that `isdigit` accepts.
"""

MAX_DIGITS = 18
"""Digits of a number that an int64 has room for."""


def whole_number(text: str | bytes) -> int | None:
    """Return the number that 1 to MAX_DIGITS ASCII digits write; None for any other text.

    >>> whole_number("045"), whole_number(b"7"), whole_number("-1"), whole_number("9" * 19)
    (45, 7, None, None)
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None
