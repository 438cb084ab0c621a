"""Text of others in Markdown."""

import re


def markdown_cell(text: str) -> str:
    """Return text of others as a cell: on one line, and nothing in it is markup."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return re.sub(r"([\\`*_{}\[\]<>()#|!&~])", r"\\\1", plain)
