"""Decoders of Engram, convolution and several streams: nothing leaks, leaks show, and they learn."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.leakcheck import check_decoder
from curriculum.model import conv, engram, hyper_connections
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.loss import loss_sums
from curriculum.model.masks import Boundaries
from curriculum.model.n_gram_tables import BLANK
from curriculum.model.presets import model_spec
from schemas.job import EngramSpec, ModelSpec

SLOW = [pytest.param(dtype, marks=pytest.mark.slow) for dtype in (torch.float64, torch.bfloat16)]
GATHER = hyper_connections.token_features


def spec(blocks: str, streams: int) -> ModelSpec:
    small = {"width": 32, "mlp_width": 48, "heads": 2, "kv_heads": 1}
    memory = {"engram": EngramSpec(heads=2, slots=200, slot_width=8)}
    changes = {"blocks": blocks, "streams": streams, **small, **memory}
    return model_spec("tiny", 97).model_copy(update=changes)


@pytest.mark.parametrize("dtype", [torch.float32, *SLOW], ids=str)
@pytest.mark.parametrize("streams", [1, 4])
def test_nothing_crosses_a_boundary(streams: int, dtype: torch.dtype) -> None:
    report = check_decoder(spec("EFCFAF", streams), "documents", dtypes=(dtype,))
    assert report.passed, report.table()


def everywhere(positions: Tensor, k: int) -> Tensor:
    return torch.ones_like(positions, dtype=torch.bool)


def across(ids_BT: Tensor, positions_BT: Tensor, k: int) -> Tensor:
    return F.pad(ids_BT, (k, 0), value=BLANK)[:, : ids_BT.shape[1]]


def pooled(x_BTND: Tensor) -> Tensor:
    return GATHER(x_BTND).mean(1, keepdim=True).expand(-1, x_BTND.shape[1], -1)


@pytest.mark.parametrize(
    ("blocks", "module", "name", "leak"),
    [
        ("CA", conv, "reaches_back", everywhere),
        ("EA", engram, "ids_before", across),
        ("AF", hyper_connections, "token_features", pooled),
    ],
)
def test_each_way_to_leak_is_found(
    blocks: str,
    module: object,
    name: str,
    leak: Callable[..., Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, name, leak)
    report = check_decoder(spec(blocks, 2), "documents")
    assert any("see" in each.claim for each in report.failures), report.table()


@pytest.mark.parametrize(("blocks", "streams"), [("CF", 1), ("EF", 1), ("AF", 4), ("ECF", 2)])
def test_it_learns(blocks: str, streams: int) -> None:
    model = initialise(Decoder(spec(blocks, streams), "documents"), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    ids = torch.randint(97, (2, 32), generator=torch.Generator().manual_seed(0))
    boundaries = Boundaries.from_doc_ids(torch.tensor([[0] * 20 + [1] * 12, [0] * 32]))
    losses = []
    for _ in range(25):
        hidden = model.hidden(ids, boundaries)
        sums = loss_sums(hidden, model.head.weight, ids.roll(-1, 1), torch.ones_like(ids))
        torch.autograd.backward(sums.total / ids.numel())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sums.nll.item() / ids.numel())
    assert losses[-1] < 0.5 * losses[0]
