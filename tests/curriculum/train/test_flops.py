import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from curriculum.model.decoder import Decoder, initialise
from curriculum.model.loss import loss_sums
from curriculum.model.masks import Boundaries
from curriculum.train.metrics import (
    StepWork,
    forward_flops,
    mfu,
    peak_flops,
    peak_of,
    step_flops,
)
from schemas.job import Backend, ModelSpec

LENGTHS = (8, 40, 16)
CHUNK = 8
T = sum(LENGTHS)


def spec(blocks: str, **changes: object) -> ModelSpec:
    mamba = {"state": 16, "head_width": 16, "chunk": CHUNK}
    sizes = {
        "mamba": mamba,
        "width": 32,
        "heads": 4,
        "kv_heads": 2,
        "mlp_width": 48,
        "vocab_size": 64,
    }
    return ModelSpec.model_validate({"name": "small", "blocks": blocks, **sizes, **changes})


def counted(model: ModelSpec, backend: Backend, scored: int) -> tuple[int, int]:
    """Return torch's counts for forward, and for forward and backward, of a row of three documents.

    The head's gradient is taken with its loss, so forward alone is counted without one.
    """
    decoder = initialise(Decoder(model, backend), 0)
    ids = torch.arange(T)[None] % model.vocab_size
    doc_ids = torch.repeat_interleave(torch.arange(3), torch.tensor(LENGTHS))[None]
    mask = (torch.arange(T) < scored).int()[None]

    def loss() -> Tensor:
        hidden = decoder.hidden(ids, Boundaries.from_doc_ids(doc_ids))
        return loss_sums(hidden, decoder.head.weight, ids, mask).total

    with FlopCounterMode(display=False) as forward, torch.no_grad():
        loss()
    with FlopCounterMode(display=False) as both:
        loss().backward()  # type: ignore[no-untyped-call]
    return forward.get_total_flops(), both.get_total_flops()


@pytest.mark.parametrize(
    ("blocks", "streams"), [("A", 1), ("F", 1), ("C", 1), ("E", 1), ("AFAF", 1), ("ECAF", 3)]
)
def test_a_dense_mask_costs_what_torch_counts_once_its_pairs_are_all_of_the_square(
    blocks: str, streams: int
) -> None:
    model = spec(blocks, streams=streams)
    work = StepWork(tokens=T, attention_pairs=T * T, scored=50)
    assert (forward_flops(model, work), step_flops(model, work)) == counted(model, "math", 50)


@pytest.mark.parametrize("layers", [1, 3])
def test_chunks_cost_what_torch_counts_but_for_their_later_halves(layers: int) -> None:
    """Torch counts all pairs of a chunk; ours are those that don't look ahead, as in attention."""
    model = spec("M" * layers)
    work = StepWork(tokens=T, attention_pairs=0, scored=T)
    assert all(length % CHUNK == 0 for length in LENGTHS)
    ahead = T * (CHUNK - 1) * (model.mamba.state + model.mamba.expand * model.width)
    forward, whole = counted(model, "math", T)
    assert forward - forward_flops(model, work) == layers * ahead
    assert whole - step_flops(model, work) == 3 * layers * ahead
    assert ahead * layers < forward / 20


def test_documents_one_by_one_cost_what_torch_counts_once_their_pairs_are_squares() -> None:
    work = StepWork(tokens=T, attention_pairs=sum(n * n for n in LENGTHS), scored=T)
    # The counter knows no products inside a CPU's fused kernel.
    with sdpa_kernel(SDPBackend.MATH):
        forward, _ = counted(spec("AFA"), "documents", T)
    assert forward_flops(spec("AFA"), work) == forward


def test_pairs_within_documents_are_fewer_than_the_square_by_what_nobody_may_see() -> None:
    model = spec("A")
    pairs = sum(n * (n + 1) // 2 for n in LENGTHS)
    masked = forward_flops(model, StepWork(tokens=T, attention_pairs=pairs, scored=T))
    forward, _ = counted(model, "math", T)
    assert forward - masked == 4 * model.width * (T * T - pairs)
    assert 0 < masked < forward


def test_rows_twice_as_full_of_documents_are_twice_the_work() -> None:
    work = StepWork(tokens=100, attention_pairs=700, scored=90)
    twice = StepWork(tokens=200, attention_pairs=1400, scored=180)
    assert step_flops(spec("AF"), twice) == 2 * step_flops(spec("AF"), work) > 0


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA B200", 2250e12),
        ("NVIDIA H200 MIG 1g.18gb", None),
        ("NVIDIA H20", None),
        ("NVIDIA L40", None),
        ("Quadro P400", None),
    ],
)
def test_a_peak_is_known_by_the_whole_name_or_not_at_all(name: str, peak: float | None) -> None:
    assert peak_flops(name) == peak


def test_a_device_without_a_known_peak_has_no_share_of_it() -> None:
    assert peak_of(torch.device("cpu")) is None
    assert mfu(10**12, 1.0, None) is None
    assert mfu(989 * 10**12, 2.0, 989e12) == 0.5
    assert mfu(989 * 10**12, 2.0, 989e12, devices=2) == 0.25
