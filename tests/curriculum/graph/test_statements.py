from curriculum.graph.outline import outline
from curriculum.graph.structure import SPACING
from schemas.corpus import Language

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
    gap = "  // " + "." * SPACING + "\n"
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
        assert 0.9 < len(spans) / (len(text) / SPACING) <= 1.01


def test_c_has_them_and_build_files_have_not() -> None:
    assert found("int f(int new) { return g(new); }\n", "c") == (["return g(new);"], ["new"])
    assert found("add_library(x a.cc)\n", "cmake") == ([], [])
