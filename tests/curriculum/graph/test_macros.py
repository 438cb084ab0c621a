from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.blank import blank, directives, opaque
from curriculum.graph.facts import Range
from curriculum.graph.macros import macros

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
    hidden = opaque(data)
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
    hidden = opaque(data)
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
