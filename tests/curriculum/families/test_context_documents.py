import dataclasses
from collections.abc import Callable, Mapping
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest

from curriculum.corpus.load import unpack_samples
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import read_commits
from curriculum.encode import TokenizedDocument, elided_parts
from curriculum.families.context_documents import (
    Excerpt,
    chunk_bytes,
    comment_above,
    document,
    frame_bytes,
    gap_line,
)
from curriculum.families.document_check import check_document
from curriculum.families.v4_context_graph import documents
from curriculum.families.v6_enriched import enrich
from curriculum.graph.call_graph import CallGraph
from curriculum.graph.facts import Range
from curriculum.graph.index import facts_of
from curriculum.graph.structure import code_structure
from curriculum.tokens.encoding import Spans
from schemas.change import Blob, CommitChange, TreeDelta, TreeFile
from schemas.corpus import CONTEXT_BYTES, CorpusSpec, HistorySpec, RepositorySpec
from schemas.document import Document, Edge, Span
from schemas.errors import SchemaError
from schemas.families import CONTEXT_FAMILY
from tests.curriculum.families.check_structure import check_structure
from tests.curriculum.families.small_trees import MakeChange, rendered

NEAR = "// Adds.\nint add() {\n  return 1;\n}\n"
FAR = "class Far {\n  int f() {\n    return 2;\n  }\n};"
TARGET = "int main() {\n  return add();\n}\nint rest;\n"


def commit(subject: str = "Add it") -> CommitChange:
    return CommitChange(
        repository="sample",
        licence="MIT",
        commit="0123456789abcdef",
        timestamp=1_600_000_000,
        subject=subject,
        changes=(),
        tree=TreeDelta(removed=(), files=()),
    )


def file(path: str, text: str) -> TreeFile:
    blob = Blob(blob_id=f"id of {path}", text=text)
    return TreeFile(path=path, language="cpp", blob=blob, lineage=f"sample:{path}")


def edge(source: int, target: int) -> Edge:
    return Edge(source=source, target=target, kind="calls", label="syntactic", confidence=0.5)


def excerpt(path: str, text: str, ranges: list[tuple[int, int]], **fields: Any) -> Excerpt:
    settings: dict[str, Any] = {
        "name": path,
        "symbol": "function",
        "form": "whole",
        "hop": 1,
        "marks": (),
    }
    return Excerpt(
        file=file(path, text), ranges=[Range(*each) for each in ranges], **settings | fields
    )


def context_document(subject: str = "Add it") -> Document:
    far = excerpt(
        "far.h",
        FAR,
        [(0, 24), (FAR.index("  }"), len(FAR))],
        form="skeleton",
        symbol="class",
        hop=2,
        via=edge(1, 0),
        marks=[Span(kind="body", start=22, end=42)],
    )
    near = excerpt(
        "near.cc",
        NEAR,
        [(0, len(NEAR))],
        via=edge(2, 1),
        marks=[
            Span(kind="documentation", start=0, end=8),
            Span(kind="body", start=19, end=34),
            Span(kind="body", start=21, end=30),
        ],
    )
    target = excerpt(
        "main.cc", TARGET, [(0, 31)], hop=0, marks=[Span(kind="body", start=11, end=30)]
    )
    edges = [edge(2, 1), edge(1, 0), edge(1, 0)]
    return document(commit(subject), "v4_context_graph", [far, near], [target], edges)


def test_a_document_reads_from_far_to_near_and_ends_with_the_target():
    assert context_document().text == (
        "// Repository: sample\n"
        "// Commit: 0123456789ab\n"
        "// Date: 2020-09-13\n"
        "\n"
        "// File: far.h\n"
        "class Far {\n"
        "  int f() {\n"
        "// …\n"
        "  }\n"
        "};\n"
        "\n"
        "// File: near.cc\n"
        f"{NEAR}"
        "\n"
        "// === TARGET: Add it ===\n"
        "\n"
        "// File: main.cc\n"
        "int main() {\n"
        "  return add();\n"
        "}\n"
    )
    check_document(context_document())


def test_chunks_edges_and_ranks_say_how_near_each_is():
    found = context_document()
    assert [(each.name, each.hop, each.form) for each in found.chunks] == [
        ("far.h", 2, "skeleton"),
        ("near.cc", 1, "whole"),
        ("main.cc", 0, "whole"),
    ]
    assert found.edges == (edge(1, 0), edge(2, 1))
    assert [each.via for each in found.chunks] == [0, 1, -1]
    ranks = [found.parts[each.first_part].rank for each in found.chunks]
    assert ranks == [2, 1, 0]
    assert found.lineage == "sample:main.cc"


def test_spans_are_the_bytes_that_were_marked_and_are_shown():
    found = context_document()
    data = found.text.encode()
    assert [(span.kind, data[span.start : span.end].decode()) for span in found.spans] == [
        ("documentation", "// Adds."),
        ("body", "{\n  return 1;\n}"),
        ("body", "{\n  return add();\n}"),
        ("unscored", "// Repository: sample\n// Commit: 0123456789ab\n// Date: 2020-09-13\n"),
        ("unscored", "// File: far.h\n"),
        ("unscored", "// File: near.cc\n"),
        ("unscored", "// File: main.cc\n"),
    ]


def test_each_source_has_the_licence_of_its_file_and_the_document_those_of_all():
    own = excerpt("own.h", "// SPDX-License-Identifier: BSL-1.0\nint b;\n", [(36, 43)])
    target = excerpt("main.cc", TARGET, [(0, 31)], hop=0)
    found = document(commit(), "v4_context_graph", [own], [target], [])
    assert [source.licence for source in found.provenance] == ["BSL-1.0", "MIT"]
    assert found.licence == "BSL-1.0 AND MIT"


