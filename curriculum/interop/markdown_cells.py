"""Escaping of foreign text in Markdown."""

import re


def markdown_cell(text: str) -> str:
    """Return `text` as one line for a table cell; characters that Markdown interprets are escaped."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return re.sub(r"([\\`*_{}\[\]<>()#|!&~])", r"\\\1", plain)
