import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.families.document_check import check_document
from curriculum.families.edit import MAX_EDIT_BYTES, MAX_REMOVED_SHARE
from curriculum.families.edit_blocks import MARKERS, NO_NEWLINE, apply_blocks, whole_lines
from curriculum.families.render import render
from curriculum.families.v6_enriched import enrich
from schemas.change import FileChange, Hunk
from schemas.document import Document, Part
from schemas.structure import STRUCTURE_CODES

MakeChange = Callable[..., FileChange]
FUNCTIONS = "".join(f"int f{number}() {{\n  return {number};\n}}\n\n" for number in range(5))
KEPT = "".join(f"kept {number}\n" for number in range(6))


def edit(change: FileChange) -> Document:
    (document,) = render(change, ["edit"]).documents
    check_document(document)
    return document


def skip_reasons(change: FileChange) -> list[tuple[str, int]]:
    rendered = render(change, ["edit"])
    assert not rendered.documents
    return [(count.reason, count.number) for count in rendered.counts]


def text_of(document: Document, *kinds: str) -> str:
    return "".join(shown(document, part) for part in document.parts if part.kind in kinds)


def shown(document: Document, part: Part) -> str:
    return document.text.encode()[part.start : part.end].decode()


def scored_text(document: Document) -> str:
    """The text outside of unscored spans."""
    data = bytearray(document.text.encode())
    for span in reversed([span for span in document.spans if span.kind == "unscored"]):
        del data[span.start : span.end]
    return data.decode()


@given(
    before=st.lists(st.sampled_from("abcd"), max_size=9),
    after=st.lists(st.sampled_from("abcd"), max_size=9),
    ends=st.tuples(st.booleans(), st.booleans()),
)
def test_blocks_make_the_file_after_and_first_search_lines_and_added_lines_are_scored(
    make_change: MakeChange, before: list[str], after: list[str], ends: tuple[bool, bool]
) -> None:
    old, new = (
        KEPT + "\n".join(lines) + "\n" * is_closed
        for lines, is_closed in zip((before, after), ends, strict=True)
    )
    change = make_change(old, new)
    rendered = render(change, ["edit"])
    if not rendered.documents:
        assert rendered.counts[0].reason in ("unchanged", "blank_change", "whole_rewrite")
        return
    document = edit(change)
    blocks = text_of(document, "target")
    assert apply_blocks(old, blocks) == new
    firsts = [block.split("\n")[1] for block in blocks.split("<<<<<<< SEARCH")[1:]]
    lines = whole_lines(new)
    added = [
        line.removesuffix("\n")
        for hunk in change.hunks
        for line in lines[hunk.after_start : hunk.after_start + hunk.after_lines]
    ]
    assert sorted(scored_text(document).split("\n")[:-1]) == sorted(firsts + added)


def test_a_document_is_header_file_and_blocks(make_change: MakeChange) -> None:
    document = edit(make_change(FUNCTIONS, FUNCTIONS.replace("return 1", "return -1")))
    assert document.text == (
        "// File: src/a.cc\n// Subject: Mend it\n// Repository: sample\n"
        "// Commit: 0123456789ab\n// Date: 2020-09-13\n\n"
        f"{FUNCTIONS}"
        "<<<<<<< SEARCH\n  return 1;\n=======\n  return -1;\n>>>>>>> REPLACE\n"
    )
    assert scored_text(document) == "  return 1;\n  return -1;\n"


def test_what_a_search_touches_stays_and_the_farthest_goes_first(make_change: MakeChange) -> None:
    before = FUNCTIONS.replace("return 2", "return 1")
    changed = before.replace("f1() {\n  return 1", "f1() {\n  return -1")
    document = edit(make_change(before, changed))
    code = [(part.elidable, part.rank) for part in document.parts if part.kind == "code"]
    assert code == [(True, 0), (False, 0), (True, 2), (True, 6), (True, 10)]
    assert "SEARCH\nint f1() {\n  return 1;\n=======\nint f1() {\n  return -1;\n" in document.text
    assert scored_text(document) == "int f1() {\n  return -1;\n"
    targets = [part for part in document.parts if part.kind == "target"]
    assert not any(part.elidable for part in targets)


def test_a_file_without_its_last_line_end_says_so(make_change: MakeChange) -> None:
    document = edit(make_change("a;\nb;", "a;\nc;\nd;"))
    assert text_of(document, "code") == f"a;\nb;\n{NO_NEWLINE}"
    assert text_of(document, "target") == (
        f"<<<<<<< SEARCH\nb;\n{NO_NEWLINE}=======\nc;\nd;\n{NO_NEWLINE}>>>>>>> REPLACE\n"
    )
    assert scored_text(document) == "b;\nc;\nd;\n"


