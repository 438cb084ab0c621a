import dataclasses
import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from curriculum.model import documents_backend
from curriculum.model.backends import attention
from curriculum.model.masks import Boundaries
from curriculum.model.structure_tensors import (
    RelationBias,
    StructureTensors,
    dense_bias,
    relation_of_tokens,
    relations,
)
from schemas.errors import JobError
from schemas.job import Backend
from schemas.structure import RELATION_CODES, STRUCTURE_CODES
from tests.error_fields import fields

CODE = RELATION_CODES
PREAMBLE, BODY = STRUCTURE_CODES["preamble"], STRUCTURE_CODES["func_body"]
LENGTHS = ((1, 126, 1, 127, 1), (100, 28, 128))
OTHERS: tuple[Backend, ...] = ("sdpa", "documents", "flex")


def edges(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, dtype=np.int32).reshape(-1, 2)


def oracle(chunks: np.ndarray, calls: np.ndarray, types: np.ndarray) -> np.ndarray:
    """One code a pair, read off the definition."""
    called, named = set(map(tuple, calls.tolist())), set(map(tuple, types.tolist()))
    found = np.zeros((len(chunks) + 1, len(chunks) + 1), dtype=np.uint8)
    for q, (_, _, _, level, document) in enumerate(chunks.tolist()):
        for k, (_, _, other_kind, other_level, other_document) in enumerate(chunks.tolist()):
            holds = {
                "same_chunk": q == k,
                "calls": (q, k) in called,
                "called_by": (k, q) in called,
                "names_type": (q, k) in named,
                "type_named_by": (k, q) in named,
                "preamble": other_kind == PREAMBLE,
                "same_level": level == other_level,
                "adjacent_level": abs(level - other_level) == 1,
            }
            first = next((name for name, true in holds.items() if true), "none")
            found[q + 1, k + 1] = CODE[first] if document == other_document else CODE["none"]
    return found


@st.composite
def rows_of_chunks(draw: st.DrawFn):
    documents = sorted(draw(st.lists(st.integers(0, 2), max_size=7)))
    chunks = [
        (3 * at, 3 * at + 2, draw(st.sampled_from([PREAMBLE, BODY])), draw(st.integers(1, 4)), doc)
        for at, doc in enumerate(documents)
    ]
    pair = st.integers(0, max(len(chunks) - 1, 0))
    some = st.lists(st.tuples(pair, pair), max_size=6 if chunks else 0)
    return np.array(chunks, dtype=np.int32).reshape(-1, 5), edges(*draw(some)), edges(*draw(some))


def test_the_codes_are_those_that_models_are_trained_on() -> None:
    assert list(CODE.items()) == [
        ("none", 0),
        ("calls", 1),
        ("called_by", 2),
        ("names_type", 3),
        ("type_named_by", 4),
        ("same_chunk", 5),
        ("same_level", 6),
        ("adjacent_level", 7),
        ("preamble", 8),
    ]


def test_the_example_of_the_docstring() -> None:
    chunks = np.array(
        [
            (0, 1, PREAMBLE, 1, 0),
            (1, 3, BODY, 1, 0),
            (3, 4, BODY, 2, 0),
            (4, 6, BODY, 1, 1),
            (6, 7, BODY, 2, 1),
        ],
        dtype=np.int32,
    )
    found = relations(chunks, edges((2, 1)), edges())
    assert found.tolist() == [
        [0, 0, 0, 0, 0, 0],
        [0, 5, 6, 7, 0, 0],
        [0, 8, 5, 2, 0, 0],
        [0, 8, 1, 5, 0, 0],
        [0, 0, 0, 0, 5, 7],
        [0, 0, 0, 0, 7, 5],
    ]
    assert relations.__doc__ is not None
    assert "\n".join(" ".join(map(str, line)) for line in found.tolist()) in "\n".join(
        line.strip() for line in relations.__doc__.splitlines()
    )


@given(rows_of_chunks())
def test_relations_equal_their_definition_pair_by_pair(row) -> None:
    found = relations(*row)
    assert found.dtype == np.uint8
    assert np.array_equal(found, oracle(*row))


