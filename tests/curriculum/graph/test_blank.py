from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.blank import (
    attribute_runs,
    blank,
    comments_and_literals,
    dead_branches,
    directives,
    may_be_compiled,
    unclosed,
)
from curriculum.graph.facts import Range
from curriculum.graph.macros import macros
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
    return blank(data, dead_branches(data, comments_and_literals(data), language)).decode().split()


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
    assert found(data, comments_and_literals(data)) == expected


@given(texts, languages)
def test_what_is_blanked_is_sorted_and_disjoint(text: str, language: Language) -> None:
    data = text.encode()
    hidden = comments_and_literals(data)
    for ranges in (hidden, dead_branches(data, hidden, language), directives(data, hidden)):
        assert_sorted_and_disjoint(ranges, len(data))


@given(texts, languages)
def test_no_condition_outlives_its_branches(text: str, language: Language) -> None:
    data = text.encode()
    left = blank(data, dead_branches(data, comments_and_literals(data), language))
    hidden = comments_and_literals(left)
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
    assert found(data, comments_and_literals(data)) == [each.encode() for each in expected]


@pytest.mark.parametrize(
    ("text", "is_open"),
    [("/* a", True), ('R"(a', True), ("/* a */", False), ('R"(a)"', False), ('"a', False),
     ("// a", False), ("", False), ("/* a */ int x;", False), ("int x; /*/", True)],
)  # fmt: skip
def test_only_block_comments_and_raw_strings_stay_open(text: str, is_open: bool) -> None:
    data = text.encode()
    assert unclosed(data, comments_and_literals(data)) == (
        comments_and_literals(data) if is_open else []
    )


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
    assert dead_branches(data, comments_and_literals(data), "cpp") == []


def test_directives_end_where_no_backslash_continues_them() -> None:
    data = b"a\n#define A \\\n  b \\\r\n  c\nd\n  # error it's\n/*\n#e\n*/\n#x \\"
    assert found(data, directives(data, comments_and_literals(data))) == [
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


Truth = Literal["T", "F", "U"]
Judged = tuple[str, Truth]
"""A condition and whether it holds; U where that can't be known."""
ATOMS: list[Judged] = [
    ("1", "T"),
    ("0", "F"),
    ("defined(_WIN32)", "F"),
    ("defined __linux__", "T"),
    ("__cplusplus >= 201703L", "T"),
    ("2 < 1", "F"),
    ("FEATURE", "U"),
    ("HAS(x)", "U"),
    ("defined ( FEATURE )", "U"),
]
ORDER = "FUT"


def negated(one: Judged) -> Judged:
    return f"!({one[0]})", {"T": "F", "F": "T", "U": "U"}[one[1]]  # type: ignore[return-value]


def both(one: Judged, other: Judged) -> Judged:
    least: Truth = min(one[1], other[1], key=ORDER.index)
    return f"({one[0]}) && ({other[0]})", least


def either(one: Judged, other: Judged) -> Judged:
    most: Truth = max(one[1], other[1], key=ORDER.index)
    return f"({one[0]}) || ({other[0]})", most


conditions: st.SearchStrategy[Judged] = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map(negated),
        st.tuples(inner, inner).map(lambda two: both(*two)),
        st.tuples(inner, inner).map(lambda two: either(*two)),
    ),
    max_leaves=8,
)


@given(conditions)
def test_only_what_is_surely_false_is_left_out(judged: Judged) -> None:
    condition, truth = judged
    assert may_be_compiled("if", condition, "cpp") == (truth != "F" or len(condition) > 500)


@given(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=5), st.data())
def test_and_binds_before_or_without_parentheses(atoms: list[Judged], draw: st.DataObject) -> None:
    signs = [draw.draw(st.sampled_from(["&&", "||"])) for _ in atoms[1:]]
    groups: list[list[Truth]] = [[atoms[0][1]]]
    text = atoms[0][0]
    for sign, (condition, truth) in zip(signs, atoms[1:], strict=True):
        text += f" {sign} {condition}"
        if sign == "||":
            groups.append([])
        groups[-1].append(truth)
    best = max((min(group, key=ORDER.index) for group in groups), key=ORDER.index)
    assert may_be_compiled("if", text, "cpp") == (best != "F")


