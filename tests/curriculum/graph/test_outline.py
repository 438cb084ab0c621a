import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph import syntax_tree
from curriculum.graph.outline import MAX_CLASS_BYTES, SPACING_BYTES, Outline, outline
from schemas.corpus import LANGUAGES, Language

HEADER = """\
// Copyright of somebody.

#ifndef A_H
#define A_H
#include <vector>

namespace a {
extern "C" {

/// Adds one.
/// @param t what to add to
template <class T>
int add(T t) {
  return t + 1;
}


int declared();  // not above what follows
// A counter.
class Counter {
 public:
  /** Count. */
  void count() { ++n_; }

 private:
  int n_;
};

}  // extern "C"
}  // namespace a
#endif
"""


def kinds(text: str, language: Language = "cpp") -> list[tuple[str, str]]:
    data = text.encode()
    return [
        (item.kind, data[item.start : item.end].decode()) for item in outline(text, language).items
    ]


def ranges(text: str, found: Outline) -> tuple[list[str], list[str]]:
    data = text.encode()
    documentation = [data[start:end].decode() for start, end in found.documentation]
    return documentation, [data[start:end].decode() for start, end in found.bodies]


def test_guards_namespaces_and_linkage_are_looked_into() -> None:
    found = kinds(HEADER)
    assert [kind for kind, _ in found] == ["preamble", "function", "other", "class", "other"]
    assert found[1][1].startswith("/// Adds one.\n")
    assert found[1][1].endswith("}\n\n\n")
    assert found[2][1] == "int declared();  // not above what follows\n"
    assert found[3][1].startswith("// A counter.\nclass Counter {\n")


def test_doc_comments_and_bodies_are_found_in_classes_too() -> None:
    documentation, bodies = ranges(HEADER, outline(HEADER, "cpp"))
    assert documentation == [
        "/// Adds one.\n/// @param t what to add to",
        "// A counter.",
        "/** Count. */",
    ]
    assert bodies == ["{\n  return t + 1;\n}", "{ ++n_; }"]


DOCUMENTED = (
    ("/** Javadoc. */", "int f(int x) "),
    ("/**\n * Javadoc\n * of lines.\n */", "int f(int x) "),
    ("/*! Qt.\n *  @return x */", "int f(int x) "),
    ("//! Qt.", "int f(int x) "),
    ("/// Doxygen\n/// of lines.", "int f(int x) "),
    ("/* A block. */", "int f(int x) "),
    ("/*\n * A block\n * of lines.\n */", "int f(int x) "),
    ("// Lines\n// of words.", "int f(int x) "),
    ("// Lines.\n/* And a block. */", "int f(int x) "),
    ("/// Attributed.", "[[nodiscard]]\nint f(int x) "),
    ("/// Templated.", "template <class T>\nint f(T x) "),
)
"""Comments, and what stands under them up to a body."""


@pytest.mark.parametrize(("comment", "declaration"), DOCUMENTED)
def test_every_form_of_doc_comment_is_found_with_what_it_stands_above(
    comment: str, declaration: str
) -> None:
    body = "{ return x; }"
    code = f"int before();\n\n{comment}\n{declaration}{body}\n"
    member = "\n".join("  " + line for line in f"{comment}\n{declaration}{body}".split("\n"))
    for text in (code, f"class A {{\n int b;\n{member}\n}};\n"):
        assert [part.split() for part in shown(text)] == [
            part.split() for part in (comment, declaration, body)
        ]


def shown(text: str) -> list[str]:
    """The one documentation, declaration and body of a text."""
    data, found = text.encode(), outline(text, "cpp")
    spans = (found.documentation, found.declarations, found.bodies)
    return [data[start:end].decode() for (start, end) in (span for (span,) in spans)]


@pytest.mark.parametrize(
    "between", ["LIB_EXPORT", "DEPRECATED(2)", "#if defined(FAST)", "#ifdef FAST\nLIB_EXPORT"]
)
def test_a_macro_or_directive_may_stand_between_a_doc_comment_and_its_function(
    between: str,
) -> None:
    end = "#endif\n" if "#" in between else ""
    text = f"int a;\n\n/// Doc.\n{between}\nint f(int x) {{\n  return x;\n}}\n{end}"
    assert shown(text) == ["/// Doc.", "int f(int x) ", "{\n  return x;\n}"]
    assert ("function", f"/// Doc.\n{between}\nint f(int x) {{\n  return x;\n}}\n") in kinds(text)


def test_declarations_end_at_their_end_where_they_have_no_body() -> None:
    text = (
        "/// A.\nint declared(int x);\n\n/// B.\nenum class E { a };\n\n"
        "/// C.\nclass Outer {\n  /// D.\n  struct Inner { int x; };\n\n  /// E.\n  Outer() = default;\n};\n"
    )
    data, found = text.encode(), outline(text, "cpp")
    assert len(found.documentation) == 5
    assert [data[start:end].decode() for start, end in found.declarations] == [
        "int declared(int x);",
        "enum class E { a }",
        "struct Inner { int x; };",
        "Outer() = default;",
    ]


def test_a_comment_behind_a_member_documents_nothing_below() -> None:
    text = "struct A {\n  int a;  ///< Behind.\n  int b;\n};\n"
    assert outline(text, "cpp").documentation == ()


def test_the_members_of_a_large_class_are_items() -> None:
    members = "".join(f"  int get{i}() {{\n    return {i};\n  }}\n\n" for i in range(400))
    text = f"class Large {{\n public:\n{members}}};\n"
    assert len(text) > MAX_CLASS_BYTES
    found = kinds(text)
    assert [kind for kind, _ in found].count("function") == 400
    assert found[0] == ("other", "class Large {\n public:\n")


