"""Packings hold the same documents, each once per step, and their files say so."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.leakcheck.packings import (
    MULTIPLE,
    PLAN,
    Packing,
    data_set_path,
    packings,
    write,
)
from curriculum.leakcheck.proof_documents import (
    ProofDocument,
    ProofSteps,
    many_documents,
    proof_documents,
)
from curriculum.model.presets import model_spec

SPEC = model_spec("tiny", 97)


def documents(lengths: list[list[int]]) -> ProofSteps:
    """Documents of these lengths; those of one token have no target."""

    def document(n: int) -> ProofDocument:
        mask = np.ones(n, dtype=np.uint8)
        mask[-1] = 0
        return ProofDocument(ids=np.arange(n, dtype=np.int32) % 97, loss_mask=mask)

    return [[document(n) for n in step] for step in lengths]


@given(
    st.lists(
        st.lists(st.integers(2, 256), min_size=1, max_size=12).map(lambda step: [*step, 1]),
        min_size=2,
        max_size=3,
    )
)
def test_every_packing_holds_each_document_once_in_its_step(lengths: list[list[int]]) -> None:
    steps = documents(lengths)
    flat = [document for step in steps for document in step]
    for packing in packings(steps, 256):
        first = 0
        for step, rows in zip(steps, packing.steps, strict=True):
            held = sorted(number for row in rows for number in row.documents)
            assert held == list(range(first, first + len(step)))
            first += len(step)
            for row in rows:
                assert row.row_length % MULTIPLE == 0
                assert sum(len(flat[number]) for number in row.documents) <= row.row_length
                assert any(flat[number].is_scored for number in row.documents)


def test_packings_differ_in_everything_that_training_must_not_depend_on() -> None:
    ways = packings(proof_documents(SPEC, longest=512), 512)
    assert len({packing.steps for packing in ways}) == len(ways) == 6
    lengths = [{row.row_length for step in way.steps for row in step} for way in ways]
    assert any(len(found) > 1 for found in lengths)
    assert any(1024 in found for found in lengths)
    assert len({way.micro_positions for way in ways}) > 2
    assert {way.stores_doc_ids for way in ways} == {True, False}
    assert any(way.resume_after for way in ways)
    assert any(way.evaluate_every for way in ways)
    assert any(way.evaluate_every is None for way in ways)
    assert any(len(way.data_sets) > 1 for way in ways)
    assert any(way.shard_rows for way in ways)


def test_the_documents_have_the_lengths_at_which_leaks_hide() -> None:
    steps = proof_documents(SPEC, longest=512)
    assert {1, 2, 3, 127, 128, 129, 512} <= {len(document) for document in steps[0]}
    (many,) = many_documents(SPEC)
    assert len(many) > 1024
    assert {len(document) for document in many} == {1, 2, 3, 4, 5}
    ids = np.concatenate([document.ids for step in steps for document in step])
    assert (ids.min(), ids.max()) == (0, 96)


@pytest.fixture(scope="module")
def steps() -> ProofSteps:
    return documents([[5, 128, 1, 70], [9, 3, 200]])


@pytest.mark.parametrize("number", range(6))
def test_files_hold_the_rows_of_a_packing(steps: ProofSteps, number: int, tmp_path: Path) -> None:
    packing: Packing = packings(steps, 256)[number]
    write(packing, steps, tmp_path, vocab_size=97, structured=False)
    flat = [document for step in steps for document in step]
    plan = pq.read_table(tmp_path / PLAN).to_pylist()
    assert [line["slot"] for line in plan] == [
        at for at, rows in enumerate(packing.steps) for _ in rows
    ]
    for place, rows in packing.data_sets.items():
        files = sorted((tmp_path / data_set_path(*place)).rglob("part-*.parquet"))
        written = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert len(written) == len(rows)
        for row, found in zip(rows, written, strict=True):
            wanted = np.concatenate([flat[each].ids for each in row.documents])
            assert found["input_ids"][: len(wanted)] == wanted.tolist()
            assert ("doc_ids" in found) == packing.stores_doc_ids
            lengths = [len(flat[each]) for each in row.documents]
            assert found["doc_starts"] == np.cumsum([0, *lengths[:-1]]).tolist()


def test_the_first_tokens_of_a_document_are_a_document() -> None:
    (document,) = proof_documents(
        SPEC.model_copy(update={"structure": True}), longest=256, steps=2
    )[0][:1]
    first = document.first(100)
    assert len(first) == 100
    assert first.ids.tolist() == document.ids[:100].tolist()
    assert first.loss_mask[-1] == 0
    assert first.structure is not None
    assert first.structure.codes.shape[0] == 100
    assert (first.structure.chunks[:, 1] <= 100).all()
    chunks = len(first.structure.chunks)
    assert (first.structure.call_edges[:, :2] < chunks).all()
    assert document.first(300) is document
