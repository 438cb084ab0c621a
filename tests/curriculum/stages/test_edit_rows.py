"""Rows of search/replace blocks: what is scored of them, and by how many workers they are made."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from curriculum.corpus.load import load_corpus
from curriculum.families.document_writer import documents_in
from curriculum.packing.row_check import check
from curriculum.stages import Built, RowsSpec, Tokenizing, Workers, build
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Artefact, Store
from schemas.corpus import HistorySpec
from schemas.document import Document
from schemas.families import EDIT_FAMILY
from schemas.packed_row import TEXT_PIECE

NEW = RowsSpec(family=EDIT_FAMILY, row_length=1024)
ALL = RowsSpec(family=EDIT_FAMILY, row_length=1024, score="all")
ENRICHED = RowsSpec(family="v6_enriched", base=EDIT_FAMILY, row_length=1024)


def edits_of_lattice(home: Path, *, processes: int = 1) -> Built:
    corpus = load_corpus("sample")
    (lattice,) = (each for each in corpus.repositories if each.name == "lattice")
    history = HistorySpec(versions_per_path=6)
    return build(
        Store(home),
        corpus.model_copy(update={"repositories": (lattice,), "history": history}),
        (NEW, ALL, ENRICHED),
        fixed_length=512,
        tokenizing=Tokenizing(vocab_size=800),
        workers=Workers(processes=processes),
    )


@pytest.fixture(scope="module")
def lattice(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return edits_of_lattice(tmp_path_factory.mktemp("lattice"))


def edits(built: Built) -> dict[str, Document]:
    return {
        document.document_id: document
        for artefact in built.documents
        if artefact.manifest.labels["family"] == EDIT_FAMILY
        for document in documents_in(artefact.path)
    }


def bytes_of(built: Built, rows: Artefact, *, scored: bool) -> dict[str, set[int]]:
    """Bytes of each document that rows have, or that tokens have which are scored."""
    token_bytes = load_tokenizer(built.tokenizer).token_bytes
    found: dict[str, set[int]] = {}
    columns = ["input_ids", "loss_mask", "pieces", "document_ids"]
    for row in pq.read_table(rows.shards(), columns=columns, partitioning=None).to_pylist():
        for piece in row["pieces"]:
            if piece["kind"] != TEXT_PIECE:
                continue
            own = found.setdefault(row["document_ids"][piece["doc"]], set())
            at = piece["byte_start"]
            for token in range(piece["token_start"], piece["token_end"]):
                size = int(token_bytes[row["input_ids"][token]])
                if not scored or (token and row["loss_mask"][token - 1]):
                    own |= {*range(at, at + size)}
                at += size
    return found


def expected_bytes(document: Document) -> set[int]:
    """Bytes outside of unscored spans: tests/curriculum/families/test_edit.py holds those to the hunks."""
    unscored = [span for span in document.spans if span.kind == "unscored"]
    whole = {*range(len(document.text.encode()))}
    return whole - {byte for span in unscored for byte in range(span.start, span.end)}


def test_scored_are_first_lines_of_searches_and_added_lines(lattice: Built) -> None:
    known = edits(lattice)
    rows = lattice.rows_of(ALL).train
    assert check(rows.path).num_faults == 0
    shown, scored = (bytes_of(lattice, rows, scored=each) for each in (False, True))
    assert len(shown) > 5
    for name in shown:
        assert scored[name] == expected_bytes(known[name]) & shown[name]
        # A part of a target is never elided, so all of the blocks is in the rows.
        assert expected_bytes(known[name]) <= shown[name]


def test_new_lines_alone_are_scored_by_default(lattice: Built) -> None:
    new, full = (bytes_of(lattice, lattice.rows_of(each).train, scored=True) for each in (NEW, ALL))
    assert new.keys() <= full.keys()
    assert all(new[name] <= full[name] for name in new)
    few, many = (sum(map(len, some.values())) for some in (new, full))
    assert 0 < few < many


def test_structure_beside_blocks_scores_what_they_score(lattice: Built) -> None:
    flat, enriched = (lattice.rows_of(each).train for each in (NEW, ENRICHED))
    assert check(enriched.path).num_faults == 0
    columns = ["input_ids", "loss_mask"]
    one, other = (
        pq.read_table(each.shards(), columns=columns, partitioning=None)
        for each in (flat, enriched)
    )
    assert one.equals(other)


def test_rows_are_equal_for_any_number_of_workers(lattice: Built, tmp_path: Path) -> None:
    def contents(built: Built) -> dict[str, str]:
        return {artefact.key: artefact.content for artefact in built.artefacts()}

    assert contents(edits_of_lattice(tmp_path, processes=2)) == contents(lattice)