@given(st.text(max_size=60) | st.text("()!&|TFU01 <>=", max_size=30))
def test_any_text_is_judged(condition: str) -> None:
    assert may_be_compiled("if", condition, "cpp") in (True, False)
    assert may_be_compiled("ifndef", condition, "c") in (True, False)


@pytest.mark.parametrize(
    ("directive", "condition", "holds"),
    [
        ("ifdef", "_MSC_VER", False),
        ("ifndef", "_MSC_VER", True),
        ("ifndef", "__GNUC__", False),
        ("elifndef", "__linux__ // here", False),
        ("ifdef", "", True),
        ("if", "", True),
        ("if", "_MSC_VER >= 1900", False),
        ("if", "0x1F", True),
        ("if", "X == 0", True),
        ("if", "0 == X && 0", True),
        ("if", "!!0", False),
        ("if", "true && !false", True),
        ("if", "false", False),
        ("if", "__has_include(<a/b.h>) || 0", True),
        ("if", "0 && " + "A && " * 100 + "A", True),
        ("if", "!" * 400 + "0", False),
    ],
)
def test_conditions_are_judged_as_on_linux(directive: str, condition: str, holds: bool) -> None:
    assert may_be_compiled(directive, condition, "cpp") == holds


def test_c_has_no_cplusplus() -> None:
    assert not may_be_compiled("if", "__cplusplus > 199711L", "c")
    assert not may_be_compiled("if", "defined(__cplusplus)", "c")
    assert may_be_compiled("ifndef", "__cplusplus", "c")


PIECES = [
    "FMT_API ",
    "AB_C",
    "AB_C\n",
    "AB_C(x)\n",
    "AB_C(",
    "\nDEF_IT(int, x)",
    "ENABLE_IF(is<T>())>",
    "Q_OBJECT\n",
    "class ",
    "struct ",
    "static ",
    "int f(int x) ",
    "template <class T, ",
    ")",
    ") const && ",
    "&",
    ":",
    ";\n",
    " {\n",
    "}\n",
    "\n",
    "// AB_C int f();\n",
    "/* ) AB_C\n AB_C */",
    '"AB_C int f()" ',
    'R"(\nAB_C\n)"',
    "#define M(x) \\\n  AB_C int f() AB_C {\n",
    "é",
]
macro_texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


def ranges(text: str) -> list[Range]:
    data = text.encode()
    hidden = comments_and_literals(data)
    return macros(data, hidden, directives(data, hidden))


def without(text: str) -> str:
    return blank(text.encode(), ranges(text)).decode()


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("FMT_BEGIN_NAMESPACE\nint f();", "int f();"),
        ("struct A {\n  Q_OBJECT\n  int a;\n};", "struct A { int a; };"),
        ('SUPPRESS("-Wall")  // why\nint a;', "// why int a;"),
        ("int a;\n\n// why\n#define X 1\nPRAGMA(once)\nint b;", "int a; // why #define X 1 int b;"),
        ("FMT_API int f();", "int f();"),
        ("FMT_API auto f() -> int;", "auto f() -> int;"),
        ("static FMT_INLINE int f() { return 1; }", "static int f() { return 1; }"),
        ("template <class T>\nFMT_CONSTEXPR T f(T x);", "template <class T> T f(T x);"),
        ("template <class T> FMT_API A<T>::A() {}", "template <class T> A<T>::A() {}"),
        ("JSON_HEDLEY_NON_NULL(1)\nint f(int*);", "int f(int*);"),
        ("class A {\n  JSON_PRIVATE_UNLESS_TESTED:\n  int a;\n};", "class A { int a; };"),
        ("class A {\n public Q_SLOTS:\n  void f();\n};", "class A { public : void f(); };"),
        ("void f() {\n  JSON_TRY {\n  }\n}", "void f() { { } }"),
        ("void f() {\n  FOREACH(x, y) {\n  }\n}", "void f() { { } }"),
        ('TEST_CASE("parses (") {\n}', "TEST_CASE( ) { }"),
        ("int WINAPI f(int);", "int f(int);"),
        ("char* EXPORTED f(int);", "char* f(int);"),
        ("class A { int n_ GUARDED_BY(mutex_); };", "class A { int n_ ; };"),
        ("class A { B* const b_ GUARDED_BY(m) = 0; };", "class A { B* const b_ = 0; };"),
        ("class LEVELDB_EXPORT DB {};", "class DB {};"),
        ("class DB_API A::B final : public C {};", "class A::B final : public C {};"),
        ("class LEVELDB_EXPORT DB;", "class DB;"),
        ("template struct DB_API A<int>;", "template struct A<int>;"),
        ("void Lock() EXCLUSIVE_LOCK_FUNCTION() {\n}", "void Lock() { }"),
        ("void f() const SPDLOG_NOEXCEPT override;", "void f() const override;"),
        ("bool operator==(A b) const && JSON_NOEXCEPT;", "bool operator==(A b) const && ;"),
        ("\nCHECK_THROWS_AS(f(), Error&);", "CHECK_THROWS_AS(f(), Error );"),
        (
            "template <class T, FMT_ENABLE_IF(!is_int<T>())>\nint f(T);",
            "template <class T, FMT_ENABLE_IF > int f(T);",
        ),
    ],
)
def test_macros_where_no_expression_can_be_are_blanked(text: str, left: str) -> None:
    assert words(without(text)) == left


