import numpy as np
import pytest
import tree_sitter
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph import syntax_tree
from curriculum.graph.blank import blank, comments_and_literals, dead_branches, unclosed
from curriculum.graph.syntax_tree import (
    MAX_PARSED_BYTES,
    Parsed,
    deepest,
    follow,
    grammar,
    parse,
    tree_of,
)
from schemas.corpus import LANGUAGES, Language

PIECES = [
    "int f(int a) { return a; }\n",
    "LABEL:\n  + LABEL\n",
    "FMT_API int g();\n",
    "AB_BEGIN\n",
    "class AB_API C : D {\n",
    "};\n",
    "namespace a {\n",
    "}\n",
    "#if A\n",
    "#else\n",
    "#endif\n",
    "#define M(x) x {\n",
    "@ ) (\n",
    "/* é */",
    "/* open",
    '"',
    "\0",
]
texts = st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=60)


def parsed(text: str, language: Language = "cpp") -> Parsed:
    found = parse(text, language)
    assert found is not None
    return found


def bytes_in_errors(tree: tree_sitter.Tree) -> int:
    inside: set[int] = set()
    waiting = [tree.root_node]
    while waiting:
        node = waiting.pop()
        if node.is_error:
            inside |= set(range(node.start_byte, node.end_byte))
        waiting += node.children
    return len(inside)


@given(texts, st.sampled_from(["cpp", "c"]))
def test_what_is_parsed_is_the_file_with_blanks(text: str, language: Language) -> None:
    found = parse(text, language)
    if found is None:
        return
    data = text.encode()
    assert found.data == data
    assert len(found.source) == len(data)
    assert all(new in (old, ord(" ")) for new, old in zip(found.source, data, strict=True))
    assert found.source.count(b"\n") == data.count(b"\n")
    assert found.tree.root_node.end_byte <= len(data)


@given(texts, st.sampled_from(["cpp", "c"]))
def test_error_bytes_are_those_in_any_error(text: str, language: Language) -> None:
    found = parse(text, language)
    if found is not None:
        assert found.error_bytes == bytes_in_errors(found.tree)


@given(texts)
def test_no_more_stands_in_errors_than_with_all_macros(text: str) -> None:
    data = text.encode()
    hidden = comments_and_literals(data)
    dead = dead_branches(data, hidden, "cpp")
    with_macros = tree_of(blank(blank(data, unclosed(data, hidden)), dead), "cpp")
    found = parse(text, "cpp")
    if found is not None and found.error_bytes * 500 > len(data):
        assert with_macros is not None
        assert found.error_bytes <= bytes_in_errors(with_macros)


def test_branches_and_macros_are_blanked_but_not_lost() -> None:
    text = "#if 0\nint a() {\n#else\nAB_API int a() {\n#endif\n  return 1;\n}\n"
    found = parsed(text)
    assert found.source.decode().split() == ["int", "a()", "{", "return", "1;", "}"]
    assert found.error_bytes == 0
    assert [text[start:end] for start, end in found.dead] == ["#if 0\nint a() {\n#else", "#endif"]


def test_directives_go_only_where_that_helps() -> None:
    good = "#define A 1\nint f();\n"
    assert parsed(good).source.decode() == good
    amid = "int f(\n#define A 1\n  int a,\n#pragma omp\n  int b) {\n  return a;\n}\n"
    assert b"#" not in parsed(amid).source
    assert parsed(amid).error_bytes == 0


def test_macros_stay_where_that_helps() -> None:
    text = "LABEL:\n  + LABEL\n"
    assert parsed(text).source.decode() == text
    assert parsed(text).error_bytes == 0


def test_a_good_variant_is_the_last_that_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []

    def seen(data: bytes, language: Language) -> tree_sitter.Tree | None:
        tried.append(data)
        return tree_of(data, language)

    monkeypatch.setattr(syntax_tree, "tree_of", seen)
    parsed("AB_BEGIN\nint only_once();\n#define A 1\n")
    assert len(tried) == 1
    parsed("AB_BEGIN\n@ ) ( twice_or_more\n#define A 1\n")
    assert len(tried) == 1 + 3


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"cpp", "c"}))
def test_other_languages_have_no_tree(language: Language) -> None:
    assert parse("int a;\n", language) is None


