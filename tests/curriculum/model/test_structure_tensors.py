import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import Boundaries
from curriculum.model.structure_tensors import (
    RowStructure,
    StructureEmbedding,
    StructureTensors,
    chunk_of_tokens,
    table_entries,
)
from schemas.errors import JobError, SchemaError
from schemas.job import Backend, ModelSpec
from schemas.structure import MAX_CODES
from tests.error_fields import fields

T = 128
FLAT = ModelSpec(
    name="small", vocab_size=64, blocks="AFA", width=32, heads=4, kv_heads=2, mlp_width=48
)
SPEC = FLAT.model_copy(update={"structure": True})
BACKENDS: tuple[Backend, ...] = ("math", "sdpa", "documents", "flex")
CUT = Boundaries.from_doc_ids(torch.tensor([[0] * 50 + [1] * 78, [0] * 30 + [1] * 90 + [2] * 8]))
IDS = torch.randint(64, (2, T), generator=torch.Generator().manual_seed(0))


def row(*, seed: int = 0) -> RowStructure:
    """Three chunks, two in the first document of 50 tokens."""
    generator = np.random.default_rng(seed)
    highest = [each + 1 for each in MAX_CODES.values()]
    return RowStructure(
        tokens=generator.integers(0, highest, (T, 5)).astype(np.uint8),
        chunks=np.array([(1, 9, 2, 1, 0), (9, 49, 4, 2, 0), (55, 120, 4, 1, 1)], np.int32),
        call_edges=np.array([(1, 0)], np.int32),
        type_edges=np.empty((0, 2), np.int32),
    )


def of(*rows: RowStructure | None) -> StructureTensors:
    found = StructureTensors.from_rows(rows)
    assert found is not None
    return found


