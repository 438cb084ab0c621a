import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from curriculum.families import v3
from curriculum.families.document_builder import MAX_CHANGES_BYTES, MAX_SIDE_BYTES
from curriculum.families.render import render
from curriculum.graph.outline import Item
from schemas.change import FileChange, Hunk
from schemas.corpus import EditSettings
from schemas.document import Document

MakeChange = Callable[..., FileChange]


def simple(change: FileChange) -> Document:
    (document,) = render(change, ["v3_simple"]).documents
    return document


def skip_reasons(change: FileChange) -> list[tuple[str, int]]:
    rendered = render(change, ["v3_simple"])
    return [(count.reason, count.number) for count in rendered.counts]


def kind_text(document: Document, kind: str) -> str:
    data = document.text.encode()
    return "".join(
        data[part.start : part.end].decode() for part in document.parts if part.kind == kind
    )


def spliced(text: str) -> str:
    """The text after C++ translation phases 1 and 2 as gcc runs them: blanks after a backslash count."""
    return re.sub(r"\\[ \t\f\v\0]*\n", "", text.replace("??/", "\\"))


LINES = st.sampled_from(["", "x", "\\", "y ??/", "z \\ ", "w \\\t", 'R"(', ')" \\', "*/", "/*"])


@given(
    removed=st.lists(LINES, min_size=1, max_size=6),
    added=st.lists(st.sampled_from("abc"), max_size=3),
)
def test_a_removed_line_is_never_live(
    make_change: MakeChange, removed: list[str], added: list[str]
) -> None:
    before = "".join(f"REMOVED {line}\n" for line in removed) + "kept\n"
    after = "".join(f"ADDED {line}\n" for line in added) + "kept\n"
    live = [
        line.partition("//")[0]
        for line in spliced(kind_text(simple(make_change(before, after)), "changes")).split("\n")
    ]
    assert "REMOVED" not in "".join(live)
    assert "".join(live).count("ADDED") == len(added)


@given(
    before=st.lists(st.sampled_from("abcd"), max_size=20),
    after=st.lists(st.sampled_from("abcd"), max_size=20),
)
def test_the_added_lines_and_no_others_are_repeated(
    make_change: MakeChange, before: list[str], after: list[str]
) -> None:
    change = make_change("".join(f"{x};\n" for x in before), "".join(f"{x};\n" for x in after))
    documents = render(change, ["v3_simple"]).documents
    if not documents:
        assert before == after
        return
    (document,) = documents
    offset = len(document.text.encode()) - 3 * len(after)
    repeated = [span for span in document.spans if span.kind == "repeated"]
    covered = {byte for span in repeated for byte in range(span.start - offset, span.end - offset)}
    added = {
        byte
        for hunk in change.hunks
        for line in range(hunk.after_start, hunk.after_start + hunk.after_lines)
        for byte in range(3 * line, 3 * line + 3)
    }
    assert covered == added


def test_each_hunk_is_a_part_with_its_line(make_change: MakeChange) -> None:
    before = "".join(f"int v{i};\n" for i in range(9))
    after = before.replace("v2", "w2").replace("v7", "w7")
    document = simple(make_change(before, after))
    assert kind_text(document, "changes") == (
        "// === CHANGES ===\n"
        "// @@ line 3\n// - int v2;\nint w2;\n"
        "// @@ line 8\n// - int v7;\nint w7;\n"
    )
    assert [part.kind for part in document.parts].count("changes") == 2


def test_what_a_hunk_touches_stays_and_the_farthest_goes_first(make_change: MakeChange) -> None:
    before = "".join(f"int f{i}() {{\n  return {i};\n}}\n\n" for i in range(5))
    change = make_change(before, before.replace("return 1", "return -1"))
    (document,) = render(change, ["v3_simple"], EditSettings(full_file="all")).documents
    code = [(part.elidable, part.rank) for part in document.parts if part.kind == "code"]
    assert code == [(True, 1), (False, 0), (True, 2), (True, 6), (True, 10)]


def test_ranks_count_lines_from_the_nearest_hunk() -> None:
    def item(first: int, last: int) -> Item:
        return Item(kind="other", first=first, last=last, start=0, end=1)

    hunks = [
        Hunk(before_start=0, before_lines=0, after_start=10, after_lines=5),
        Hunk(before_start=9, before_lines=3, after_start=30, after_lines=0),
    ]
    items = [item(0, 10), item(10, 11), item(15, 20), item(20, 30), item(29, 31), item(35, 40)]
    assert v3.ranks(items, hunks) == [0, None, 0, 0, None, 5]