@pytest.mark.parametrize(
    "text",
    [
        "int a = MAX_SIZE;",
        "int a =\n    MAX_SIZE\n    + 1;",
        "enum E {\n  FIRST,\n  SECOND\n};",
        "enum E {\n  ONLY\n};",
        "void f() {\n  ASSERT_TRUE(x);\n  return;\n}\n",
        "f(\n    MAX_SIZE,\n    OTHER);",
        "static FILE* file;",
        "struct FILE x;",
        "FILE* open();",
        "DWORD f();",
        "auto x = static_cast<SIZE>(y);",
        "if (a) ASSERT(b);",
        "if (x)\n  RETURN_IF(y) + 1;",
        "void f() {\n  switch (x) {\n    case FIRST:\n      g();\n  }\n}",
        "x = (a) MINUS b;",
        "TEST(parser, reads) {\n}",
        "auto f() -> RESULT;",
        "using A = MY_TYPE;",
    ],
)
def test_names_in_expressions_types_and_enumerations_stay(text: str) -> None:
    assert ranges(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "// FMT_API int f();\n",
        "/*\nFMT_API int f();\n*/",
        'const char* a = "static FMT_API int f() AB_C {";',
        'auto a = R"(\nFMT_API int f();\n)";',
        "#define F FMT_API int f() AB_C\n",
        "#define F(x) \\\n  FMT_API \\\n  static FMT_API int f() AB_C {}\n",
        "#define F(x) \\\r\n  FMT_API int f();\r\n",
    ],
)
def test_no_macro_stands_in_a_comment_a_literal_or_a_directive(text: str) -> None:
    assert ranges(text) == []


@pytest.mark.parametrize("lines", [1, 39, 40, 100])
@pytest.mark.parametrize(
    "line", ["// silent\n", "#define A \\\n  x)\n", "/* a\n b)\n*/\n", "FMT_B(1) // x\n"]
)
def test_what_stands_before_is_found_over_any_number_of_silent_lines(lines: int, line: str) -> None:
    after_statement = "int a;\n" + line * lines + "FMT_BEGIN\nint b;"
    assert "FMT_BEGIN" not in without(after_statement)
    in_expression = "int a = 2 *\n" + line * lines + "FMT_BEGIN\n;"
    assert "FMT_BEGIN" in without(in_expression)


@given(macro_texts)
def test_what_is_blanked_is_sorted_disjoint_and_led_by_no_mark(text: str) -> None:
    data = text.encode()
    hidden = comments_and_literals(data)
    lines = directives(data, hidden)
    found = macros(data, hidden, lines)
    assert all(0 <= start < end <= len(data) for start, end in found)
    assert all(left.end <= right.start for left, right in pairwise(found))
    for start, _ in found:
        assert not any(each.start <= start < each.end for each in (*hidden, *lines))


@pytest.mark.parametrize(
    "text",
    [
        ")" + "&" * 100_000,
        "ENABLE_IF(" * 10_000,
        "AB_C /*\n" * 10_000,
        "AB_C\n" * 20_000,
        "class AB_C x< " * 10_000,
        'int AB_C f("x"); ' * 10_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_no_text_is_too_much_for_macros(text: str) -> None:
    assert len(without(text)) == len(text)
