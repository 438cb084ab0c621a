from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.blank import (
    attribute_runs,
    blank,
    dead_branches,
    directives,
    opaque,
    unclosed,
)
from curriculum.graph.facts import Range
from schemas.corpus import Language

OPAQUE = [
    "/* a */",
    "/* #if 0 \n ' */",
    "/**/",
    "// it's one\n",
    '// "\n',
    '"/*"',
    '"a // \\" b"',
    '"one \\\n two"',
    '""',
    "'\"'",
    "'\\''",
    "'/*'",
    'R"(a " // \n)"',
    'R"x(")" /* )x"',
]
PLAIN = ["int x;", "1'000'000", "a / b * c", "f()", "{", "}", "\n", "Rx", "#define A 1\n", "é"]
HOSTILE = [
    *OPAQUE,
    *PLAIN,
    "#if 0\n",
    "#elif A\n",
    "#else\n",
    "#endif\n",
    "#if",
    '"',
    "'",
    "/*",
    "*/",
]
texts = st.lists(st.sampled_from(HOSTILE), max_size=30).map("".join) | st.text(max_size=80)
languages: st.SearchStrategy[Language] = st.sampled_from(["cpp", "c"])


def found(data: bytes, ranges: list[Range]) -> list[bytes]:
    return [data[start:end] for start, end in ranges]


def live(text: str, language: Language = "cpp") -> list[str]:
    """The words that are left without dead branches."""
    data = text.encode()
    return blank(data, dead_branches(data, opaque(data), language)).decode().split()


def assert_sorted_and_disjoint(ranges: list[Range], size: int) -> None:
    assert all(0 <= start < end <= size for start, end in ranges)
    assert all(left.end <= right.start for left, right in pairwise(ranges))


@given(st.binary(), st.data())
def test_a_blank_keeps_length_line_ends_and_all_that_stands_outside(
    data: bytes, draw: st.DataObject
) -> None:
    places = draw.draw(st.sets(st.integers(0, len(data))).map(sorted))
    ranges = [Range(*each) for each in zip(places[::2], places[1::2], strict=False)]
    blanked = blank(data, ranges)
    assert len(blanked) == len(data)
    inside = {place for start, end in ranges for place in range(start, end)}
    for place, byte in enumerate(data):
        keeps = place not in inside or byte in b"\r\n"
        assert blanked[place] == (byte if keeps else ord(" "))


@given(st.lists(st.sampled_from(OPAQUE) | st.sampled_from(PLAIN), max_size=30))
def test_comments_and_literals_are_found_whatever_stands_between(pieces: list[str]) -> None:
    data = " ".join(pieces).encode()
    expected = [each.rstrip("\n").encode() for each in pieces if each in OPAQUE]
    assert found(data, opaque(data)) == expected


@given(texts, languages)
def test_what_is_blanked_is_sorted_and_disjoint(text: str, language: Language) -> None:
    data = text.encode()
    hidden = opaque(data)
    for ranges in (hidden, dead_branches(data, hidden, language), directives(data, hidden)):
        assert_sorted_and_disjoint(ranges, len(data))


@given(texts, languages)
def test_no_condition_outlives_its_branches(text: str, language: Language) -> None:
    data = text.encode()
    left = blank(data, dead_branches(data, opaque(data), language))
    hidden = opaque(left)
    assert not [each for each in found(left, directives(left, hidden)) if b"#e" in each[:2]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a("x/*", "y/*"); /* z */', ['"x/*"', '"y/*"', "/* z */"]),
        ('u8R"(/*)" LR"(a)" FOO_R"(b)"', ['R"(/*)"', 'R"(a)"', '"(b)"']),
        ('R"x(a)" b)x" c', ['R"x(a)" b)x"']),
        ("0xFF'FF'00 + 1'000", ["'FF'"]),
        ('"not closed\nint x; "y"', ['"not closed', '"y"']),
        ("int x; /* not closed\n#if 0\n", ["/* not closed\n#if 0\n"]),
        ('x = R"(not closed)x" //', ['R"(not closed)x" //']),
        ("// one /* two\nint x; /* three */", ["// one /* two", "/* three */"]),
    ],
)
def test_a_mark_in_a_comment_or_literal_opens_nothing(text: str, expected: list[str]) -> None:
    data = text.encode()
    assert found(data, opaque(data)) == [each.encode() for each in expected]