def test_a_pair_has_the_first_relation_that_holds() -> None:
    chunks = np.array([(0, 1, PREAMBLE, 1, 0), (1, 2, BODY, 1, 0)], dtype=np.int32)
    both = edges((0, 1), (1, 0))
    assert relations(chunks, both, both)[1:, 1:].tolist() == [[5, 1], [1, 5]]
    assert relations(chunks, edges((1, 0)), both)[1:, 1:].tolist() == [[5, 2], [1, 5]]
    assert relations(chunks, edges(), both)[1:, 1:].tolist() == [[5, 3], [3, 5]]
    assert relations(chunks, edges(), edges((1, 0)))[1:, 1:].tolist() == [[5, 4], [3, 5]]
    assert relations(chunks, edges(), edges())[1:, 1:].tolist() == [[5, 6], [8, 5]]


def test_no_chunk_has_a_relation_where_there_are_none() -> None:
    empty = np.empty((0, 5), dtype=np.int32)
    assert relations(empty, edges(), edges()).tolist() == [[0]]


def test_a_bias_is_the_tables_entry_of_every_pair_of_tokens() -> None:
    table = torch.randn(2, 9)
    chunks = torch.tensor([[1, 1, 0, 2, 2]]).int()
    between = torch.tensor([[[0, 0, 0], [0, 5, 8], [0, 1, 5]]]).byte()
    relation = relation_of_tokens(chunks, chunks, between)
    assert relation.tolist() == [
        [[5, 5, 0, 8, 8], [5, 5, 0, 8, 8], [0, 0, 0, 0, 0], [1, 1, 0, 5, 5], [1, 1, 0, 5, 5]]
    ]
    assert torch.equal(dense_bias(table, relation)[0], table[:, relation[0].long()])


def test_none_has_no_weight_and_adds_nothing() -> None:
    bias = RelationBias(4)
    assert bias.table.shape == (4, 8)
    torch.nn.init.ones_(bias.table)
    assert bias().tolist() == [[0.0] + [1.0] * 8] * 4


def boundaries() -> Boundaries:
    rows = [torch.arange(len(each)).repeat_interleave(torch.tensor(each)) for each in LENGTHS]
    return Boundaries.from_doc_ids(torch.stack(rows))


def structure() -> StructureTensors:
    """Chunks in two documents of the first row and one of the second, of any relations."""
    chunks = torch.zeros(2, 256, dtype=torch.int32)
    chunks[0, 3:40], chunks[0, 40:99], chunks[0, 100:127], chunks[0, 130:250] = 1, 2, 3, 4
    chunks[1, 128:180], chunks[1, 180:200], chunks[1, 210:256] = 1, 2, 3
    between = torch.randint(9, (2, 64, 64), generator=torch.Generator().manual_seed(5))
    between[:, 0] = between[:, :, 0] = 0
    return StructureTensors(
        tokens=torch.zeros(2, 256, 5, dtype=torch.uint8), chunks=chunks, relations=between.byte()
    )


@functools.cache
def run(
    backend: Backend, *, softcap: float | None = None, scale: float = 1.0
) -> list[torch.Tensor]:
    """Output and the gradients of q, k, v and the table, in float64 with 4 heads over 2."""
    generator = torch.Generator().manual_seed(1)
    cut = boundaries()
    B, T = cut.doc_ids.shape
    q, k, v = (
        torch.randn(B, heads, T, 16, generator=generator, dtype=torch.float64, requires_grad=True)
        for heads in (4, 2, 2)
    )
    drawn = torch.randn(4, 8, generator=generator, dtype=torch.float64)
    table = (scale * drawn).requires_grad_()
    attend = attention(backend, softcap=softcap, relations=True)(cut, structure())
    # None has no bias in a model; a softcap, unlike softmax, would see one that is the same everywhere.
    out = attend(q, k, v, F.pad(table, (1, 0)))
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), (q, k, v, table))]


@pytest.mark.parametrize(
    ("backend", "softcap"), [*((each, None) for each in OTHERS), ("flex", 2.0), ("documents", 2.0)]
)
@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_backends_agree_with_math_on_biases_and_their_gradients(
    backend: Backend, softcap: float | None, scale: float
) -> None:
    reference = run("math", softcap=softcap, scale=scale)
    assert (reference[-1].abs().amax(0) > 0.01).sum() >= 6
    for ours, expected in zip(run(backend, softcap=softcap, scale=scale), reference, strict=True):
        assert (ours - expected).abs().max() < 1e-12