def test_functions_on_one_line_are_one_item() -> None:
    text = "int a() { return 1; } int b() {\n  return 2; }\nint c() { return 3; }\n"
    assert kinds(text) == [
        ("function", "int a() { return 1; } int b() {\n  return 2; }\n"),
        ("function", "int c() { return 3; }\n"),
    ]
    assert len(outline(text, "cpp").bodies) == 3


def test_a_comment_with_a_blank_line_below_documents_nothing() -> None:
    text = "// about the file\n\nint f() { return 1; }\n"
    assert kinds(text) == [("comment", "// about the file\n\n"), ("function", text[19:])]
    assert outline(text, "cpp").documentation == ()


def test_functions_survive_damage_around_them() -> None:
    text = "MACRO( int x = = ;\n\nint good(int a) {\n  return a;\n}\n\n} } ) @@@\n"
    assert any("int good" in text and kind == "function" for kind, text in kinds(text))


def test_c_has_its_own_grammar() -> None:
    text = "int class(int new) {\n  return new;\n}\n\nstruct s {\n  int delete;\n};\n"
    assert [kind for kind, _ in kinds(text, "c")] == ["function", "class"]


@pytest.mark.parametrize("language", ["cmake", "make", "bazel", "meson"])
def test_build_files_are_grouped_by_blank_lines(language: Language) -> None:
    block = "set(A 1)\n" * 80
    assert [text for _, text in kinds(f"{block}\n{block}\n\n{block}", language)] == [
        f"{block}\n",
        f"{block}\n\n",
        block,
    ]


SNIPPETS = st.sampled_from(
    [
        *HEADER.splitlines(keepends=True),
        "\n",
        "{",
        "}",
        "(",
        "é",
        "\0",
        "/*",
        "*/",
        '"',
        "\\\n",
        "\f\n",
    ]
)


@given(st.lists(SNIPPETS, max_size=60).map("".join), st.sampled_from(LANGUAGES))
def test_items_tile_any_text_at_line_starts(text: str, language: Language) -> None:
    data = text.encode()
    found = outline(text, language)
    position = line = 0
    for item in found.items:
        assert (item.start, item.first) == (position, line)
        assert item.start < item.end
        assert item.start == 0 or data[item.start - 1] == ord("\n")
        assert data[: item.start].count(b"\n") == item.first
        position, line = item.end, item.last
    assert position == len(data) == found.starts[-1]
    for spans in (
        found.documentation,
        found.declarations,
        found.bodies,
        found.statements,
        found.arguments,
    ):
        borders = [border for span in spans for border in span]
        assert borders == sorted(borders)
        assert all(0 <= start < end <= len(data) for start, end in spans)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_000_000,
        "a<" * 400_000,
        "{" * 1_000_000,
        "namespace a{" * 80_000,
        "#if A\n" * 150_000,
    ],
    ids=lambda text: repr(text[:9]),
)
def test_nesting_without_end_ends(text: str) -> None:
    items = outline(text, "cpp").items
    assert (items[0].start, items[-1].end) == (0, len(text))


def test_past_the_steps_allowed_a_file_is_grouped_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax_tree, "_SPARE_CHECKS", 0)
    monkeypatch.setattr(syntax_tree, "_CHECKS_PER_BYTE", 0.001)
    text = "int f() {\n  return 1;\n}\n\n" * 1_000 + "// past the limit\n"
    found = outline(text, "cpp")
    assert {item.kind for item in found.items} == {"other"}
    assert found.bodies == ()
    assert len(found.items) > 1


def test_past_the_size_allowed_a_file_is_grouped_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax_tree, "MAX_PARSED_BYTES", 10)
    assert kinds("int f() { return 2; }\n") == [("other", "int f() { return 2; }\n")]
    outline.cache_clear()
    syntax_tree.parse.cache_clear()


def test_an_empty_file_has_no_items() -> None:
    assert outline("", "cpp").items == ()


TEXT = """\
int before = outside(1);

/// Adds.
int add(int a, int b) {
  // é: a remark is no statement
  if (a > b) {
    log("é", pair(a, b));
  }
  return a + b;
}
"""


def found(text: str, language: Language = "cpp") -> tuple[list[str], list[str]]:
    data, lines = text.encode(), outline(text, language)
    return tuple(  # type: ignore[return-value]
        [data[start:end].decode() for start, end in spans]
        for spans in (lines.statements, lines.arguments)
    )


def test_the_first_of_each_stretch_is_kept() -> None:
    assert found(TEXT) == (['if (a > b) {\n    log("é", pair(a, b));\n  }'], ["1"])


def test_stretches_apart_have_one_each() -> None:
    gap = "  // " + "." * SPACING_BYTES + "\n"
    text = TEXT.replace("  if", f"{gap}  if").replace("  return", f"{gap}  return")
    assert found(text) == (
        ['if (a > b) {\n    log("é", pair(a, b));\n  }', "return a + b;"],
        ["1", '"é", pair(a, b)'],
    )


def test_nothing_between_parentheses_is_no_argument() -> None:
    assert found("int f() { return g() + h( ); }\n")[1] == []


def test_no_more_than_a_few_are_marked() -> None:
    text = "int f(int x) {\n" + "  x = g(x, 1);\n" * 4000 + "  return x;\n}\n"
    for spans in found(text):
        assert 0.9 < len(spans) / (len(text) / SPACING_BYTES) <= 1.01


def test_c_has_them_and_build_files_have_not() -> None:
    assert found("int f(int new) { return g(new); }\n", "c") == (["return g(new);"], ["new"])
    assert found("add_library(x a.cc)\n", "cmake") == ([], [])
