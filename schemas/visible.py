r"""Text from elsewhere as it may be shown: what would command, reorder or hide is written out.

Shown are the escapes that C and Python write, such as \x1b and \u202e, so that a reader finds the code
point. They are wider than a character: whoever lays text out in columns escapes it before measuring it.
"""

import re

_OTHER = (
    r"\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
"""Format characters, with the separators of lines and paragraphs: bidi marks, joiners, zero widths."""
_INVISIBLE = (
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\ufff0-\ufff8"
    r"\U00016fe4\U0001d159\U000e0000-\U000e0fff"
)
"""Characters without a picture: with _OTHER all that Unicode calls Default_Ignorable_Code_Point, such as the
selectors and tags that can carry hidden text, and blanks that are no spaces."""
_SELECTOR = r"(?<![\u203c-\u3299\U0001f000-\U0001faff])\ufe0f"
"""The selector of coloured pictures, where no symbol is before it."""
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
_SURROGATES = r"\ud800-\udfff"
"""Alone they are no text: Python puts them where a path has bytes that aren't UTF-8."""
_HIDDEN = re.compile(f"[{_CONTROLS}{_OTHER}{_INVISIBLE}{_SURROGATES}]|{_SELECTOR}")
_IN_A_LINE = re.compile(f"[\t\n{_CONTROLS}{_OTHER}{_INVISIBLE}{_SURROGATES}]|{_SELECTOR}")
_NAMED = {"\t": r"\t", "\n": r"\n"}


def visible(text: str) -> str:
    r"""Escape each character that isn't seen as itself; line feeds and tabs stay.

    The result can be shown in several lines, and escaping it again changes nothing.

    >>> visible("a\x1b[31mb\r\n\u202e")
    'a\\x1b[31mb\\x0d\n\\u202e'
    """
    return _HIDDEN.sub(_escaped, text)


def one_line(text: str) -> str:
    r"""Escape a text that takes part of a line, such as a path: its line feeds and tabs too.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return _IN_A_LINE.sub(_escaped, text)


MAX_SHOWN = 10_000
"""Characters that one part of a message shows of a text."""


def shortened(text: str, most: int = MAX_SHOWN) -> str:
    """Return a text, or its first characters with the number of those that are left out.

    >>> shortened("abcdef", 4), shortened("abcd", 4)
    ('abcd… (2 more characters)', 'abcd')
    """
    more = len(text) - most
    return text if more <= 0 else f"{text[:most]}… ({more:,} more characters)"


def in_json(dumped: str) -> str:
    r"""Escape the hidden characters of a JSON text, which keeps its meaning.

    >>> in_json('"\u202e"')
    '"\\u202e"'
    """
    return _HIDDEN.sub(_in_utf16, dumped)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if found[0] in _NAMED:
        return _NAMED[found[0]]
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else f"\\U{code:08x}"
    )


def _in_utf16(found: re.Match[str]) -> str:
    raw = found[0].encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{raw[at : at + 2].hex()}" for at in range(0, len(raw), 2))
