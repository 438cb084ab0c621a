"""The registry, and what every document of every family keeps."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from curriculum.corpus.batch_diff import whole_text_hunks
from curriculum.families.document_check import check_document
from curriculum.families.render import ExclusionCount, render
from curriculum.graph.syntax_tree import grammar_versions
from schemas.change import FileChange
from schemas.corpus import LANGUAGES, EditSettings, Language
from schemas.document import Document
from schemas.families import EDIT_FAMILY, families_of

ALL = EditSettings(full_file="all", changes="all")
MakeChange = Callable[..., FileChange]

LINES = st.sampled_from(
    [
        "",
        "   ",
        "int f() {",
        "  return 1;",
        "}",
        "namespace a {",
        "class C {",
        "};",
        "// note \\",
        "/* open",
        "close */ int x;",
        '  R"(raw',
        '  )" y \\',
        "#if A",
        "#endif",
        "#define M \\",
        "??/",
        "set(x é)",
        "\f\v \\ ",
        "\u2028",
        "{" * 40,
    ]
) | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), max_size=30)
TEXTS = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(LINES, max_size=25),
    st.sampled_from(["", "\n"]),
)


def generated_parts_dropped(document: Document) -> str:
    data = document.text.encode()
    return b"".join(
        data[part.start : part.end] for part in document.parts if part.source >= 0
    ).decode()


def of_family(documents: Sequence[Document], family: str) -> list[Document]:
    return [document for document in documents if document.family == family]


@given(before=TEXTS, after=TEXTS, language=st.sampled_from(LANGUAGES), subject=st.text(max_size=40))
def test_parts_tile_and_without_the_generated_ones_the_blob_remains(
    make_change: MakeChange, before: str, after: str, language: Language, subject: str
) -> None:
    change = make_change(before, after, language=language, subject=subject)
    rendered = render(change, families_of("changes"), ALL)
    for document in rendered.documents:
        check_document(document)
        if document.family == EDIT_FAMILY:
            continue  # Its blocks show lines of the file again.
        sides = {"a" * 40: after, "b" * 40: before}
        assert generated_parts_dropped(document) == sides[document.provenance[0].blob] or (
            document.family.startswith("v3") and not after
        )
    given_ = {document.family for document in rendered.documents}
    assert given_ | {count.family for count in rendered.counts} == set(families_of("changes"))


@given(before=TEXTS, after=TEXTS, language=st.sampled_from(LANGUAGES))
def test_related_parts_are_lines_of_the_file_in_order_and_hold_every_added_line(
    make_change: MakeChange, before: str, after: str, language: Language
) -> None:
    assume("\0" not in before + after)  # which make_change takes for the end of a line
    change = make_change(before, after, language=language)
    for document in render(change, ["v3_simple"]).documents:
        check_document(document)
        shown = [each for each in document.provenance if each.blob == "a" * 40]
        data = after.encode()
        starts = {0, *(at + 1 for at, byte in enumerate(data) if byte == ord("\n")), len(data)}
        assert [each.start for each in shown] == sorted(each.start for each in shown)
        assert all({each.start, each.end} <= starts for each in shown)
        assert generated_parts_dropped(document).encode() == b"".join(
            data[each.start : each.end] for each in shown
        )
        covered = {byte for each in shown for byte in range(each.start, each.end)}
        ends = sorted(starts)
        for hunk in change.hunks:
            added = range(ends[hunk.after_start], ends[hunk.after_start + hunk.after_lines])
            assert covered.issuperset(added)


@given(before=TEXTS, after=TEXTS)
def test_the_two_styles_differ_in_nothing_but_the_header(
    make_change: MakeChange, before: str, after: str
) -> None:
    change = make_change(before, after)
    plain = render(change, ["v2_simple", "v3_simple"]).documents
    doxygen = render(change, ["v2_doxygen", "v3_doxygen"]).documents
    assert len(plain) == len(doxygen)
    for one, other in zip(plain, doxygen, strict=True):
        assert one.text.partition("\n\n")[2] == other.text.partition("\n\n")[2]
        assert [part.rank for part in one.parts] == [part.rank for part in other.parts]


def test_documents_follow_the_order_of_the_families(make_change: MakeChange) -> None:
    change = make_change("int a;\n", "int b;\n")
    families = ["v3_doxygen", "v2_simple"]
    documents = render(change, families).documents
    assert [document.family for document in documents] == ["v3_doxygen", "v2_simple", "v2_simple"]


def test_a_family_that_gives_nothing_says_why(make_change: MakeChange) -> None:
    rendered = render(make_change(None, "int a;\n"), ["v3_simple", "v3_doxygen"])
    assert not rendered.documents
    assert rendered.counts == (
        ExclusionCount(family="v3_simple", reason="new_file"),
        ExclusionCount(family="v3_doxygen", reason="new_file"),
    )


def test_the_tools_of_documents_are_the_grammars() -> None:
    assert set(grammar_versions()) == {"tree-sitter", "tree-sitter-c", "tree-sitter-cpp"}


def test_an_unknown_family_is_a_programmers_mistake(make_change: MakeChange) -> None:
    with pytest.raises(KeyError):
        render(make_change("a\n", "b\n"), ["v9"])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 300_000,
        "namespace a{" * 50_000,
        "#if X\n" * 50_000,
        "x\n" * 100_000,
        "/*" * 100_000,
        'R"(' * 50_000,
        "template<" * 50_000,
        "\0\x01\x7f" * 50_000,
        "int x;" * 50_000,
        "a<" * 30_000,
    ],
    ids=lambda text: repr(text[:9]),
)
def test_a_hostile_file_gives_sound_documents(make_change: MakeChange, text: str) -> None:
    (lines,) = whole_text_hunks(text, added=True)
    added = replace(lines, before_start=1, after_start=1)
    change = make_change("int a;\n", f"int a;\n{text}", hunks=(added,))
    documents = render(change, families_of("changes")).documents
    assert of_family(documents, "v2_simple")
    for document in documents:
        check_document(document)


@pytest.mark.parametrize("family", ["v2_simple", "v2_doxygen", "v3_simple"])
def test_content_is_the_same_whatever_the_header_says(make_change: MakeChange, family: str) -> None:
    facts = {"subject": "Copy it", "path": "b/é.cc", "old_path": "b/é.cc", "commit": "f" * 40}
    for before, after in (("int a;\n", "int b;\n"), ("int a;\n", "int c;\n")):
        one = render(make_change(before, after), [family]).documents[-1]
        other = render(make_change(before, after, **facts), [family]).documents[-1]
        assert one.content_id == other.content_id
        assert one.document_id != other.document_id
    assert (
        one.content_id != render(make_change("int a;\n", "x;\n"), [family]).documents[-1].content_id
    )


@pytest.mark.parametrize("family", ["v2_simple", "v3_doxygen"])
def test_a_document_has_the_licence_that_its_file_states(
    make_change: MakeChange, family: str
) -> None:
    own = "// SPDX-License-Identifier: BSL-1.0\nint a;\n"
    for text, licence in ((own, "BSL-1.0"), ("int a;\n", "MIT")):
        change = make_change(text, text + "int b;\n", licence="MIT")
        for document in render(change, [family]).documents:
            assert document.licence == licence
            assert {source.licence for source in document.provenance} == {licence}
