"""Below FULL FILE: what a change edited, and signatures of other definitions."""

from collections.abc import Callable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from curriculum.families.related_lines import LINES_AROUND, MAX_PART_BYTES
from curriculum.families.render import render
from schemas.change import FileChange
from schemas.document import Document

MakeChange = Callable[..., FileChange]
TITLE = "// === FULL FILE (Post-Commit) ===\n"


def related(change: FileChange) -> Document:
    (document,) = render(change, ["v3_simple"]).documents
    return document


def full_file(document: Document) -> str:
    return document.text.partition(TITLE)[2]


def function(name: str, lines: int = 2) -> str:
    return f"int {name}(int v) {{\n" + f"  v += {name[-1]};\n" * lines + "}\n\n"


def test_a_function_with_a_hunk_is_whole_and_the_nearest_others_are_signatures(
    make_change: MakeChange,
) -> None:
    before = "".join(function(f"name_{at}") for at in range(9))
    shown = full_file(related(make_change(before, before.replace("v += 4", "v -= 4"))))
    assert function("name_4").replace("v += 4", "v -= 4") in shown
    assert "int name_3(int v) {\n// …\n}\n" in shown
    assert "name_0" not in shown


def test_a_definition_that_the_change_names_comes_before_nearer_ones(
    make_change: MakeChange,
) -> None:
    before = "".join(function(f"name_{at}") for at in range(9))
    change = make_change(before, before.replace("  v += 8;\n", "  v = name_0(v);\n", 1))
    shown = full_file(related(change))
    assert "int name_0(int v) {\n// …\n}\n" in shown
    assert "name_7" not in shown


def test_a_large_function_shows_its_signature_and_the_lines_around_a_hunk(
    make_change: MakeChange,
) -> None:
    lines = [f"  step_{at}(v);\n" for at in range(MAX_PART_BYTES // 10)]
    before = "int large(int v) {\n" + "".join(lines) + "}\n"
    change = make_change(before, before.replace("step_200(v)", "step_200(v, v)"))
    shown = full_file(related(change))
    assert shown.startswith("int large(int v) {\n// …\n")
    assert shown.count("step_") == 2 * LINES_AROUND + 1


def test_outside_of_definitions_a_hunk_shows_its_paragraph(make_change: MakeChange) -> None:
    before = "#define A 1\n\n#define B 1\n#define C 1\n\n" + function("name_0")
    change = make_change(before, before.replace("C 1", "C 2"))
    assert full_file(related(change)).startswith("// …\n#define B 1\n#define C 2\n")


def test_a_file_without_a_tree_shows_paragraphs_alone(make_change: MakeChange) -> None:
    before = "set(A 1)\n\nset(B 1)\nset(C 1)\n\nset(D 1)\n"
    change = make_change(
        before, before.replace("B 1", "B 2"), language="cmake", path="CMakeLists.txt"
    )
    assert related(change).text.endswith("===\n# …\nset(B 2)\nset(C 1)\n# …\n")


NAMES = st.sampled_from("abcdefgh")
BODIES = st.lists(st.sampled_from(["f(v);", "g(v);", "", "// note"]), max_size=6)


def source(functions: list[tuple[str, list[str]]]) -> str:
    return "".join(
        f"int {name}(int v) {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n\n"
        for name, lines in functions
    )


FILES = st.lists(st.tuples(NAMES, BODIES), min_size=1, max_size=8).map(source)


def documents(change: FileChange) -> Iterator[Document]:
    yield from render(change, ["v3_simple"]).documents


@given(before=FILES, after=FILES)
def test_signatures_take_no_more_bytes_than_changes(
    make_change: MakeChange, before: str, after: str
) -> None:
    for document in documents(make_change(before, after)):
        sizes = dict.fromkeys(("changes", "signatures"), 0)
        for part in document.parts:
            kind = "signatures" if part.elidable else part.kind
            sizes[kind] = sizes.get(kind, 0) + part.end - part.start
        assert sizes["signatures"] <= sizes["changes"]


@given(before=FILES, after=FILES)
def test_a_gap_line_stands_for_text_that_is_left_out_and_for_nothing_else(
    make_change: MakeChange, before: str, after: str
) -> None:
    data = after.encode()
    for document in documents(make_change(before, after)):
        shown = [each for each in document.provenance if each.blob == "a" * 40]
        borders = [0, *(place for each in shown for place in (each.start, each.end)), len(data)]
        hidden = [data[start:end] for start, end in zip(borders[::2], borders[1::2], strict=True)]
        marks = full_file(document).count("// …\n")
        assert marks == sum(bool(text.strip()) for text in hidden)
        unscored = {(span.start, span.end) for span in document.spans if span.kind == "unscored"}
        text = document.text.encode()
        assert sum(text[start:end] == "// …\n".encode() for start, end in unscored) == marks


@given(before=FILES, after=FILES)
def test_the_added_lines_and_no_others_are_repeated(
    make_change: MakeChange, before: str, after: str
) -> None:
    change = make_change(before, after)
    lines = after.splitlines(keepends=True)
    added = "".join(
        line
        for hunk in change.hunks
        for line in lines[hunk.after_start : hunk.after_start + hunk.after_lines]
    )
    for document in documents(change):
        text = document.text.encode()
        spans = [span for span in document.spans if span.kind == "repeated"]
        assert "".join(text[span.start : span.end].decode() for span in spans) == added
