"""Escaping of foreign text in Markdown."""

import re


def markdown_cell(text: str) -> str:
    """Return foreign text as a table cell on one line, without markup."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return re.sub(r"([\\`*_{}\[\]<>()#|!&~])", r"\\\1", plain)