@pytest.mark.parametrize(
    ("text", "is_open"),
    [("/* a", True), ('R"(a', True), ("/* a */", False), ('R"(a)"', False), ('"a', False),
     ("// a", False), ("", False), ("/* a */ int x;", False), ("int x; /*/", True)],
)  # fmt: skip
def test_only_block_comments_and_raw_strings_stay_open(text: str, is_open: bool) -> None:
    data = text.encode()
    assert unclosed(data, opaque(data)) == (opaque(data) if is_open else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#if 0\na\n#else\nb\n#endif\nc", "b c"),
        ("#if A\na\n#elif B\nb\n#else\nc\n#endif", "a"),
        ("#if 0\na\n#elif B\nb\n#elif C\nc\n#endif", "b"),
        ("#ifdef _WIN32\na\n#elifdef __linux__\nb\n#endif", "b"),
        ("#ifndef A_H\n#define A_H\na\n#endif", "#define A_H a"),
        ("#if 0\n#if 1\na\n#else\nb\n#endif\nc\n#else\nd\n#endif", "d"),
        ("#if 1\n#if 0\na\n#endif\nb\n#else\nc\n#endif", "b"),
        ("a\n#endif\nb\n#else\nc", "a b c"),
        ("a\n#if 0\nb", "a"),
        ("a\n#if 1\nb", "a b"),
        ("# if 0 // no\na\n#\tendif\nb", "b"),
        ("#if defined(A) && \\\n  0\na\n#endif\nb", "b"),
        ("#if defined(A) && \\\r\n  0\r\na\r\n#endif\r\nb", "b"),
        ("#if 0 /* over\ntwo lines */ \na\n#endif", ""),
        ("#include <a>\n#pragma once\n", "#include <a> #pragma once"),
        ("#ifelse\na\n#endiff\n", "#ifelse a #endiff"),
    ],
)
def test_the_first_branch_that_may_live_is_all_that_stays(text: str, expected: str) -> None:
    assert live(text) == expected.split()


def test_languages_see_other_branches() -> None:
    text = '#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n#ifdef __cplusplus\n}\n#endif\n'
    assert live(text, "c") == ["int", "f(void);"]
    assert live(text, "cpp") == ["extern", '"C"', "{", "int", "f(void);", "}"]


@pytest.mark.parametrize(
    "text", ["/*\n#if 0\n*/ a", 'b = R"(\n#if 0\n)";', 'c = "\\\n#if 0\\\n";', "/* x */ #if 0\na"]
)
def test_a_condition_in_a_comment_or_literal_kills_nothing(text: str) -> None:
    data = text.encode()
    assert dead_branches(data, opaque(data), "cpp") == []


def test_directives_end_where_no_backslash_continues_them() -> None:
    data = b"a\n#define A \\\n  b \\\r\n  c\nd\n  # error it's\n/*\n#e\n*/\n#x \\"
    assert found(data, directives(data, opaque(data))) == [
        b"#define A \\\n  b \\\r\n  c",
        b"# error it's",
        b"#x \\",
    ]


def test_a_long_run_of_attributes_is_blanked_and_a_short_one_is_not() -> None:
    short, long = b"[[a]] [[b]]\n" * 8, b"[[a]];\n" * 17
    assert attribute_runs(short + b"int x;\n" + short, []) == []
    assert attribute_runs(b"int x;\n" + long, []) == [Range(7, 7 + len(long))]
    assert attribute_runs(long, [Range(0, len(long))]) == []
    comment = Range(len(long), len(long) + 6)
    both = attribute_runs(long + b"/* */\n" + long, [comment._replace(end=comment.end - 1)])
    assert both == [Range(0, len(long)), Range(len(long) + 5, 2 * len(long) + 6)]