def test_a_bias_changes_what_is_attended_to_and_lies_inside_the_softcap() -> None:
    plain, biased, capped = run("math", scale=0.0), run("math"), run("math", softcap=2.0)
    assert (plain[0] - biased[0]).abs().max() > 0.1
    assert (capped[0] - biased[0]).abs().max() > 1e-2
    q = torch.zeros(1, 1, 2, 4, dtype=torch.float64)
    v = torch.eye(2, 4, dtype=torch.float64)[None, None]
    one = StructureTensors(
        tokens=torch.zeros(1, 2, 5).byte(),
        chunks=torch.tensor([[1, 2]]).int(),
        relations=torch.tensor([[[0, 0, 0], [0, 0, 0], [0, 1, 0]]]).byte(),
    )
    table = torch.tensor([[0.0, 100.0, *[0.0] * 7]], dtype=torch.float64)
    attend = attention("math", softcap=2.0, relations=True)
    out = attend(Boundaries.from_doc_ids(torch.zeros(1, 2).int()), one)(q, q, v, table)
    weight = torch.tensor([2.0, 0.0], dtype=torch.float64).softmax(0)
    assert torch.allclose(out[0, 0, 1, :2], weight)


@pytest.mark.parametrize("backend", ["sdpa", "documents"])
def test_a_table_of_zeros_leaves_the_bits_of_the_kernel_without(backend: Backend) -> None:
    generator = torch.Generator().manual_seed(1)
    cut = boundaries()
    q, k, v = (torch.randn(2, heads, 256, 16, generator=generator) for heads in (4, 2, 2))
    plain = attention(backend)(cut)(q, k, v)
    attend = attention(backend, relations=True)(cut, structure())
    table = torch.zeros(4, 9, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(attend(q, k, v, table), plain)
    trained = attend(q, k, v, table)
    assert torch.equal(trained, plain)
    (gradient,) = torch.autograd.grad(trained.square().sum(), table)
    assert gradient.abs().max() > 0.01


def test_a_table_that_no_document_reads_has_a_gradient_of_zeros() -> None:
    q, k, v = (torch.randn(2, heads, 256, 16) for heads in (4, 2, 2))
    none = StructureTensors.none(torch.zeros(2, 256).long())
    table = torch.randn(4, 9, requires_grad=True)
    out = attention("documents", relations=True)(boundaries(), none)(q, k, v, table)
    assert torch.equal(out, attention("documents")(boundaries())(q, k, v))
    (gradient,) = torch.autograd.grad(out.sum(), table)
    assert gradient.abs().max() == 0


def test_what_a_backend_cannot_honour_is_refused_with_what_can() -> None:
    for backend in ("sdpa", "varlen"):
        able = "math, documents or flex"
        with pytest.raises(
            JobError, match=able, check=fields(value=f"{backend} with softcap 30.0")
        ):
            attention(backend, softcap=30.0)
    with pytest.raises(
        JobError, match="structure_inputs: false", check=fields(value="varlen with structure")
    ):
        attention("varlen", relations=True)


@pytest.mark.parametrize("queries", [1, 50, 127, 200])
def test_blocks_of_queries_change_nothing(queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_backend, "QUERIES", queries)
    run.cache_clear()
    for ours, expected in zip(run("documents"), run("math"), strict=True):
        assert (ours - expected).abs().max() < 1e-12
    run.cache_clear()


@pytest.mark.parametrize("backend", ["math", *OTHERS])
def test_biases_of_other_documents_never_reach_one(backend: Backend) -> None:
    """Whatever chunks and relations stand elsewhere, a document's output keeps its bits."""
    cut, here = boundaries(), structure()
    inside = cut.doc_ids == torch.tensor([[3], [2]])
    generator = torch.Generator().manual_seed(3)
    elsewhere = torch.randint(60, here.chunks.shape, generator=generator).int()
    other = dataclasses.replace(here, chunks=torch.where(inside, here.chunks, elsewhere))
    q, k, v = (torch.randn(2, heads, 256, 16, generator=generator) for heads in (4, 2, 2))
    table = torch.randn(4, 9, generator=generator)
    attend = attention(backend, relations=True)
    one, two = (attend(cut, each)(q, k, v, table).transpose(1, 2) for each in (here, other))
    assert torch.equal(one[inside], two[inside])
    assert not torch.equal(one[~inside], two[~inside])
