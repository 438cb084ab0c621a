"""The changes that families of edits show."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.history import read_changes
from curriculum.corpus.load import unpack_samples
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.families.chosen_changes import MAX_EDITS, is_mechanical, render_changes
from schemas.change import FileChange
from schemas.corpus import CorpusSpec, EditSettings, RepositorySpec
from schemas.document import Document

MakeChange = Callable[..., FileChange]
CODE, ALL = EditSettings(), EditSettings(full_file="all", changes="all")
V3 = ("v3_simple", "v3_doxygen")


def rendered(
    changes: Sequence[FileChange], options: EditSettings = CODE, families: Sequence[str] = V3[:1]
) -> tuple[list[Document], Counter[str]]:
    documents: list[Document] = []
    reasons: Counter[str] = Counter()
    for each in render_changes(changes, families, options):
        documents += each.documents
        for count in each.counts:
            reasons[count.reason] += count.number
    return documents, reasons


@pytest.mark.parametrize(
    ("before", "after", "language"),
    [
        ("int a;\n", "// note\nint a;\n", "cpp"),
        ("/* one\n   two */\nint a;\n", "/* one two three */\nint a;\n", "cpp"),
        ("#include <a>\n#include <b>\nint a;\n", "#include <b>\n\nint  a; // b\n", "cpp"),
        ("# Copyright 2012\nset(A 1)\n", "# Copyright 2013\n\nset(A 1)\n", "cmake"),
    ],
)
def test_comments_includes_and_white_space_alone_are_no_edit(
    make_change: MakeChange, before: str, after: str, language: str
) -> None:
    change = make_change(before, after, language=language)
    assert rendered([change]) == ([], Counter({"comment_change": 1}))
    assert len(rendered([change], ALL)[0]) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('const char* a = "// one";\n', 'const char* a = "// two";\n'),
        ("#define A 1\n", "#define A 2\n"),
        ("int a; // one\n", "int b; // one\n"),
        ("// int a;\n", "int a;\n"),
    ],
)
def test_code_is_an_edit(make_change: MakeChange, before: str, after: str) -> None:
    assert len(rendered([make_change(before, after)])[0]) == 1


def test_a_deletion_is_an_edit_where_its_commit_replaces_the_file(make_change: MakeChange) -> None:
    for is_replaced in (False, True):
        change = make_change("int a;\n", None, is_replaced=is_replaced)
        documents, reasons = rendered([change])
        assert (len(documents), reasons["not_replaced"]) == (int(is_replaced), int(not is_replaced))
        assert len(rendered([change], ALL)[0]) == 1


def edit(make_change: MakeChange, at: int, before: str, after: str, **fields: bool) -> FileChange:
    return make_change(before, after, path=f"src/{at}.cc", **fields)


def test_a_tree_wide_commit_gives_few_edits_and_all_versions(make_change: MakeChange) -> None:
    changes = [
        edit(make_change, at, f"int a{at};\n", f"int b{at};\n", is_tree_wide=True)
        for at in range(40)
    ]
    documents, reasons = rendered(changes, families=("v2_simple", "v3_simple"))
    counted = Counter(document.family for document in documents)
    assert counted == {"v2_simple": 80, "v3_simple": MAX_EDITS}
    assert reasons == {"tree_wide": 40 - MAX_EDITS}
    versions = [each.text for each in documents if each.family == "v2_simple"]
    whole = rendered(changes, ALL, families=("v2_simple",))[0]
    assert versions == [document.text for document in whole]
    assert len(rendered(changes, ALL)[0]) == 40


@given(order=st.permutations(range(12)), wide=st.booleans())
def test_the_choice_among_edits_depends_on_commit_and_path_alone(
    make_change: MakeChange, order: list[int], wide: bool
) -> None:
    def make(at: int) -> FileChange:
        before = f"int x{at}(old_name);\n"
        after = before.replace("old_name", "new_name")
        return edit(make_change, at, before, after, is_tree_wide=wide)

    documents, reasons = rendered([make(at) for at in order])
    known, _ = rendered([make(at) for at in range(12)])
    assert {each.lineage for each in documents} == {each.lineage for each in known}
    places = [
        order.index(int(each.lineage.partition("/")[2].removesuffix(".cc"))) for each in documents
    ]
    assert places == sorted(places)
    assert reasons == {"tree_wide" if wide else "mechanical": 12 - MAX_EDITS}


def test_one_replacement_in_most_edits_is_mechanical_whatever_lines_it_stands_in(
    make_change: MakeChange,
) -> None:
    texts = [f"void f{at}(const Old& a, Old b{at});\nOld c{at};\n" for at in range(5)]
    edits = [
        edit(make_change, at, text, text.replace("Old", "ns::New")) for at, text in enumerate(texts)
    ]
    others = [edit(make_change, at, f"int a{at};\n", f"long b{at} = {at};\n") for at in range(5, 9)]
    assert is_mechanical([*edits, *others])
    assert not is_mechanical([*edits[:4], *others])
    assert not rendered([*edits, *others], ALL)[1]


def test_a_replacement_is_of_whole_words(make_change: MakeChange) -> None:
    edits = [
        edit(make_change, at, f"int a{at}; uint b{at};\n", f"long a{at}; ulong b{at};\n")
        for at in range(5)
    ]
    assert not is_mechanical(edits)


def values(document: Document) -> tuple[object, ...]:
    """The text of a document, and where its parts, spans and sources are."""
    return (
        document.text,
        [(part.kind, part.start, part.end, part.rank, part.elidable) for part in document.parts],
        [(span.kind, span.start, span.end) for span in document.spans],
        [(source.blob, source.start, source.end) for source in document.provenance],
    )


def test_the_source_documents_form_is_byte_for_byte_as_before_the_options(tmp_path: Path) -> None:
    digests = {family: hashlib.sha256() for family in V3}
    for path in unpack_samples(tmp_path / "out"):
        spec = RepositorySpec(name=path.name, path=str(path))
        corpus = CorpusSpec(name="c", repositories=(spec,), full_file="all", changes="all")
        source = resolve(spec, cache=tmp_path / "cache")
        changes = read_changes(source, spec, corpus, Skips())
        for each in render_changes(changes, V3, corpus.edit_settings()):
            for document in each.documents:
                digests[document.family].update(repr(values(document)).encode())
    assert {family: digest.hexdigest() for family, digest in digests.items()} == {
        "v3_simple": "a17ae617ba22e6290758a1ff230235a3687d8f0d9b8f245b7c5199214329986e",
        "v3_doxygen": "38a5ccfc797bfd970b82c92415920a2f1d78184469953d826a3172b752b996b8",
    }
