from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from curriculum.families.cmake_targets import documents
from curriculum.families.document_check import check_document
from curriculum.families.render import RenderResult
from curriculum.graph.facts import FileFacts, Neighbour, NodeId, Range, SourceFile, Symbol
from schemas.change import Blob, CommitChange, FileChange, Hunk, TreeDelta, TreeFile
from schemas.corpus import CONTEXT_BYTES, USUAL_CONTEXT, ContextSettings
from schemas.document import Document
from schemas.families import CONTEXT_FAMILY
from tests.curriculum.families.small_trees import FILLED

LISTS = "CMakeLists.txt"
BODY = "int sum() {\n  return 1;\n}\n"


class Files:
    """A graph of files without edges, in which a file that is BODY holds one function."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts

    def paths(self) -> Iterable[str]:
        return sorted(self.texts)

    def source(self, path: str) -> SourceFile:
        text = self.texts[path]
        file = TreeFile(
            path=path,
            language="cmake" if path.endswith(LISTS) else "cpp",
            blob=Blob(blob_id="b" * 40, text=text),
            lineage=f"sample:{path}",
        )
        function = Symbol(
            kind="function",
            name="sum",
            scope=(),
            start=0,
            end=len(BODY),
            name_start=4,
            body=Range(10, len(BODY) - 1),
        )
        facts = FileFacts(
            symbols=(function,) if text == BODY else (),
            calls=(),
            includes=(),
            usings=(),
            error_bytes=0,
            is_complete=True,
        )
        return SourceFile(file=file, facts=facts)

    def neighbours(self, node: NodeId) -> Sequence[Neighbour]:
        return ()


def rendered(
    texts: Mapping[str, str],
    *lines: tuple[int, int],
    path: str = LISTS,
    settings: ContextSettings = FILLED,
) -> RenderResult:
    """Return the rendered documents of a commit that changes lines `(first, number)` of a file."""
    change = FileChange(
        kind="modified",
        repository="sample",
        licence="MIT",
        commit="89abcdef01234567" * 2 + "89abcdef",
        timestamp=1_700_000_000,
        subject="Build it",
        path=path,
        old_path=path,
        language="cmake",
        before=Blob(blob_id="a" * 40, text="project(before)\n"),
        after=Blob(blob_id="b" * 40, text=texts[path]),
        hunks=tuple(
            Hunk(before_start=0, before_lines=1, after_start=first, after_lines=number)
            for first, number in lines
        ),
        lineage=f"sample:{path}",
        before_is_new=True,
    )
    commit = CommitChange(
        repository="sample",
        licence="MIT",
        commit=change.commit,
        timestamp=change.timestamp,
        subject=change.subject,
        changes=(change,),
        tree=TreeDelta(removed=(), files=()),
    )
    found = documents(commit, Files(texts), family=CONTEXT_FAMILY, settings=settings)
    for document in found.documents:
        check_document(document, settings)
    return found


def chunks(document: Document) -> list[str]:
    return [f"{each.hop} {each.form} {each.name}" for each in document.chunks]


TEXTS = {
    LISTS: "add_library(base base.cc)\n"
    "add_library(sum sum.cc)\n"
    "target_link_libraries(sum base)\n"
    "add_executable(main main.cc)\n"
    "target_link_libraries(main sum)\n",
    "base.cc": BODY,
    "sum.cc": BODY,
    "main.cc": BODY,
    "other.cc": BODY,
}


def test_the_target_stands_last_and_sources_of_what_it_links_farthest() -> None:
    (document,) = rendered(TEXTS, (4, 1)).documents
    assert chunks(document) == [
        "3 skeleton base.cc",
        "2 skeleton sum.cc",
        "1 whole main.cc",
        "2 whole base",
        "1 whole sum",
        "0 whole main",
    ]
    assert document.language == "cmake"
    assert document.lineage == f"sample:{LISTS}"


def test_edges_say_what_is_linked_and_compiled() -> None:
    (document,) = rendered(TEXTS, (4, 1)).documents
    names = [each.name for each in document.chunks]
    edges = {(names[e.source], e.kind, names[e.target], e.label) for e in document.edges}
    assert edges == {
        ("main", "links", "sum", "syntactic"),
        ("sum", "links", "base", "syntactic"),
        ("main", "compiles", "main.cc", "syntactic"),
        ("sum", "compiles", "sum.cc", "syntactic"),
        ("base", "compiles", "base.cc", "syntactic"),
    }


def test_what_nothing_links_is_no_context() -> None:
    (document,) = rendered(TEXTS, (0, 1)).documents
    assert chunks(document) == ["1 whole base.cc", "0 whole base"]


def test_a_removed_line_touches_the_target_inside_of_which_it_stood() -> None:
    text = "add_library(sum\n  sum.cc)\n\nadd_library(base base.cc)\n"
    (document,) = rendered(TEXTS | {LISTS: text}, (1, 0)).documents
    assert chunks(document)[-1] == "0 whole sum"
    assert not rendered(TEXTS | {LISTS: text}, (3, 0)).documents


def test_commits_of_other_files_give_nothing_and_say_nothing() -> None:
    texts = TEXTS | {LISTS: TEXTS[LISTS] + "project(sample)\n"}
    assert [each.reason for each in rendered(texts, (5, 1)).counts] == ["no_build_target"]
    commit = CommitChange(
        repository="sample",
        licence=None,
        commit="c" * 40,
        timestamp=0,
        subject="",
        changes=(),
        tree=TreeDelta(removed=(), files=()),
    )
    assert documents(
        commit, Files(TEXTS), family=CONTEXT_FAMILY, settings=USUAL_CONTEXT
    ) == RenderResult(documents=(), counts=())


def test_commands_in_two_files_are_a_chunk_each() -> None:
    texts = TEXTS | {"lib/" + LISTS: "target_sources(sum PRIVATE ../other.cc)\n"}
    (document,) = rendered(texts, (1, 1)).documents
    assert chunks(document)[-2:] == ["0 whole sum", "0 whole sum"]
    assert "1 whole other.cc" in chunks(document)
    (document,) = rendered(texts, (4, 1)).documents
    assert chunks(document).count("1 whole sum") == 2


def test_commands_that_stand_apart_are_one_chunk_with_a_mark_between() -> None:
    texts = TEXTS | {LISTS: TEXTS[LISTS] + "target_sources(base PRIVATE other.cc)\n"}
    (document,) = rendered(texts, (0, 1)).documents
    assert document.text.endswith(
        "# File: CMakeLists.txt\nadd_library(base base.cc)\n# …\n"
        "target_sources(base PRIVATE other.cc)\n"
    )


def test_what_is_no_literal_name_is_counted() -> None:
    texts = TEXTS | {LISTS: "add_library(sum ${SOURCES} gone.cc)\n"}
    found = rendered(texts, (0, 1))
    assert [(each.reason, each.number) for each in found.counts] == [("names_unresolved", 2)]


def test_the_budget_is_kept() -> None:
    many = {f"f{number}.cc": "int x;\n" * 4_000 for number in range(40)}
    text = "add_library(sum " + " ".join(many) + ")\n"
    (document,) = rendered({LISTS: text} | many, (0, 1)).documents
    size = len(document.text.encode())
    assert CONTEXT_BYTES * 0.8 < size <= CONTEXT_BYTES
    assert len(document.chunks) > 5


def test_targets_that_are_too_much_together_are_divided() -> None:
    lists = [
        f"add_library(t{number}\n" + "  # a source\n" * 9_000 + "  sum.cc)\n" for number in range(4)
    ]
    found = rendered(TEXTS | {LISTS: "".join(lists)}, (0, 36_000))
    assert [chunks(each)[-1] for each in found.documents] == ["0 whole t1", "0 whole t3"]
    assert [(each.reason, each.number) for each in found.counts] == [("divided", 2)]
    huge = "add_library(t\n" + "  # a source\n" * 30_000 + "  sum.cc)\n"
    found = rendered(TEXTS | {LISTS: huge}, (0, 2))
    assert [each.reason for each in found.counts] == ["build_target_too_large"]


LINES = st.sampled_from(
    [
        "add_library(base base.cc)",
        "add_library(sum sum.cc gone.cc)",
        "target_link_libraries(sum base main)",
        "add_executable(main main.cc ${MORE}) add_library(two other.cc)",
        "target_link_libraries(main PRIVATE sum)",
        "target_sources(main PRIVATE CMakeLists.txt sum.cc)",
        "# a comment",
        "",
        "  tail)",
    ]
)


@given(
    st.lists(LINES, min_size=1, max_size=12),
    st.lists(LINES, max_size=5),
    st.integers(0, 12),
    st.integers(0, 3),
)
def test_all_documents_keep_the_rules(
    root: list[str], other: list[str], first: int, number: int
) -> None:
    texts = TEXTS | {LISTS: "\n".join(root) + "\n", "lib/" + LISTS: "\n".join(other)}
    start = min(first, len(root))
    hunk = (start, min(number, len(root) - start))
    assert rendered(texts, hunk) == rendered(texts, hunk)


def test_targets_stand_in_the_order_of_their_file_under_one_header() -> None:
    text = "add_library(zeta z.cc)\n\nset(A 1)\nadd_library(alpha a.cc)\n"
    (document,) = rendered({LISTS: text, "z.cc": BODY, "a.cc": BODY}, (0, 1), (3, 1)).documents
    target = document.text.split(" ===\n", 1)[1]
    assert target == f"\n# File: {LISTS}\nadd_library(zeta z.cc)\n# …\nadd_library(alpha a.cc)\n"
