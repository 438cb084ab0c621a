"""Chunks of one file under one header, and the target as its files have it."""

from collections.abc import Mapping
from itertools import groupby, pairwise

import numpy as np
import pytest

from curriculum.corpus.blobs import Skips
from curriculum.corpus.load import unpack_samples
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.encode import TokenizedDocument, elided_parts
from curriculum.families.v4_context_graph import documents
from curriculum.families.v6_enriched import enrich
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.index import facts_of
from curriculum.graph.structure import code_structure
from curriculum.tokens import Spans
from schemas.corpus import CorpusSpec, HistorySpec, RepositorySpec
from schemas.document import Document
from schemas.families import CONTEXT_FAMILY
from tests.curriculum.families.check_structure import check_structure
from tests.curriculum.families.small_trees import MakeChange, rendered

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
            found.extend(documents(commit, graph, family=CONTEXT_FAMILY).documents)
    return found


def document_of(
    make_change: MakeChange, before: Mapping[str, str], after: Mapping[str, str]
) -> Document:
    """The one document of a commit between two trees."""
    (document,) = rendered(make_change, before, after).documents
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


def test_each_run_of_chunks_of_one_file_has_one_header(samples: list[Document]) -> None:
    assert len(samples) > 30
    for sample in samples:
        named = [(kind, text.split(" File: ", 1)[1].strip()) for kind, text in headers(sample)]
        assert named == runs(sample)
        assert all(one != later for one, later in pairwise(named))


def test_functions_of_the_target_stand_with_their_own_blank_lines(make_change: MakeChange) -> None:
    before = "int a() { return 0; }\n\n\nint b() { return 0; }\nint c() { return 0; }\n"
    document = document_of(
        make_change, {"a.cc": before}, {"a.cc": before.replace("return 0", "return 1")}
    )
    assert target_text(document) == "\n// File: a.cc\n" + before.replace("return 0", "return 1")


def test_one_line_stands_for_what_the_target_leaves_out_of_a_file(make_change: MakeChange) -> None:
    before = "int a() { return 0; }\n\n\nint kept;\n\nint b() { return 0; }\n"
    document = document_of(
        make_change, {"a.cc": before}, {"a.cc": before.replace("return 0", "return 1")}
    )
    after = before.replace("return 0", "return 1").replace("int kept;", "// …")
    assert target_text(document) == "\n// File: a.cc\n" + after


def test_a_wholly_added_file_stands_whole(make_change: MakeChange) -> None:
    document = document_of(make_change, {}, {"held.cc": HELD})
    assert target_text(document) == "\n// File: held.cc\n" + HELD
    names = [chunk.name for chunk in document.chunks if not chunk.hop]
    assert names == [
        "held::Counter",
        "held::Counter::add",
        "held::Counter::total",
        "held::Counter::step",
        "held::one",
    ]


def test_the_structure_of_a_wholly_added_file_is_that_of_the_file(make_change: MakeChange) -> None:
    document = document_of(make_change, {}, {"held.cc": HELD})
    structure = enrich(document)
    check_structure(document, structure)
    data = document.text.encode()
    found = [(chunk.name, data[chunk.start : chunk.end].decode()) for chunk in structure.chunks]
    own = code_structure(HELD, "cpp", facts_of(HELD, "cpp")).chunks
    assert found == [(each.name, HELD[each.start : each.end]) for each in own]
    calls = {(found[edge.source][0], found[edge.target][0]) for edge in structure.call_edges}
    assert ("held::Counter::step", "held::one") in calls


def fitted(document: Document, room: int) -> list[bool]:
    """Whether each part is left out where a text has room for so many bytes."""
    borders = np.array([0, *(part.end for part in document.parts)], dtype=np.int32)
    none, nothing = np.zeros(0, dtype=np.int32), np.zeros(len(document.parts), dtype=np.bool_)
    chunks = [(each.first_part, each.last_part) for each in document.chunks if each.hop]
    own = TokenizedDocument(
        row=0,
        document_id="",
        flat_id="",
        language=document.language,
        ids=np.zeros(borders[-1], dtype=np.int32),
        part_bytes=borders,
        part_tokens=borders,
        part_kinds=np.zeros(len(document.parts), dtype=np.int32),
        ranks=np.array([part.rank for part in document.parts], dtype=np.int32),
        elidable=np.array([part.elidable for part in document.parts]),
        spans=Spans(kinds=none, starts=none, ends=none),
        other_side=nothing,
        context=np.array(chunks, dtype=np.int32).reshape(-1, 2),
    )
    gone = elided_parts(
        lengths=np.diff(borders),
        units=own.units,
        ranks=own.ranks,
        elidable=own.elidable,
        banned=nothing,
        elision=6,
        room=room,
    )
    return [bool(each) for each in gone]


def test_a_header_stays_as_long_as_a_chunk_of_its_run_does(samples: list[Document]) -> None:
    seen = 0
    for sample in samples:
        data = sample.text.encode()
        for share in range(1, 10):
            gone = fitted(sample, len(data) * share // 10)
            stays: dict[int, bool] = {}
            header = -1
            for number, part in enumerate(sample.parts):
                if b" File: " in data[part.start : part.end] and part.source < 0:
                    header = number
                elif part.source >= 0:
                    stays[header] = stays.get(header, False) or not gone[number]
                    seen += gone[number] and stays[header]
            assert all(stays[number] != gone[number] for number in stays)
    assert not seen, "the chunks of a run go from its beginning"
