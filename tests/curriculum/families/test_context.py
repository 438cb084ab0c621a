import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from curriculum.families.check import check_document
from curriculum.families.context import (
    BUDGET,
    Excerpt,
    Mark,
    chunk_bytes,
    document,
    frame_bytes,
    gap_line,
)
from curriculum.graph.facts import Range
from schemas.change import Blob, CommitChange, TreeDelta, TreeFile
from schemas.document import Document, Edge
from schemas.errors import SchemaError

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


def made(subject: str = "Add it") -> Document:
    far = excerpt(
        "far.h",
        FAR,
        [(0, 24), (FAR.index("  }"), len(FAR))],
        form="skeleton",
        symbol="class",
        hop=2,
        via=edge(1, 0),
        marks=[Mark(kind="body", start=22, end=42)],
    )
    near = excerpt(
        "near.cc",
        NEAR,
        [(0, len(NEAR))],
        via=edge(2, 1),
        marks=[
            Mark(kind="documentation", start=0, end=8),
            Mark(kind="body", start=19, end=34),
            Mark(kind="body", start=21, end=30),
        ],
    )
    target = excerpt(
        "main.cc", TARGET, [(0, 31)], hop=0, marks=[Mark(kind="body", start=11, end=30)]
    )
    edges = [edge(2, 1), edge(1, 0), edge(1, 0)]
    return document(commit(subject), "v4_context_graph", [far, near], [target], edges)


def test_a_document_reads_from_far_to_near_and_ends_with_the_target():
    assert made().text == (
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
    check_document(made())


def test_chunks_edges_and_ranks_say_how_near_each_is():
    found = made()
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
    found = made()
    data = found.text.encode()
    assert [(span.kind, data[span.start : span.end].decode()) for span in found.spans] == [
        ("documentation", "// Adds."),
        ("body", "{\n  return 1;\n}"),
        ("body", "{\n  return add();\n}"),
    ]


def test_parts_with_a_source_are_its_bytes():
    found = made()
    texts = {"far.h": FAR, "near.cc": NEAR, "main.cc": TARGET}
    data = found.text.encode()
    cited = [part for part in found.parts if part.source >= 0]
    assert len(cited) == 4
    for part in cited:
        source = found.provenance[part.source]
        shown = texts[source.path][source.start : source.end]
        assert data[part.start : part.end].decode() == shown.removesuffix("\n") + "\n"


def test_costs_are_what_a_document_takes():
    found = made()
    shown = sum(part.end - part.start for part in found.parts if part.source >= 0)
    taken = frame_bytes(commit(), "cpp") + shown + len(gap_line("cpp").encode())
    leads = sum(chunk_bytes(path, "cpp") for path in ("far.h", "near.cc", "main.cc"))
    assert len(found.text.encode()) == taken + leads - len(found.chunks)


def test_a_subject_cannot_leave_its_comment():
    found = made("end */ it\nint x; \\")
    assert "\n// === TARGET: end * / it int x; \\ ===\n" in found.text
    assert "=== TARGET ===" in made("").text


def with_field(values: tuple[Any, ...], at: int, **fields: Any) -> tuple[Any, ...]:
    """The values, of which number `at` has other fields."""
    where = at % len(values)
    return (*values[:where], dataclasses.replace(values[where], **fields), *values[where + 1 :])


def longer(found: Document) -> dict[str, Any]:
    end = found.parts[-1].end + BUDGET
    return {
        "text": found.text + "x" * BUDGET,
        "parts": with_field(found.parts, -1, end=end),
        "provenance": with_field(found.provenance, -1, end=found.provenance[-1].end + BUDGET),
    }


def rising(found: Document) -> dict[str, Any]:
    ranks = {part: dataclasses.replace(part, rank=3 - part.rank) for part in found.parts}
    return {"parts": tuple(ranks[part] if part.elidable else part for part in found.parts)}


BREAKS: list[tuple[str, Callable[[Document], dict[str, Any]]]] = [
    ("the target stands last", lambda of: {"chunks": of.chunks[:-1]}),
    ("the budget", longer),
    ("but the headers, in order", lambda of: {"chunks": (*of.chunks[1::-1], of.chunks[2])}),
    ("a target is whole", lambda of: {"chunks": with_field(of.chunks, 2, form="signature")}),
    ("whole has no gap", lambda of: {"chunks": with_field(of.chunks, 0, form="whole")}),
    (
        "no line stands in two",
        lambda of: {
            "provenance": with_field(of.provenance, 3, path="near.cc", blob="id of near.cc")
        },
    ),
    ("sorted by source", lambda of: {"edges": (*of.edges, of.edges[-1])}),
    ("one hop nearer", lambda of: {"chunks": with_field(of.chunks, 0, via=1)}),
    ("there are 3 chunks", lambda of: {"edges": (*of.edges, edge(2, 3))}),
    ("no such kind", lambda of: {"edges": with_field(of.edges, 1, label="guessed")}),
    ("in (0, 1]", lambda of: {"edges": with_field(of.edges, 0, confidence=0.0)}),
    ("of one rank", lambda of: {"parts": with_field(of.parts, 1, rank=7)}),
    ("falls towards the target", rising),
    ("all may go or none", lambda of: {"parts": with_field(of.parts, -1, elidable=True)}),
]


@pytest.mark.parametrize(("cause", "change"), BREAKS, ids=[cause for cause, _ in BREAKS])
def test_a_broken_context_document_is_named(cause, change):
    with pytest.raises(SchemaError) as caught:
        check_document(dataclasses.replace(made(), **change(made())))
    assert cause in str(caught.value)
