"""Chunks of one file under one header, and the target as its files have it."""

from collections.abc import Callable, Mapping
from itertools import groupby, pairwise

import pytest

from curriculum.corpus.sample import unpack_samples
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.families.check import check_document
from curriculum.families.check_structure import check_structure
from curriculum.families.v4_context_graph import documents
from curriculum.families.v6_enriched import enrich
from curriculum.graph.call_graph import CallGraph
from schemas.change import CommitChange, FileChange, TreeDelta, TreeFile
from schemas.corpus import CorpusSpec, HistorySpec, RepositorySpec
from schemas.document import Document

MakeChange = Callable[..., FileChange]
HELD = """#include "held.h"

namespace held {

/// Counts what is held.
class Counter {
 public:
  void add() { total_ += step(); }

  int total() const { return total_; }

 private:
  int step() const;
  int total_ = 0;
};

int Counter::step() const { return one(); }

int one() { return 1; }

}  // namespace held
"""


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    """Every document of the sample corpus."""
    found: list[Document] = []
    for path in unpack_samples(tmp_path_factory.mktemp("samples")):
        spec = RepositorySpec(name=path.name, path=str(path))
        history = HistorySpec(versions_per_path=1000)
        corpus = CorpusSpec(name="sample", repositories=(spec,), history=history)
        graph = CallGraph()
        for commit in read_commits(resolve(spec, cache=path), spec, corpus, Skips()):
            graph.apply(commit.tree)
            found.extend(documents(commit, graph).documents)
    return found


def document_of(
    make_change: MakeChange, before: Mapping[str, str], after: Mapping[str, str]
) -> Document:
    """The one document of a commit between two trees."""
    changes = tuple(
        make_change(before.get(path), text, path=path)
        for path, text in sorted(after.items())
        if before.get(path) != text
    )
    blobs = {each.path: each.after for each in changes}
    files = tuple(
        TreeFile(
            path=path,
            language="cpp",
            blob=blobs.get(path) or make_change(None, text, path=path).after,
            lineage=f"sample:{path}",
        )
        for path, text in sorted(after.items())
    )
    first = changes[0]
    commit = CommitChange(
        repository=first.repository,
        licence=first.licence,
        commit=first.commit,
        timestamp=first.timestamp,
        subject=first.subject,
        changes=changes,
        tree=TreeDelta(removed=(), files=files),
    )
    graph = CallGraph()
    graph.apply(commit.tree)
    (document,) = documents(commit, graph).documents
    check_document(document)
    return document


def target_text(document: Document) -> str:
    """What stands below the line that opens the target."""
    return document.text.split(" ===\n", 1)[1]


def headers(document: Document) -> list[tuple[str, str]]:
    """The kind and text of each part that names a file."""
    data = document.text.encode()
    texts = [(part.kind, data[part.start : part.end].decode()) for part in document.parts]
    return [
        (kind, text)
        for (kind, text), part in zip(texts, document.parts, strict=True)
        if part.source < 0 and part.kind != "header" and " File: " in text
    ]


def runs(document: Document) -> list[tuple[str, str]]:
    """Kind and path of each run of chunks of one file."""
    places = [
        (part.kind, document.provenance[part.source].path)
        for part in document.parts
        if part.source >= 0
    ]
    return [place for place, _ in groupby(places)]


@pytest.mark.xfail(strict=True, reason="each chunk has a header of its own")
def test_each_run_of_chunks_of_one_file_has_one_header(samples: list[Document]) -> None:
    assert len(samples) > 30
    for document in samples:
        named = [(kind, text.split(" File: ", 1)[1].strip()) for kind, text in headers(document)]
        assert named == runs(document)
        assert all(one != later for one, later in pairwise(named))


@pytest.mark.xfail(strict=True, reason="each function of the target has a header of its own")
def test_functions_of_the_target_stand_with_their_own_blank_lines(make_change: MakeChange) -> None:
    before = "int a() { return 0; }\n\n\nint b() { return 0; }\nint c() { return 0; }\n"
    document = document_of(
        make_change, {"a.cc": before}, {"a.cc": before.replace("return 0", "return 1")}
    )
    assert target_text(document) == "\n// File: a.cc\n" + before.replace("return 0", "return 1")


@pytest.mark.xfail(strict=True, reason="each function of the target has a header of its own")
def test_one_line_stands_for_what_the_target_leaves_out_of_a_file(make_change: MakeChange) -> None:
    before = "int a() { return 0; }\n\n\nint kept;\n\nint b() { return 0; }\n"
    document = document_of(
        make_change, {"a.cc": before}, {"a.cc": before.replace("return 0", "return 1")}
    )
    after = before.replace("return 0", "return 1").replace("int kept;", "// …")
    assert target_text(document) == "\n// File: a.cc\n" + after


@pytest.mark.xfail(strict=True, reason="an added file is shown by its functions alone")
def test_a_wholly_added_file_stands_whole(make_change: MakeChange) -> None:
    document = document_of(make_change, {}, {"held.cc": HELD})
    assert target_text(document) == "\n// File: held.cc\n" + HELD
    names = [chunk.name for chunk in document.chunks if not chunk.hop]
    assert names == [
        "held::Counter::add",
        "held::Counter::total",
        "held::Counter::step",
        "held::one",
    ]


@pytest.mark.xfail(strict=True, reason="each function of an added file is parsed by itself")
def test_the_structure_of_a_wholly_added_file_is_that_of_the_file(make_change: MakeChange) -> None:
    document = document_of(make_change, {}, {"held.cc": HELD})
    structure = enrich(document)
    check_structure(document, structure)
    data = document.text.encode()
    found = [(chunk.name, data[chunk.start : chunk.end].decode()) for chunk in structure.chunks]
    assert ("held::Counter::total", "int total() const { return total_; }") in found
    assert sum(name == "held::Counter" for name, _ in found) == 3
    calls = {(found[edge.source][0], found[edge.target][0]) for edge in structure.call_edges}
    assert ("held::Counter::step", "held::one") in calls