def trained(model: Decoder) -> Decoder:
    """A model whose structure no longer is at its start."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("table"):
                weight.copy_(torch.randn(weight.shape, generator=generator))
    return model


def test_tokens_belong_to_the_chunk_around_them() -> None:
    chunks = np.array([(0, 2, 4, 1, 0), (3, 5, 4, 1, 0)], dtype=np.int32)
    assert chunk_of_tokens(chunks, 5).tolist() == [1, 1, 0, 2, 2]
    assert chunk_of_tokens(chunks[:0], 5).tolist() == [0] * 5


@given(st.sets(st.integers(0, 20), max_size=12).map(sorted), st.integers(20, 24))
def test_chunks_of_tokens_equal_painting_them_one_by_one(edges: list[int], length: int) -> None:
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    chunks = np.array([(*pair, 4, 1, 0) for pair in pairs], dtype=np.int32).reshape(-1, 5)
    painted = np.zeros(length, dtype=np.int32)
    for number, (start, end) in enumerate(pairs, start=1):
        painted[start:end] = number
    assert np.array_equal(chunk_of_tokens(chunks, length), painted)


def test_codes_stand_one_column_after_the_other_in_the_table() -> None:
    assert table_entries(torch.tensor([9, 64, 0, 1, 255]).byte()).tolist() == [
        9,
        73,
        0,
        138,
        457 - 1,
    ]
    everything = [
        entry
        for column, largest in enumerate(MAX_CODES.values())
        for code in range(1, largest + 1)
        for entry in [table_entries(torch.eye(5).byte()[column] * code)[column].item()]
    ]
    assert everything == list(range(1, 1 + len(StructureEmbedding(8).table)))


def test_a_batch_has_zeros_for_rows_without_structure_and_is_none_without_any() -> None:
    assert StructureTensors.from_rows([None, None]) is None
    both = of(None, row())
    assert (both.tokens.shape, both.chunks.shape) == ((2, T, 5), (2, T))
    assert both.relations.shape == (2, 64, 64)
    assert not both.tokens[0].any()
    assert not both.chunks[0].any()
    assert not both.relations[0].any()
    assert torch.equal(both.tokens[1], torch.from_numpy(row().tokens))
    assert sorted(set(both.chunks[1].tolist())) == [0, 1, 2, 3]
    assert both.relations[1, :4, :4].tolist() == [
        [0, 0, 0, 0],
        [0, 5, 2, 0],
        [0, 1, 5, 0],
        [0, 0, 0, 5],
    ]
    none = StructureTensors.none(IDS)
    for field in dataclasses.fields(StructureTensors):
        zeros, like = getattr(none, field.name), getattr(both, field.name)
        assert (zeros.shape, zeros.dtype, zeros.any()) == (like.shape, like.dtype, False)


@pytest.mark.parametrize(("chunks", "room"), [(0, 64), (63, 64), (64, 128), (127, 128), (200, 256)])
def test_relations_are_padded_so_that_kernels_see_few_shapes(chunks: int, room: int) -> None:
    placed = np.array([(at, at + 1, 4, 1, 0) for at in range(chunks)], np.int32).reshape(-1, 5)
    found = of(dataclasses.replace(row(), chunks=placed, call_edges=row().type_edges))
    assert found.relations.shape == (1, room, room)


def test_a_code_that_its_column_does_not_have_is_refused() -> None:
    wrong = row()
    wrong.tokens[5, 0] = 10
    with pytest.raises(SchemaError, match=r"structure_ids: 10; .* 9\b"):
        StructureTensors.from_rows([wrong])


@pytest.mark.parametrize("backend", BACKENDS)
def test_structure_attached_to_a_model_changes_no_bit_of_its_logits(backend: Backend) -> None:
    flat = initialise(Decoder(FLAT, backend), 3)
    fresh = initialise(Decoder(SPEC, backend), 8)
    missing, unexpected = fresh.load_state_dict(flat.state_dict(), strict=False)
    assert len(missing) == 4
    assert not unexpected
    expected = flat(IDS, CUT)
    assert torch.equal(fresh(IDS, CUT, of(row(), None)), expected)
    with torch.no_grad():
        assert torch.equal(fresh(IDS, CUT, of(row(), row(seed=1))), flat(IDS, CUT))
    assert not torch.equal(trained(fresh)(IDS, CUT, of(row(), None)), expected)


def test_a_fresh_model_with_structure_draws_the_weights_of_one_without() -> None:
    flat, fresh = (initialise(Decoder(spec, "math"), 3) for spec in (FLAT, SPEC))
    drawn = dict(fresh.named_parameters())
    for name, weight in flat.named_parameters():
        assert torch.equal(drawn.pop(name), weight)
    assert sorted(drawn) == [
        "blocks.0.layer.relations.table",
        "blocks.2.layer.relations.table",
        "structure.project.weight",
        "structure.table",
    ]
    assert not any(weight.any() for name, weight in drawn.items() if name.endswith("table"))
    again = initialise(Decoder(SPEC, "math"), 3)
    assert again.structure is not None
    assert torch.equal(again.structure.project.weight, drawn["structure.project.weight"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_structure_is_rows_of_zeros_to_the_bit(backend: Backend) -> None:
    model = trained(initialise(Decoder(SPEC, backend), 3))
    assert torch.equal(model(IDS, CUT), model(IDS, CUT, StructureTensors.none(IDS)))
    beside = model(IDS, CUT, of(row(), None))
    assert torch.equal(beside[1], model(IDS, CUT)[1])
    assert not torch.equal(beside[0], model(IDS, CUT)[0])


def test_a_model_without_structure_reads_past_it() -> None:
    model = initialise(Decoder(FLAT, "documents"), 3)
    assert torch.equal(model(IDS, CUT, of(row(), row())), model(IDS, CUT))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_with_structure_beside_one_without_equals_each_alone(backend: Backend) -> None:
    model = trained(initialise(Decoder(SPEC, backend), 3)).double()
    both = model(IDS, CUT, of(row(), None))
    for index, structure in ((0, of(row())), (1, None)):
        alone = model(
            IDS[index, None], Boundaries.from_doc_ids(CUT.doc_ids[index, None]), structure
        )
        assert (alone[0] - both[index]).abs().max() < 1e-12


def gradients(model: Decoder, structure: StructureTensors | None) -> dict[str, Tensor]:
    model.zero_grad()
    loss: Tensor = model(IDS, CUT, structure).square().sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_tables_of_zeros_learn_from_the_first_step_on(backend: Backend) -> None:
    model = initialise(Decoder(SPEC, backend), 3).double()
    found = gradients(model, of(row(), row(seed=1)))
    expected = gradients(initialise(Decoder(SPEC, "math"), 3).double(), of(row(), row(seed=1)))
    for name in ("structure.table", "blocks.0.layer.relations.table"):
        assert expected[name].abs().max() > 1e-6
        assert torch.allclose(found[name], expected[name], rtol=1e-9, atol=1e-14)
    assert not found["structure.project.weight"].any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_weight_has_a_gradient_whether_or_not_rows_have_structure(backend: Backend) -> None:
    model = trained(initialise(Decoder(SPEC, backend), 3))
    flat = gradients(model, None)
    assert set(flat) == {name for name, _ in model.named_parameters()}
    for name, gradient in flat.items():
        ours = name.endswith("relations.table") or name.startswith("structure")
        assert ours != bool(gradient.any()), name


def test_code_zero_adds_nothing() -> None:
    embedding = StructureEmbedding(8)
    torch.nn.init.ones_(embedding.table)
    assert not embedding(torch.zeros(1, 3, 5).byte()).any()
    one, two = (embedding(torch.tensor([[codes]]).byte()) for codes in ([1, 0, 0, 0, 0], [1] * 5))
    assert torch.allclose(5 * one, two, atol=1e-6)


def test_structure_of_other_documents_changes_no_bit_of_one() -> None:
    """Forward, and the gradient of a loss on that document alone."""
    one, other = row(), row(seed=1)
    inside = slice(50, T)
    other.tokens[inside] = one.tokens[inside]
    other.chunks[:2, 3] = 7
    for backend in BACKENDS:
        model = trained(initialise(Decoder(SPEC, backend), 3))
        seen = []
        for each in (one, other):
            logits = model(IDS, CUT, of(each, None))
            loss = logits[0, inside].square().sum()
            seen.append([logits.detach()[0], *torch.autograd.grad(loss, [*model.parameters()])])
        (first, *grads), (second, *others) = seen
        assert torch.equal(first[inside], second[inside]), backend
        assert not torch.equal(first[:50], second[:50])
        assert all(torch.equal(a, b) for a, b in zip(grads, others, strict=True)), backend


def test_a_backend_without_biases_refuses_the_model() -> None:
    with pytest.raises(JobError, check=fields(value="varlen with structure")):
        Decoder(SPEC, "varlen")
    Decoder(FLAT, "varlen")
