"""A build's lines about lengths and context equal the counts of its rows' manifests."""

from pathlib import Path

import pytest
from pydantic import JsonValue

from curriculum.inspection.build_tables import (
    context_lines,
    context_warnings,
    held_out_warnings,
    length_lines,
)
from curriculum.stages import Built, RowSet, RowsSpec
from curriculum.store import Artefact
from schemas.manifest import Manifest

HELD_OUT: dict[str, JsonValue] = {
    "encode": {"lengths": {}, "tokens": 1_055, "elided_bytes": 0},
    "context": {"mean": 272.2, "past_16k": 0.0},
}


def artefact(report: dict[str, JsonValue]) -> Artefact:
    manifest = Manifest(
        stage="rows",
        labels={},
        key="0" * 64,
        content="1" * 64,
        revision=1,
        config={},
        inputs=(),
        tools={},
        files=(),
        report=report,
        created="2026-01-01T00:00:00+00:00",
    )
    return Artefact(path=Path("rows"), manifest=manifest)


def built(
    family: str,
    row_length: int,
    report: dict[str, JsonValue],
    held_out_report: dict[str, JsonValue] = HELD_OUT,
) -> Built:
    made = artefact(report)
    held_out = artefact(held_out_report)
    wanted = RowsSpec(family=family, row_length=row_length)
    rows = RowSet(wanted=wanted, train=made, val=held_out, apart={})
    return Built(
        indexes=(),
        documents=(),
        kept=(),
        selection=made,
        selections={},
        tokenizer=made,
        tokens=(),
        rows=(rows,),
        fixed={"anchor": made},
    )


def report(
    *, past_16k: float = 0.0, long_document: int = 0, chunks: dict[str, int] | None = None
) -> dict[str, JsonValue]:
    return {
        "encode": {
            "lengths": {
                "to 1k": {"documents": 0, "tokens": 0},
                "over 64k": {"documents": 1200, "tokens": 90_000_000},
            },
            "tokens": 5_380_000,
            "elided_bytes": 2_500,
            **({"context_chunks": dict(chunks)} if chunks else {}),
        },
        "context": {
            "mean": 31_048.2,
            "past_4k": 0.9,
            "past_16k": past_16k,
            "long_document": long_document,
        },
    }


def test_documents_and_tokens_are_listed_by_length() -> None:
    rows = built("v4_context_graph", 65_536, report(past_16k=0.7))
    assert [*length_lines(rows)] == [
        {
            "documents (tokens)": "v4_context_graph causal 65536",
            "to 1k": "0",
            "over 64k": "1,200 (90M)",
        }
    ]


def test_context_and_crops_are_listed() -> None:
    chunks = {"kept": 54_500, "elided": 187, "other_side": 330}
    (line,) = context_lines(built("v5_clang_graph", 65_536, report(past_16k=0.735, chunks=chunks)))
    assert [*line.values()][1:] == [
        "31k",
        "90.0%",
        "73.5%",
        "2.5k",
        "54.5k",
        "187",
        "330",
        "1.05k",
        "272",
    ]


def test_rows_of_files_have_no_chunks_to_count() -> None:
    (line,) = context_lines(built("v2_simple", 4096, report(past_16k=0.0)))
    assert line["chunks kept"] == ""


@pytest.mark.parametrize(
    ("family", "long_document", "warned"),
    [
        ("v4_context_graph", 8_192, True),
        ("v4_context_graph", 8_193, False),
        ("v4_context_graph", 0, False),
        ("v2_simple", 100, False),
    ],
)
def test_rows_of_twice_the_length_of_their_context_documents_are_a_warning(
    family: str, long_document: int, warned: bool
) -> None:
    rows = built(family, 16_384, report(long_document=long_document))
    assert bool([*context_warnings(rows)]) is warned


def encoded(documents: dict[str, int], tokens: int) -> dict[str, JsonValue]:
    return {"encode": {"documents": dict(documents), "tokens": tokens}}


@pytest.mark.parametrize(
    ("documents", "tokens", "warned"),
    [
        ({"whole": 3}, 2_997, True),
        ({"whole": 3}, 3_000, False),
        ({"whole": 1, "routed": 9}, 1_000, False),
        ({"routed": 9}, 0, False),
    ],
    ids=["shorter than a third", "a third", "what is in no row doesn't count", "none in rows"],
)
def test_held_out_documents_shorter_than_a_third_of_trained_ones_are_a_warning(
    documents: dict[str, int], tokens: int, warned: bool
) -> None:
    train = encoded({"whole": 1, "elided": 2, "divided": 1}, 12_000)
    rows = built("v4_context_graph", 65_536, train, encoded(documents, tokens))
    assert bool([*held_out_warnings(rows)]) is warned
