"""A file as text with one character a byte, so that places in the text are places in the file."""

import codecs

_LETTERS = "".join(chr(byte) if byte < 128 else chr(256 + byte) for byte in range(256))
"""Bytes beyond ASCII are letters, as they may stand in names: U+0180 to U+01FF are nothing else."""
_BYTES = codecs.charmap_build(_LETTERS)


def letters(data: bytes) -> str:
    """The bytes of a file as characters.

    >>> letters("größe".encode()).isidentifier(), len(letters("größe".encode()))
    (True, 7)
    """
    return codecs.charmap_decode(data, "strict", _LETTERS)[0]


def unlettered(text: str) -> str:
    """What the file says at a piece of its letters.

    >>> unlettered(letters("größe".encode()))
    'größe'
    """
    if text.isascii():
        return text
    return codecs.charmap_encode(text, "strict", _BYTES)[0].decode(errors="replace")