def test_an_empty_file_has_an_empty_search(make_change: MakeChange) -> None:
    document = edit(make_change("", "a;\n"))
    assert text_of(document, "code") == ""
    assert text_of(document, "target") == "<<<<<<< SEARCH\n=======\na;\n>>>>>>> REPLACE\n"
    assert scored_text(document) == "a;\n"


def test_removed_lines_are_read_but_for_the_first(make_change: MakeChange) -> None:
    document = edit(make_change("a;\nb;\nc;\nd;\n", "a;\nd;\n"))
    assert text_of(document, "target") == "<<<<<<< SEARCH\nb;\nc;\n=======\n>>>>>>> REPLACE\n"
    assert scored_text(document) == "b;\n"


def test_blocks_cite_the_version_before_and_the_one_after(make_change: MakeChange) -> None:
    change = make_change("é;\na;\nb;\n", "é;\nx;\nb;\n", kind="renamed", old_path="old.cc")
    sources = edit(change).provenance
    assert [(source.path, source.blob[0], source.start, source.end) for source in sources] == [
        ("old.cc", "b", 0, 10),
        ("old.cc", "b", 4, 7),
        ("src/a.cc", "a", 4, 7),
    ]


@pytest.mark.parametrize("marker", MARKERS)
def test_a_file_with_a_marker_gives_nothing(make_change: MakeChange, marker: str) -> None:
    text = f"a;\nb;\n{marker}c;\n"
    for before, after in ((text, text.replace("a", "x")), ("a;\nb;\n", text)):
        assert skip_reasons(make_change(before, after)) == [("marker_lines", 1)]


def test_a_rewrite_gives_nothing(make_change: MakeChange) -> None:
    lines = [f"old {number}\n" for number in range(10)]
    border = int(MAX_REMOVED_SHARE * len(lines))
    for number, is_rewrite in ((border, False), (border + 1, True)):
        new = [line.replace("old", "new") for line in lines[:number]]
        change = make_change("".join(lines), "".join(new + lines[number:]))
        if is_rewrite:
            assert skip_reasons(change) == [("whole_rewrite", 1)]
        else:
            edit(change)


def test_edits_past_the_limit_give_nothing(make_change: MakeChange) -> None:
    change = make_change("a;\n", "a;\n" + "x" * MAX_EDIT_BYTES + "\n")
    assert skip_reasons(change) == [("edits_too_large", 1)]


def test_lines_that_repeat_too_much_give_nothing(make_change: MakeChange) -> None:
    hunk = Hunk(before_start=500, before_lines=0, after_start=500, after_lines=1)
    change = make_change("a;\n" * 1000, "a;\n" * 500 + "b;\n" + "a;\n" * 500, hunks=(hunk,))
    assert skip_reasons(change) == [("no_unique_lines", 1)]


def test_hunks_that_are_not_of_the_texts_give_nothing(make_change: MakeChange) -> None:
    change = make_change("a;\nb;\n", "a;\nc;\n")
    (hunk,) = change.hunks
    wrong = dataclasses.replace(hunk, before_start=0)
    assert skip_reasons(dataclasses.replace(change, hunks=(wrong,))) == [("blocks_fail", 1)]


def test_only_a_changed_file_with_both_sides_gives_a_document(make_change: MakeChange) -> None:
    assert skip_reasons(make_change(None, "a;\n")) == [("new_file", 1)]
    assert skip_reasons(make_change("a;\n", None)) == [("deleted", 1)]
    assert skip_reasons(make_change("a;\n", "a;\n", old_path="b.cc")) == [("unchanged", 1)]
    assert skip_reasons(make_change("a;\nb ;\n", "a;\n b;\n")) == [("blank_change", 1)]


def test_structure_is_that_of_the_file_and_blocks_are_not_parsed(make_change: MakeChange) -> None:
    document = edit(make_change(FUNCTIONS, FUNCTIONS.replace("return 1", "return -1")))
    structure = enrich(document)
    first = next(part.start for part in document.parts if part.kind == "target")
    assert {chunk.end <= first for chunk in structure.chunks} == {True}
    assert {chunk.name for chunk in structure.chunks if chunk.name} == {f"f{n}" for n in range(5)}
    codes = dict(zip(structure.ends, structure.structure_ids, strict=True))
    known = {STRUCTURE_CODES[name] for name in ("comment", "other")}
    assert {code for end, code in codes.items() if end > first} == known