def test_nothing_and_too_much_have_no_tree() -> None:
    assert parse("", "cpp") is None
    assert parse(" " * MAX_PARSED_BYTES, "cpp") is not None
    assert parse(" " * MAX_PARSED_BYTES + "\n", "cpp") is None


def test_a_parse_of_too_many_steps_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax_tree, "_SPARE_CHECKS", 0)
    monkeypatch.setattr(syntax_tree, "_CHECKS_PER_BYTE", 0.0)
    assert parse("int given_up;\n" * 1_000, "cpp") is None
    monkeypatch.undo()
    assert parse("int read;\n" * 1_000, "cpp") is not None


def test_a_tangle_of_errors_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "@ ) ( int\n" * 50
    assert parsed(text).error_bytes > 0
    monkeypatch.setattr(syntax_tree, "_MAX_TANGLE", 10)
    parse.cache_clear()
    assert parse(text, "cpp") is None


def test_an_open_comment_ends_the_file() -> None:
    text = "int f();\n/* int g();\nint h();\n"
    assert parsed(text).source.split() == [b"int", b"f();"]
    assert parsed(text).error_bytes == 0


def test_c_is_read_as_c() -> None:
    text = "int f(a) int a; { return a; }\n"
    assert not parsed(text, "c").tree.root_node.has_error
    assert parsed(text, "cpp").tree.root_node.has_error


@pytest.mark.parametrize("text", ["AB_C /*\n" * 20_000, "a(/* " * 20_000, 'R"(' * 20_000])
def test_a_mark_that_opens_to_the_end_is_read_once(text: str) -> None:
    assert len(parsed(text).source.strip()) < 10


def test_a_limited_parse_is_the_same_as_any() -> None:
    data = b"namespace a { int f() { return g(1); } }\n" * 2_000
    limited = tree_of(data, "cpp")
    assert limited is not None
    assert str(limited.root_node) == str(tree_sitter.Parser(grammar("cpp")).parse(data).root_node)


@st.composite
def nested(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], int]:
    """Nested ranges (start, end, parent) in preorder, and a size; some are empty."""
    size = draw(st.integers(1, 24))
    ranges: list[tuple[int, int, int]] = []

    def fill(start: int, end: int, parent: int, depth: int) -> None:
        place = start
        while place < end and draw(st.booleans()):
            first = draw(st.integers(place, end))
            last = draw(st.integers(first, end))
            ranges.append((first, last, parent))
            if depth:
                fill(first, last, len(ranges) - 1, depth - 1)
            place = last

    fill(0, size, -1, 4)
    return ranges, size


@given(nested())
def test_the_deepest_is_what_a_painter_leaves_on_top(
    drawn: tuple[list[tuple[int, int, int]], int],
) -> None:
    ranges, size = drawn
    painted = [-1] * size
    for number, (start, end, _) in enumerate(ranges):
        painted[start:end] = [number] * (end - start)
    table = np.array(ranges, dtype=np.int32).reshape(-1, 3)
    assert deepest(table[:, 0], table[:, 1], table[:, 2], size).tolist() == painted


def test_the_painter_s_ranges_are_not_all_trivial() -> None:
    ranges = np.array([[0, 6, -1], [0, 2, 0], [1, 2, 1], [2, 2, 0], [4, 6, 0], [5, 6, 4]])
    table = ranges.astype(np.int32)
    found = deepest(table[:, 0], table[:, 1], table[:, 2], 7)
    assert found.tolist() == [1, 2, 0, 0, 4, 5, -1]


@given(st.lists(st.integers(0, 10_000), max_size=60))
def test_follow_ends_where_walking_does(drawn: list[int]) -> None:
    links = [number % (place + 1) for place, number in enumerate(drawn)]
    wanted = []
    for place in range(len(links)):
        while links[place] != place:
            place = links[place]
        wanted.append(place)
    assert follow(np.array(links, dtype=np.int32)).tolist() == wanted


@pytest.mark.parametrize("length", [1, 2, 3, 100_000])
def test_follow_takes_chains_of_any_length(length: int) -> None:
    links = np.maximum(np.arange(length, dtype=np.int32) - 1, 0)
    assert not follow(links).any()
