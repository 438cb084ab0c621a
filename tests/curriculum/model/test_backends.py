import functools
import itertools
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional as F

from curriculum.model.backends import AttentionBackend, attention
from curriculum.model.dense_backends import repeat_for_heads
from curriculum.model.masks import Attend, Boundaries
from schemas.errors import JobError
from schemas.job import Backend
from tests.error_fields import fields

LENGTHS = ((1, 126, 1, 127, 1), (100, 28, 128), (256,))
OTHERS: tuple[Backend, ...] = ("sdpa", "documents", "flex")


def boundaries() -> Boundaries:
    rows = [torch.arange(len(each)).repeat_interleave(torch.tensor(each)) for each in LENGTHS]
    return Boundaries.from_doc_ids(torch.stack([row for row in rows if len(row) == 256]))


def run(attend_within: Callable[[Boundaries], Attend]) -> list[torch.Tensor]:
    """Output and the gradients of q, k, v, in float64 with 4 heads over 2."""
    generator = torch.Generator().manual_seed(1)
    cut = boundaries()
    B, T = cut.doc_ids.shape
    q, k, v = (
        torch.randn(B, heads, T, 16, generator=generator, dtype=torch.float64, requires_grad=True)
        for heads in (4, 2, 2)
    )
    out = attend_within(cut)(q, k, v)
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    gradients = torch.autograd.grad((out * weights).sum(), (q, k, v))
    return [out.detach(), *gradients]


@pytest.mark.parametrize("backend", OTHERS)
def test_backends_agree_with_math_forward_and_backward(backend: Backend) -> None:
    for ours, reference in zip(run(attention(backend)), run(attention("math")), strict=True):
        assert reference.abs().max() > 0.1
        assert (ours - reference).abs().max() < 1e-12


@pytest.mark.parametrize("backend", ["math", *OTHERS])
def test_queries_of_a_part_get_what_they_get_in_whole_rows(backend: Backend) -> None:
    """Each half of the rows by itself: outputs are parts, and gradients sums over them."""
    expected = run(attention(backend))
    halves = [
        run(functools.partial(part_of, attention(backend), at=at))
        for at in (range(128), range(128, 256))
    ]
    for ours, reference in zip(map(sum, zip(*halves, strict=True)), expected, strict=True):
        assert (ours - reference).abs().max() < 1e-12


def part_of(attend_within: AttentionBackend, cut: Boundaries, at: range) -> Attend:
    """Attention whose output is that of the queries `at`, and zeros elsewhere."""
    attend = attend_within(cut, None, at)

    def padded(
        q_BHTK: torch.Tensor,
        k_BGTK: torch.Tensor,
        v_BGTK: torch.Tensor,
        table_HR: torch.Tensor | None = None,
    ) -> torch.Tensor:
        out = attend(q_BHTK[:, :, at.start : at.stop], k_BGTK, v_BGTK, table_HR)
        return F.pad(out, (0, 0, at.start, q_BHTK.shape[2] - at.stop))

    return padded


def test_varlen_refuses_a_part_of_rows() -> None:
    with pytest.raises(JobError, match=r"^backend: varlen with context_parallel"):
        attention("varlen")(boundaries(), None, range(128))


@pytest.mark.parametrize("backend", ["documents", "flex"])
def test_backends_agree_with_math_under_a_softcap(backend: Backend) -> None:
    capped = run(attention("math", softcap=2.0))
    assert (capped[0] - run(attention("math"))[0]).abs().max() > 1e-3
    for ours, reference in zip(run(attention(backend, softcap=2.0)), capped, strict=True):
        assert (ours - reference).abs().max() < 1e-12


@pytest.mark.parametrize("backend", ["sdpa", "varlen"])
def test_a_backend_that_has_no_softcap_raises(backend: Backend) -> None:
    with pytest.raises(JobError, check=fields(value=f"{backend} with softcap 30.0")):
        attention(backend, softcap=30.0)


def test_sdpa_refuses_rows_whose_mask_would_be_too_large() -> None:
    long = Boundaries.from_doc_ids(torch.zeros(1, 8320).int())
    with pytest.raises(JobError, match=r"\b8192 tokens"):
        attention("sdpa")(long)


def test_each_head_gets_the_keys_of_its_group() -> None:
    k = torch.tensor([10.0, 20.0]).view(1, 2, 1, 1)
    keys, _ = repeat_for_heads(torch.zeros(1, 4, 1, 1), k, k)
    assert keys.flatten().tolist() == [10, 10, 20, 20]


def test_a_mask_that_is_off_by_one_disagrees_with_math() -> None:
    """The agreement above would see a boundary that is moved by one token."""
    cut = boundaries()
    moved = Boundaries.from_doc_ids(torch.cat([cut.doc_ids[:, :1], cut.doc_ids[:, :-1]], dim=1))
    right = run(attention("math"))
    for backend in ("math", *OTHERS):
        wrong = run(functools.partial(moved_of, attention(backend), moved))
        assert all((a - b).abs().max() > 1e-3 for a, b in zip(wrong, right, strict=True))


def moved_of(attend_within: AttentionBackend, moved: Boundaries, _: Boundaries) -> Attend:
    return attend_within(moved)


def test_lengths_of_the_test_rows_touch_block_edges() -> None:
    edges = {edge for each in LENGTHS for edge in itertools.accumulate(each)}
    assert {1, 127, 128, 255, 256} <= edges
