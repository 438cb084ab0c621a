"""Text from repositories on a terminal: control characters are shown, never sent."""

_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_TURNS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)
"""Embeddings, overrides and isolates, which would show text in another order than it stands in."""


def safe(text: str) -> str:
    r"""The text with a picture for each control character but newline and tab.

    >>> safe("a\x1b[31mb")
    'a␛[31mb'
    """
    return text.translate(_PICTURES | _TURNS)
