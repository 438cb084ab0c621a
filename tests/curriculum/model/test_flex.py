"""How the adapter compiles; that it agrees with the reference stands in test_backends and test_relations."""

import os
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

from curriculum.model import flex_backend
from curriculum.model.backends import attention
from curriculum.model.masks import Boundaries
from curriculum.model.structure import Structure


def graphs() -> int:
    """Graphs that were compiled so far."""
    return int(counters["stats"]["unique_graphs"])


def attend(
    lengths: list[int], *, seed: int, chunks: int = 60, softcap: float | None = None
) -> None:
    generator = torch.Generator().manual_seed(seed)
    cut = Boundaries.of(torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None])
    T = sum(lengths)
    room = 64 if chunks < 64 else 128
    structure = Structure(
        tokens=torch.zeros(1, T, 5).byte(),
        chunks=torch.randint(chunks, (1, T), generator=generator).int(),
        relations=torch.randint(9, (1, room, room), generator=generator).byte(),
    )
    q, k, v = (torch.randn(1, 2, T, 8, generator=generator, requires_grad=True) for _ in range(3))
    table = torch.randn(2, 9, generator=generator, requires_grad=True)
    out = attention("flex", softcap=softcap, relations=True)(cut, structure)(q, k, v, table)
    (gradient,) = torch.autograd.grad(out.square().sum(), table)
    assert gradient.abs().max() > 0


def test_batches_of_one_shape_share_a_graph_whatever_their_documents_and_structure() -> None:
    attend([100, 156], seed=0)
    before = graphs()
    attend([1, 255], seed=1)
    attend([256], seed=2, chunks=9)
    assert graphs() == before
    attend([256], seed=2, chunks=100)
    assert graphs() == before + 1


def test_a_run_fails_rather_than_fall_back_to_the_uncompiled_form() -> None:
    attend([256], seed=2)
    assert torch._dynamo.config.fail_on_recompile_limit_hit
    assert torch._dynamo.config.recompile_limit == 64


def test_kernels_are_kept_in_a_folder_that_no_other_user_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    flex_backend._traced.__wrapped__()
    assert tmp_path in Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]).parents
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/elsewhere")
    flex_backend._traced.__wrapped__()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "/elsewhere", "the user's own"
