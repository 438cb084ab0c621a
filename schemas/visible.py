r"""Safe display of untrusted text: control, bidirectional and invisible characters are escaped.

Escapes use the notation of C and Python, for example \x1b and \u202e. They are wider than one character, so
text must be escaped before it is measured for columns.
"""

import re

_OTHER = (
    r"\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
"""Format characters, and separators of lines and paragraphs: bidi marks, joiners, zero-width characters."""
_INVISIBLE = (
    r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\ufff0-\ufff8"
    r"\U00016fe4\U0001d159\U000e0000-\U000e0fff"
)
"""Characters without a glyph. Together with _OTHER these are all Default_Ignorable_Code_Points of Unicode,
for example variation selectors and tags, which can carry hidden text, and blanks that aren't spaces."""
_SELECTOR = r"(?<![\u203c-\u3299\U0001f000-\U0001faff])\ufe0f"
"""The variation selector for emoji, if no symbol is before it."""
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
_SURROGATES = r"\ud800-\udfff"
"""Lone surrogates. Python uses them for bytes of a path that aren't UTF-8."""
_HIDDEN = re.compile(f"[{_CONTROLS}{_OTHER}{_INVISIBLE}{_SURROGATES}]|{_SELECTOR}")
_IN_A_LINE = re.compile(f"[\t\n{_CONTROLS}{_OTHER}{_INVISIBLE}{_SURROGATES}]|{_SELECTOR}")
_NAMED = {"\t": r"\t", "\n": r"\n"}


def visible(text: str) -> str:
    r"""Escape all characters that wouldn't be displayed as themselves, except line feeds and tabs.

    The result may have several lines. If it is escaped again, it doesn't change.

    >>> visible("a\x1b[31mb\r\n\u202e")
    'a\\x1b[31mb\\x0d\n\\u202e'
    """
    return _HIDDEN.sub(_escaped, text)


def one_line(text: str) -> str:
    r"""Escape a text for display on one line, for example a path. Line feeds and tabs are escaped, too.

    >>> one_line("a\nb")
    'a\\nb'
    """
    return _IN_A_LINE.sub(_escaped, text)


MAX_SHOWN = 10_000
"""Maximum number of characters to show of one part of a message."""


def shortened(text: str, most: int = MAX_SHOWN) -> str:
    """Return a text, cut to `most` characters, with a note that says how many were left out.

    >>> shortened("abcdef", 4), shortened("abcd", 4)
    ('abcd… (2 more characters)', 'abcd')
    """
    more = len(text) - most
    return text if more <= 0 else f"{text[:most]}… ({more:,} more characters)"


def in_json(dumped: str) -> str:
    r"""Escape hidden characters of a JSON text without changing its meaning.

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
