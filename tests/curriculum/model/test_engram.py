"""N-grams are found as a plain reading finds them, never across a start; what is blank adds nothing."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from curriculum.model import engram
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.engram import Engram, ids_before, n_gram_slots
from curriculum.model.masks import Boundaries, LayerInputs
from curriculum.model.n_gram_tables import BLANK, Table, tables
from curriculum.model.presets import model_spec
from schemas.job import EngramSpec

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
TABLES = tables(EngramSpec(orders=(2, 3, 4), heads=2, slots=50, slot_width=8))
SPEC = model_spec("tiny", 64).model_copy(
    update={"blocks": "E", "width": 16, "engram": EngramSpec(heads=2, slots=50, slot_width=8)}
)
CUT = Boundaries.from_doc_ids(torch.tensor([[0] * 7 + [1] * 2 + [2] * 3, [0] * 1 + [1] * 11]))


@st.composite
def cuts(draw: st.DrawFn) -> Boundaries:
    """Two rows of documents of 1, 2, 3 tokens and more."""
    short = st.lists(st.integers(1, 3) | st.integers(1, 9), min_size=1, max_size=6)
    rows = [draw(short), draw(short)]
    longest = max(map(sum, rows))
    ids = []
    for row in rows:
        lengths = [*row, longest - sum(row)]
        ids.append(torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)))
    return Boundaries.from_doc_ids(torch.stack(ids))


def ids_like(boundaries: Boundaries, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(64, boundaries.doc_ids.shape, generator=generator)


def layer(dtype: torch.dtype = torch.float64) -> Engram:
    found = initialise(Decoder(SPEC, "math"), 0).to(dtype).blocks[0].layer
    assert isinstance(found, Engram)
    found.taps_DK.data.normal_(generator=torch.Generator().manual_seed(1))
    return found


def inputs(boundaries: Boundaries = CUT, seed: int = 0) -> LayerInputs:
    model = Decoder(SPEC, "math")
    return model._inputs(ids_like(boundaries, seed), boundaries, torch.float64)


def stream(
    boundaries: Boundaries = CUT, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*boundaries.doc_ids.shape, 16, generator=generator).to(dtype)


def test_tables_have_prime_sizes_of_their_own_side_by_side() -> None:
    found = tables(EngramSpec(orders=(2,), heads=3, slots=4))
    assert [(each.size, each.offset) for each in found] == [(5, 0), (7, 5), (11, 12)]
    multipliers = [each for table in TABLES for each in table.multipliers]
    assert len(set(multipliers)) == len(multipliers) == 2 * (2 + 3 + 4)
    assert all(each % 2 and 0 < each < 2**31 for each in multipliers)


def test_hashes_are_the_same_on_every_machine() -> None:
    """A checkpoint is of use only with the hashes it was trained with."""
    assert [table.multipliers for table in TABLES[:2]] == [
        (1093347665, 1957630407),
        (892434199, 1675544605),
    ]


def test_the_example_of_the_docstring() -> None:
    ids, positions = torch.tensor([[7, 8, 9, 5, 6]]), torch.tensor([[0, 1, 2, 0, 1]])
    assert ids_before(ids, positions, 1).tolist() == [[BLANK, 7, 8, BLANK, 5]]
    assert ids_before(ids, positions, 9).tolist() == [[BLANK] * 5]


@settings(max_examples=25, deadline=None)
@given(cuts(), st.integers(0, 9))
def test_slots_are_those_of_a_plain_reading(boundaries: Boundaries, seed: int) -> None:
    ids = ids_like(boundaries, seed) + 2**31 - 100
    found = n_gram_slots(ids, boundaries, TABLES)
    expected = [
        [[slot(ids[row], boundaries.doc_ids[row], t, table) for table in TABLES] for t in range(T)]
        for row, T in enumerate([ids.shape[1]] * 2)
    ]
    assert found.tolist() == expected


def slot(ids: Tensor, doc_ids: Tensor, t: int, table: Table) -> int:
    order = len(table.multipliers)
    if t + 1 < order or doc_ids[t + 1 - order] != doc_ids[t]:
        return BLANK
    mixed = 0
    for k, multiplier in enumerate(table.multipliers):
        mixed ^= int(ids[t - k]) * multiplier
    return mixed % table.size + table.offset


@settings(max_examples=25, deadline=None)
@given(cuts(), st.integers(0, 5))
def test_slots_of_a_document_follow_from_its_ids_alone(boundaries: Boundaries, number: int) -> None:
    inside = boundaries.doc_ids == number % int(boundaries.doc_ids[0].max() + 1)
    ids, others = ids_like(boundaries), ids_like(boundaries, 1)
    calm = n_gram_slots(ids, boundaries, TABLES)
    loud = n_gram_slots(torch.where(inside, ids, others), boundaries, TABLES)
    assert inside.any()
    assert torch.equal(calm[inside], loud[inside])


def test_an_n_gram_is_blank_until_its_document_is_long_enough() -> None:
    blank = n_gram_slots(ids_like(CUT), CUT, TABLES) == BLANK
    for number, table in enumerate(TABLES):
        assert torch.equal(blank[..., number], CUT.position_ids < len(table.multipliers) - 1)


def test_what_is_blank_reads_nothing_and_adds_exactly_nothing() -> None:
    model = layer()
    memory = model.read(ids_like(CUT), CUT).view(2, 12, 6, 8)
    assert torch.equal(memory.eq(0).all(-1), n_gram_slots(ids_like(CUT), CUT, TABLES) == BLANK)
    model.table.weight.data.fill_(torch.nan)
    assert torch.equal(model.read(ids_like(CUT), CUT)[CUT.position_ids == 0], torch.zeros(5, 48))
    first = CUT.position_ids == 0
    out = layer()(stream(), inputs())
    assert not out[first].any()
    assert out[~first].any(-1).all()


def test_it_is_a_gated_memory_with_a_convolution_beside_it() -> None:
    model, x = layer(), stream()
    memory = model.read(ids_like(CUT), CUT)
    key = memory @ model.key.weight.t()
    key = key / (key.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    gate = torch.sigmoid((x * key).sum(-1, keepdim=True) / 4)
    value = gate * (memory @ model.value.weight.t())
    normal = value / (value.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    mixed = torch.zeros_like(x)
    for row, t in torch.cartesian_prod(torch.arange(2), torch.arange(12)).tolist():
        for k in range(min(SPEC.conv_kernel, int(CUT.position_ids[row, t]) + 1)):
            mixed[row, t] += model.taps_DK[:, k] * normal[row, t - k]
    torch.testing.assert_close(model(x, inputs()), value + F.silu(mixed), rtol=1e-10, atol=1e-12)


def test_at_first_each_token_adds_only_its_own_memory_and_little_of_it() -> None:
    fresh = initialise(Decoder(SPEC, "math"), 0).double().blocks[0].layer
    assert isinstance(fresh, Engram)
    out = fresh(stream(), inputs())
    assert 0 < out.abs().max() < 0.02
    assert not fresh.taps_DK.any()
    (back,) = torch.autograd.grad(out.sum(), fresh.taps_DK)
    assert back.any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_document_sees_no_other_and_no_other_is_moved(dtype: torch.dtype) -> None:
    model, inside = layer(dtype), CUT.doc_ids == 1
    calm = inputs()
    loud = dataclasses.replace(calm, ids=torch.where(inside, calm.ids, ids_like(CUT, 1)))
    results = []
    for x, each in (
        (stream(dtype=dtype), calm),
        (
            torch.where(inside[..., None], stream(dtype=dtype), 50 * stream(seed=1, dtype=dtype)),
            loud,
        ),
    ):
        x.requires_grad_()
        y = model(x, each)
        loss = torch.where(inside[..., None], y * stream(seed=2, dtype=dtype), 0).sum()
        results.append((y[inside], *torch.autograd.grad(loss, (x, *model.parameters()))))
    assert all(torch.equal(one, other) for one, other in zip(*results, strict=True))
    assert results[0][1][inside].any()
    assert not results[0][1][~inside].any()
    assert all(back.any() for back in results[0][2:])


@settings(max_examples=15, deadline=None)
@given(cuts())
def test_a_document_packed_equals_it_alone(boundaries: Boundaries) -> None:
    model, x, ids = layer(), stream(boundaries), ids_like(boundaries)
    packed = model(x, inputs(boundaries))
    for row in range(2):
        for document in sorted(set(boundaries.doc_ids[row].tolist())):
            at = boundaries.doc_ids[row] == document
            one = Boundaries.from_doc_ids(torch.zeros(1, int(at.sum())).int())
            alone = dataclasses.replace(inputs(one), ids=ids[row, at][None])
            torch.testing.assert_close(
                model(x[row, at][None], alone)[0], packed[row, at], rtol=1e-12, atol=1e-14
            )


def test_n_grams_across_a_start_are_noticed_by_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(ids_BT: Tensor, positions_BT: Tensor, k: int) -> Tensor:
        return F.pad(ids_BT, (k, 0), value=BLANK)[:, : ids_BT.shape[1]]

    masked = n_gram_slots(ids_like(CUT), CUT, TABLES)
    monkeypatch.setattr(engram, "ids_before", leaking)
    leaks = (n_gram_slots(ids_like(CUT), CUT, TABLES) != masked).any(-1)
    assert torch.equal(leaks, (CUT.position_ids < 3) & (torch.arange(12) >= CUT.position_ids + 1))


def test_its_gradient_is_the_same_each_time_where_determinism_is_asked_for() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        one, other = (
            torch.autograd.grad(model(stream(), inputs()).sum(), model.table.weight)[0]
            for model in (layer(), layer())
        )
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(one, other)
