"""Structure of code, in general and in small files reviewed by eye: tests/golden/structure/<file>.txt.

In these, STRUCTURE_CODES of a line's bytes are below it, chunks are after the text. After an intended change
raise the revision of v6_enriched, write them anew with

    python tests/curriculum/graph/test_structure.py

and read the difference.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tree_sitter
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.load import unpack_samples
from curriculum.graph.facts import FileFacts
from curriculum.graph.index import facts_of
from curriculum.graph.structure import CodeStructure, code_structure
from curriculum.graph.syntax_tree import parse
from schemas.corpus import Language
from schemas.structure import BUCKET_NAMES, NO_NODE, STRUCTURE_CODES, node_type

NAMES = {code: name for name, code in STRUCTURE_CODES.items()}
FRAGMENTS = [
    "class Foo : public Bar<int> {\n",
    "public:\n",
    "};\n",
    "}\n",
    "{",
    "int f(int a, char* b) {\n",
    "  return g(a) + 1;\n",
    "// a comment é\n",
    "/* one */ ",
    "template <class T>\n",
    "namespace a::b {\n",
    '#include "x.h"\n',
    "#if A\n",
    "#else\n",
    "#endif\n",
    "#define M(x) x\n",
    "FMT_API ",
    "void g() NOEXCEPT;\n",
    "using X = int;\n",
    "typedef struct { int a; } S;\n",
    "enum E { A, B };\n",
    "auto l = [](int x) { return x; };\n",
    'extern "C" ',
    "@@ $ \0 ((( \n",
    "\n\n",
    "  Foo() : a(1) {}\n",
    "operator bool() const;\n",
]
NO_FACTS = FileFacts(error_bytes=0, is_complete=False)
codes = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)
either: st.SearchStrategy[Language] = st.sampled_from(["cpp", "c"])


def structure(text: str, language: Language = "cpp") -> CodeStructure:
    return code_structure(text, language, facts_of(text, language))


def columns(found: CodeStructure) -> list[list[int]]:
    return [found.ast_depth.tolist(), found.sibling_index.tolist(), found.ast_node_type.tolist()]


def painted(text: str, language: Language) -> list[list[int]]:
    """Depth, sibling and type of each byte, painted node by node over what is around."""
    data = text.encode()
    depths, siblings, types = ([0] * len(data) for _ in range(3))
    parsed = parse(text, language)
    if parsed is None:
        return [depths, siblings, types]
    token = [False] * len(data)
    waiting: list[tuple[tree_sitter.Node, int, int, bool]] = [(parsed.tree.root_node, 0, 0, False)]
    while waiting:
        node, depth, sibling, damaged = waiting.pop()
        damaged |= node.type == "ERROR"
        kind = node_type(node.type, is_named=node.is_named)
        for place in range(node.start_byte, node.end_byte):
            token[place] = not node.children or node.type == "pure_virtual_clause"
            depths[place] = 0 if damaged else min(depth + 1, 64)
            siblings[place] = 0 if damaged else min(sibling + 1, 64)
            types[place] = 0 if damaged else kind
        for number, child in enumerate(node.children):
            waiting.append((child, depth + 1, number, damaged))
    for place in range(len(data)):
        if not token[place] and data[place] not in b" \n\t\v\f\r":
            depths[place] = siblings[place] = types[place] = 0
    return [depths, siblings, types]


def kinds_of(text: str, language: Language = "cpp") -> dict[str, str]:
    """The category of each word of a text that has it once."""
    data, found = text.encode(), structure(text, language)
    words = text.split()
    once = [word for word, count in Counter(words).items() if count == 1]
    return {word: NAMES[int(found.structure_ids[data.index(word.encode())])] for word in once}


@given(codes, either)
def test_columns_are_what_a_painter_leaves(text: str, language: Language) -> None:
    assert columns(structure(text, language)) == painted(text, language)


@given(codes | st.text(max_size=60), either)
def test_chunks_are_sorted_disjoint_and_solid(text: str, language: Language) -> None:
    data, found = text.encode(), structure(text, language)
    assert found.structure_ids.all()
    assert len(found.structure_ids) == len(data)
    for chunk in found.chunks:
        assert data[chunk.start : chunk.end] == data[chunk.start : chunk.end].strip()
        assert chunk.start < chunk.end
    assert all(left.end <= right.start for left, right in pairwise(found.chunks))


def test_real_files_have_what_a_painter_leaves(tmp_path: Path) -> None:
    files = [
        file
        for tree in unpack_samples(tmp_path)
        for file in sorted(tree.rglob("*"))
        if file.suffix in (".c", ".cpp", ".h", ".hpp") and file.stat().st_size < 6_000
    ][:25]
    assert len(files) > 20
    types: set[int] = set()
    for file in files:
        text = file.read_text()
        language: Language = "c" if file.suffix == ".c" else "cpp"
        found = structure(text, language)
        assert columns(found) == painted(text, language)
        types |= set(found.ast_node_type.tolist())
    assert len(types) > 100


def test_bytes_in_an_error_have_no_node_but_a_category() -> None:
    text = "int f() {\n  int ok = 1;\n  @ @ 5 5 ) ) =;\n  return 2;\n}\n"
    found = structure(text)
    place = text.index("@")
    assert found.ast_node_type[place] == NO_NODE
    assert found.ast_depth[place] == found.sibling_index[place] == 0
    assert NAMES[int(found.structure_ids[place])] == "func_body"
    assert BUCKET_NAMES[int(found.ast_node_type[text.index("ok")])] == "identifier"


def test_a_blanked_macro_belongs_to_what_follows_on_its_line() -> None:
    text = "namespace a {\nMY_API int twice(int x) { return 2 * x; }\n}\n"
    found = structure(text)
    assert kinds_of(text)["MY_API"] == "func_sig"
    (chunk,) = found.chunks
    assert text[chunk.start : chunk.end].startswith("MY_API")
    assert chunk.name == "a::twice"


def test_a_function_is_one_chunk_and_its_class_keeps_the_rest() -> None:
    text = "struct A {\n  int a;\n  int f() { struct L { void g() {} }; return 1; }\n  int b;\n};\n"
    found = structure(text)
    shown = [(text[c.start : c.end], NAMES[c.kind], c.name) for c in found.chunks]
    assert shown == [
        ("struct A {\n  int a;", "class_decl", "A"),
        ("int f() { struct L { void g() {} }; return 1; }", "func_body", "A::f"),
        ("int b;\n};", "class_decl", "A"),
    ]


def test_a_header_guard_is_preamble_only_around_everything() -> None:
    guarded = "// licence\n#ifndef A_H\n#define A_H\nint a;\n#endif  // end\n"
    assert kinds_of(guarded)["#ifndef"] == kinds_of(guarded)["#endif"] == "preamble"
    assert kinds_of(guarded)["licence"] == "comment"
    default = "#ifndef SIZE\n#define SIZE 3\n#endif\nint a;\n"
    assert kinds_of(default)["#ifndef"] == "other"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\0",
        " " * 1000,
        "(" * 200_000,
        "{" * 200_000,
        "int a = " + "(" * 50_000 + "1" + ")" * 50_000 + ";",
        "template <" * 30_000,
        "a::" * 100_000,
        "if (1) " * 50_000,
        "int " + "x" * 1_000_000 + ";",
        "int x;" * 100_000,
        "#if 1\n" * 30_000,
        "\\\n" * 50_000,
        'R"(' * 20_000,
        "\U0001f600" * 10_000,
    ],
    ids=lambda text: repr(text[:8]),
)
@pytest.mark.parametrize("language", ["cpp", "c"])
def test_no_text_is_too_much(text: str, language: Language) -> None:
    found = code_structure(text, language, NO_FACTS)
    assert len(found.structure_ids) == len(text.encode())
    assert {len(column) for column in columns(found)} == {len(text.encode())}


def test_text_beyond_the_parser_s_limits_is_other_without_chunks() -> None:
    text = "int a;\n" * 400_000
    found = structure(text)
    assert found.chunks == ()
    assert set(np.unique(found.structure_ids).tolist()) == {STRUCTURE_CODES["other"]}
    assert not np.any(columns(found))


GOLDEN = Path(__file__).parents[2] / "golden" / "structure"
SOURCES = sorted(file for file in GOLDEN.iterdir() if file.suffix != ".txt")


def shown(text: str, language: Language) -> Iterator[str]:
    assert text.isascii()
    found = code_structure(text, language, facts_of(text, language))
    start = 0
    for line in text.splitlines():
        codes = found.structure_ids[start : start + len(line)].tolist()
        yield line
        yield "".join(
            " " if byte.isspace() else str(code) for byte, code in zip(line, codes, strict=True)
        ).rstrip()
        start += len(line) + 1
    for chunk in found.chunks:
        first, *more = text[chunk.start : chunk.end].splitlines()
        lines = f"{first} … {more[-1].strip()}" if more else first
        yield f"{NAMES[chunk.kind]:12} {chunk.name or '-':24} | {lines}"


def expected(source: Path) -> str:
    language: Language = "c" if source.suffix == ".c" else "cpp"
    return "\n".join(shown(source.read_text(encoding="utf-8"), language)) + "\n"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_structure_is_as_reviewed(source: Path) -> None:
    golden = source.with_suffix(source.suffix + ".txt")
    assert expected(source) == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_source() -> None:
    golden = {file.name.removesuffix(".txt") for file in GOLDEN.glob("*.txt")}
    assert golden == {source.name for source in SOURCES}
    assert len(golden) > 5


if __name__ == "__main__":
    for file in SOURCES:
        file.with_suffix(file.suffix + ".txt").write_text(expected(file), encoding="utf-8")
