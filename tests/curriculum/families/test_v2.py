from collections.abc import Callable

import pytest

from curriculum.families.render import Reason, render
from schemas.change import FileChange

MakeChange = Callable[..., FileChange]

FAMILIES = ("v2_simple", "v2_doxygen")


def texts(change: FileChange, family: str = "v2_simple") -> list[str]:
    return [document.text for document in render(change, [family]).documents]


def skip_reasons(change: FileChange) -> list[Reason]:
    return [count.reason for count in render(change, ["v2_simple"]).counts]


def test_before_and_after_are_two_documents(make_change: MakeChange) -> None:
    before, after = texts(make_change("int a;\n", "int b;\n"))
    assert before.endswith("\n\nint a;\n")
    assert after.endswith("\n\nint b;\n")
    assert "Before: Mend it" in before
    assert "Before" not in after


def test_a_version_that_was_an_after_is_not_given_again(make_change: MakeChange) -> None:
    change = make_change("int a;\n", "int b;\n", before_is_new=False)
    assert len(texts(change)) == 1
    assert skip_reasons(change) == ["before_known"]


def test_a_new_file_has_one_version(make_change: MakeChange) -> None:
    assert len(texts(make_change(None, "int a;\n"))) == 1


def test_a_snapshot_has_one_version(make_change: MakeChange) -> None:
    change = make_change(None, "int a;\n", kind="snapshot", subject="", commit="", timestamp=0)
    assert texts(change) == ["// File: src/a.cc\n// Repository: sample\n\nint a;\n"]


def test_a_deleted_file_has_only_its_version_before(make_change: MakeChange) -> None:
    change = make_change("int a;\n", None)
    assert len(texts(change)) == 1
    assert skip_reasons(change) == ["deleted"]


def test_a_pure_rename_gives_no_version_twice(make_change: MakeChange) -> None:
    change = make_change("a;\n", "a;\n", kind="renamed", old_path="b.cc", before_is_new=False)
    assert texts(change) == []
    assert skip_reasons(change) == ["before_known", "unchanged"]


def test_an_empty_file_gives_no_document(make_change: MakeChange) -> None:
    change = make_change(None, "")
    assert texts(change) == []
    assert skip_reasons(change) == ["empty"]


def test_the_version_before_stands_under_its_old_path(make_change: MakeChange) -> None:
    change = make_change("a;\n", "b;\n", kind="renamed", path="new.cc", old_path="old.cc")
    before, after = render(change, ["v2_simple"]).documents
    assert before.text.startswith("// File: old.cc\n")
    assert before.provenance[0].path == "old.cc"
    assert "// Renamed from: old.cc\n" in after.text
    assert after.provenance[0].path == "new.cc"


def test_functions_are_parts_that_have_to_stay(make_change: MakeChange) -> None:
    after = "int a() {\n  return 1;\n}\n\nint b() {\n  return 2;\n}\n"
    (document,) = render(make_change(None, after), ["v2_simple"]).documents
    assert [part.kind for part in document.parts] == ["header", "code", "code"]
    assert not any(part.elidable for part in document.parts)


@pytest.mark.parametrize("family", ["v2_simple", "v2_doxygen", "v3_simple", "v3_doxygen"])
def test_of_a_header_only_the_subject_is_scored(make_change: MakeChange, family: str) -> None:
    change = make_change("int é;\n", "int a;\n", subject="Mend ü", path="src/é.cc")
    for document in render(change, [family]).documents:
        data = document.text.encode()
        (header,) = (part for part in document.parts[:1] if part.kind == "header")
        left = bytearray(data[: header.end])
        for span in reversed(document.spans):
            if span.kind == "unscored":
                assert span.end <= header.end
                del left[span.start : span.end]
        assert left.decode().strip("\n /*").endswith(("Subject: Mend ü", "Subject: Before: Mend ü"))
        assert left.count(b"\n") == 2


def test_a_commit_without_a_subject_has_no_scored_line(make_change: MakeChange) -> None:
    (document,) = render(make_change(None, "int a;\n", subject=""), ["v2_doxygen"]).documents
    (span,) = (span for span in document.spans if span.kind == "unscored")
    assert document.text.encode()[span.start : span.end + 1].endswith(b" */\n\n")
    assert span.start == 0


@pytest.mark.parametrize("family", ["v2_doxygen", "v3_doxygen"])
def test_a_subject_is_no_brief_of_the_file(make_change: MakeChange, family: str) -> None:
    made = render(make_change("int a;\n", "int b;\n", subject="Add missing #include."), [family])
    for document in made.documents:
        assert "@brief" not in document.text
        assert "Add missing #include." in document.text


def test_doc_comments_and_bodies_are_spans_in_bytes(make_change: MakeChange) -> None:
    after = "// é\n\n/// Twice ß.\nint twice(int x) { return 2 * x; }\n"
    (document,) = render(make_change(None, after), ["v2_simple"]).documents
    data = document.text.encode()
    found = {span.kind: data[span.start : span.end].decode() for span in document.spans}
    del found["unscored"]
    assert found == {
        "documentation": "/// Twice ß.",
        "declaration": "int twice(int x) ",
        "body": "{ return 2 * x; }",
        "statement": "return 2 * x;",
    }
