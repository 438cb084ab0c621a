"""Text that is shown holds nothing that commands a terminal, changes the order of reading or hides."""

import json
import sys
import unicodedata

import pytest

from schemas.visible import in_json, one_line, visible

BLANKS = "\u2800\U00016fe4\U0001d159"
"""Characters of other categories that have no picture."""
IGNORED = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164)),
    *((0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
)
"""Default_Ignorable_Code_Point of Unicode 16, without what has one of the categories in HIDING."""
KEPT = {"\n", "\t"}
HIDING = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""General categories of Unicode: controls, format characters, surrogates, separators of lines."""


def test_every_control_format_and_separator_is_escaped_and_no_letter() -> None:
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        hides = unicodedata.category(letter) in HIDING
        if hides and letter not in KEPT:
            assert visible(letter) != letter, f"U+{code:04X}"
        elif not hides and unicodedata.category(letter) != "Cn":
            is_blank = letter in BLANKS or any(first <= code <= last for first, last in IGNORED)
            assert (visible(letter) != letter) == is_blank, f"U+{code:04X}"


@pytest.mark.parametrize(
    ("letter", "shown"),
    [
        ("\0", r"\x00"), ("\x1b", r"\x1b"), ("\r", r"\x0d"), ("\x7f", r"\x7f"), ("\x9b", r"\x9b"),
        ("\u202e", r"\u202e"), ("\u2066", r"\u2066"), ("\u200f", r"\u200f"), ("\u061c", r"\u061c"),
        ("\u200b", r"\u200b"), ("\u200d", r"\u200d"), ("\u2060", r"\u2060"), ("\ufeff", r"\ufeff"),
        ("\u2028", r"\u2028"), ("\U000e0041", r"\U000e0041"), ("\udc80", r"\udc80"), ("\ud83d", r"\ud83d"),
    ],
)  # fmt: skip
def test_an_escape_names_the_code_point(letter: str, shown: str) -> None:
    assert visible(f"a{letter}b") == one_line(f"a{letter}b") == f"a{shown}b"
    visible(letter).encode("utf-8")


def test_text_of_people_stays() -> None:
    text = "Grüße, שלום, 你好, ❤\ufe0f, 🧪, é\u0301, \\x1b [bold] <b>\n\tint a;"
    assert visible(text) == text
    assert one_line(text) == text.replace("\n", "\\n").replace("\t", "\\t")


def test_escaping_twice_is_escaping_once() -> None:
    text = "".join(map(chr, range(0x3000))) + "\U000e0001\udcff"
    assert visible(visible(text)) == visible(text)
    assert one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize("indent", [1, None])
def test_json_keeps_its_meaning(indent: int | None) -> None:
    value = {"a\u202e": ["\x1b\x7f\x85", "\U000e0041\udc80", "\n\t"]}
    written = in_json(json.dumps(value, ensure_ascii=False, indent=indent))
    assert json.loads(written) == value
    assert visible(written) == written
