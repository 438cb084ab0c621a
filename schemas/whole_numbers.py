"""Integers in untrusted text: folder names, labels, metadata, git's output.

Python's `int` raises an unrelated error for more than 4,300 digits, and for some texts that `isdigit`
accepts.
"""

MAX_DIGITS = 18
"""Maximum number of digits; every number with so many digits fits into an int64."""


def whole_number(text: str | bytes) -> int | None:
    """Return the number of a text with 1 to MAX_DIGITS ASCII digits; None for any other text.

    >>> whole_number("045"), whole_number(b"7"), whole_number("-1"), whole_number("9" * 19)
    (45, 7, None, None)
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None