def test_parts_with_a_source_are_its_bytes():
    found = context_document()
    texts = {"far.h": FAR, "near.cc": NEAR, "main.cc": TARGET}
    data = found.text.encode()
    cited = [part for part in found.parts if part.source >= 0]
    assert len(cited) == 4
    for part in cited:
        source = found.provenance[part.source]
        shown = texts[source.path][source.start : source.end]
        assert data[part.start : part.end].decode() == shown.removesuffix("\n") + "\n"


def test_costs_are_what_a_document_takes():
    found = context_document()
    shown = sum(part.end - part.start for part in found.parts if part.source >= 0)
    taken = frame_bytes(commit(), "cpp") + shown + len(gap_line("cpp").encode())
    leads = sum(chunk_bytes(path, "cpp") for path in ("far.h", "near.cc", "main.cc"))
    assert len(found.text.encode()) == taken + leads - len(found.chunks)


def test_a_subject_cannot_leave_its_comment():
    found = context_document("end */ it\nint x; \\")
    assert "\n// === TARGET: end * / it int x; \\ ===\n" in found.text
    assert "=== TARGET ===" in context_document("").text


def with_field(values: tuple[Any, ...], at: int, **fields: Any) -> tuple[Any, ...]:
    """The values, of which number `at` has other fields."""
    where = at % len(values)
    return (*values[:where], dataclasses.replace(values[where], **fields), *values[where + 1 :])


def longer(found: Document) -> dict[str, Any]:
    end = found.parts[-1].end + CONTEXT_BYTES
    return {
        "text": found.text + "x" * CONTEXT_BYTES,
        "parts": with_field(found.parts, -1, end=end),
        "provenance": with_field(
            found.provenance, -1, end=found.provenance[-1].end + CONTEXT_BYTES
        ),
    }


def rising(found: Document) -> dict[str, Any]:
    ranks = {part: dataclasses.replace(part, rank=3 - part.rank) for part in found.parts}
    return {"parts": tuple(ranks[part] if part.elidable else part for part in found.parts)}


BREAKS: list[tuple[str, Callable[[Document], dict[str, Any]]]] = [
    ("the target must be last", lambda of: {"chunks": of.chunks[:-1]}),
    ("the budget", longer),
    ("except headers, in order", lambda of: {"chunks": (*of.chunks[1::-1], of.chunks[2])}),
    ("a target must be whole", lambda of: {"chunks": with_field(of.chunks, 2, form="signature")}),
    (
        "whole is unknown or doesn't allow gaps",
        lambda of: {"chunks": with_field(of.chunks, 0, form="whole")},
    ),
    (
        "no line may be in two",
        lambda of: {
            "provenance": with_field(of.provenance, 3, path="near.cc", blob="id of near.cc")
        },
    ),
    ("sorted by source", lambda of: {"edges": (*of.edges, of.edges[-1])}),
    ("one hop nearer", lambda of: {"chunks": with_field(of.chunks, 0, via=1)}),
    ("only 3 chunks", lambda of: {"edges": (*of.edges, edge(2, 3))}),
    ("no such kind", lambda of: {"edges": with_field(of.edges, 1, label="guessed")}),
    ("in (0, 1]", lambda of: {"edges": with_field(of.edges, 0, confidence=0.0)}),
    ("and one rank", lambda of: {"parts": with_field(of.parts, 1, rank=7)}),
    ("decrease towards the target", rising),
    ("all or none may be left out", lambda of: {"parts": with_field(of.parts, -1, elidable=True)}),
]


@pytest.mark.parametrize(("cause", "change"), BREAKS, ids=[cause for cause, _ in BREAKS])
def test_a_broken_context_document_is_named(cause, change):
    with pytest.raises(SchemaError) as caught:
        check_document(dataclasses.replace(context_document(), **change(context_document())))
    assert cause in str(caught.value)


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
    """Return the text after the line that opens the target."""
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
    """Return, for each part, whether it is skipped when a text has at most `room` bytes."""
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
        generated=nothing,
        other_side=nothing,
        refused=nothing,
        context=np.array(chunks, dtype=np.int32).reshape(-1, 2),
    )
    gone = elided_parts(
        lengths=np.diff(borders),
        units=own.units,
        ranks=own.ranks,
        elidable=own.elidable,
        forbidden=nothing,
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


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        (b"/** A. */\nint f();", b"/** A. */"),
        (b"/*! A\n */\n\nint f();", b"/*! A\n */"),
        (b"/// A.\n/// B.\nint f();", b"/// A.\n/// B."),
        (b"// A.\nEXPORT\nint f();", b"// A."),
        (b"/* A */ int f();", None),
        (b"int f();", None),
        (b"/* without end", None),
    ],
)
def test_a_comment_has_its_lines_to_itself(text: bytes, comment: bytes | None) -> None:
    found = comment_above(text, 0, len(text))
    assert (text[found.start : found.end] if found else None) == comment
    if found:
        assert text[: found.code].strip() == comment


@pytest.mark.parametrize(("first", "kinds"), [(0, {"documentation", "declaration"}), (9, set())])
def test_a_declaration_without_its_documentation_has_no_span(first: int, kinds: set[str]) -> None:
    marks = [
        Span(kind="documentation", start=0, end=8),
        Span(kind="declaration", start=9, end=18),
    ]
    near = excerpt("near.cc", NEAR, [(first, len(NEAR))], via=edge(1, 0), marks=marks)
    target = excerpt("main.cc", TARGET, [(0, 31)], hop=0)
    found = document(commit("Add it"), "v4_context_graph", [near], [target], [edge(1, 0)])
    assert {span.kind for span in found.spans} - {"unscored"} == kinds