def test_a_new_file_and_a_snapshot_give_nothing(make_change: MakeChange) -> None:
    assert skip_reasons(make_change(None, "int a;\n")) == [("new_file", 1)]
    assert skip_reasons(make_change(None, "int a;\n", kind="snapshot")) == [("new_file", 1)]


def test_a_pure_rename_gives_nothing(make_change: MakeChange) -> None:
    change = make_change("a;\n", "a;\n", kind="renamed", old_path="b.cc")
    assert skip_reasons(change) == [("unchanged", 1)]


def test_white_space_alone_gives_nothing(make_change: MakeChange) -> None:
    assert skip_reasons(make_change("int  a;\nb;\n", "int a ;\n\nb;\n")) == [("blank_change", 1)]
    assert skip_reasons(make_change("a;", "a;\n")) == [("blank_change", 1)]


def test_a_moved_line_is_a_change(make_change: MakeChange) -> None:
    document = simple(make_change("a;\nb;\nc;\n", "b;\nc;\na;\n"))
    assert "// - a;\n" in document.text


def test_a_deleted_file_has_changes_only(make_change: MakeChange) -> None:
    document = simple(make_change("int a;\nint b;\n", None))
    assert "FULL FILE" not in document.text
    assert document.text.endswith("// @@ line 1\n// - int a;\n// - int b;\n")
    assert document.provenance[0].blob == "b" * 40


def test_a_file_that_became_empty_ends_with_the_title(make_change: MakeChange) -> None:
    document = simple(make_change("int a;\n", ""))
    assert document.text.endswith("// === FULL FILE (Post-Commit) ===\n")


def test_removed_lines_have_a_source_too(make_change: MakeChange) -> None:
    before = "é;\nint a;\nb;\nint c;\n"
    change = make_change(before, "é;\nb;\n")
    source = next(each for each in simple(change).provenance if each.blob == "b" * 40)
    assert before.encode()[source.start : source.end] == b"int a;\nb;\nint c;\n"


def test_a_huge_hunk_is_capped_and_counted_and_only_what_is_shown_is_repeated(
    make_change: MakeChange,
) -> None:
    added = "".join(f"int value_{i};\n" for i in range(3_000))
    change = make_change("int a;\n", "int a;\n" + added)
    document = simple(change)
    shown = kind_text(document, "changes")
    (reason,) = skip_reasons(change)
    assert reason == ("lines_left_out", 3_000 - shown.count("int value_"))
    assert reason[1] > 2_000
    assert len(shown) < MAX_SIDE_BYTES + 200
    assert f"// … {reason[1]} more added lines\n" in shown
    (repeated,) = [span for span in document.spans if span.kind == "repeated"]
    text = document.text.encode()[repeated.start : repeated.end].decode()
    assert text.count("\n") == shown.count("int value_")


def test_many_hunks_are_capped_and_counted(make_change: MakeChange) -> None:
    before = "".join(f"int value_{i};\nint same;\n" for i in range(4_000))
    after = before.replace("value", "other")
    hunks = tuple(
        Hunk(before_start=2 * i, before_lines=1, after_start=2 * i, after_lines=1)
        for i in range(4_000)
    )
    change = make_change(before, after, hunks=hunks)
    document = simple(change)
    shown = kind_text(document, "changes")
    (reason,) = skip_reasons(change)
    assert reason == ("hunks_left_out", 4_000 - shown.count("@@"))
    assert MAX_CHANGES_BYTES < len(shown) < MAX_CHANGES_BYTES + 2 * MAX_SIDE_BYTES
    assert shown.endswith(f"// … {reason[1]} more hunks\n")
    repeated = [span for span in document.spans if span.kind == "repeated"]
    assert len(repeated) == shown.count("@@")


def test_a_line_longer_than_the_cap_is_left_out_whole(make_change: MakeChange) -> None:
    document = simple(make_change("a;\n", "a;\n" + "x" * 20_000 + "\nlast;\n"))
    assert kind_text(document, "changes").endswith("// … 2 more added lines\n")


def test_build_files_have_their_own_comments(make_change: MakeChange) -> None:
    change = make_change("set(A 1)\n", "set(A 2)\n", language="cmake", path="CMakeLists.txt")
    assert simple(change).text.endswith(
        "# === CHANGES ===\n# @@ line 1\n# - set(A 1)\nset(A 2)\n\n"
        "# === FULL FILE (Post-Commit) ===\nset(A 2)\n"
    )
