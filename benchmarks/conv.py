"""Cost of the exact document mask of the convolution.

    python benchmarks/conv.py

The script measures forward and backward passes over a row of documents, and training steps of a small model
in which every second layer is a convolution. Times are CPU time of one thread, medians of alternating
rounds. `masked` is curriculum's convolution, and `unmasked` is the same convolution over a row that is one
document. `shift` masks every tap with torch.where, without a backward pass of its own. `conv1d` is the
convolution of torch, without a mask.
"""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model import conv
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.loss import loss_sums
from curriculum.model.masks import Boundaries
from curriculum.model.presets import model_spec

ROUNDS = 21
KERNEL = 4
VOCAB = 4096
Convolution = Callable[[Tensor, Tensor, Boundaries], Tensor]
MASKED_CONV: Convolution = conv.masked_conv
"""curriculum's convolution, also while `step` replaces it in the model."""


def main() -> None:
    torch.set_num_threads(1)
    for channels, mean in ((256, 100), (256, 1000), (1024, 1000)):
        forms: dict[str, Convolution] = {
            "masked": conv.masked_conv,
            "unmasked": unmasked,
            "shift": shifted,
            "conv1d": conv1d,
        }
        seconds = medians(
            {name: functools.partial(passes, form, channels, mean) for name, form in forms.items()}
        )
        for name, duration in seconds.items():
            print(
                f"4096 × {channels:<5} documents of {mean:<5} {name:<9} {duration * 1e3:7.2f} ms  "
                f"{duration / seconds['unmasked']:5.2f} × unmasked"
            )
    for mean in (100, 1000):
        step_share(mean)


def step_share(mean: int) -> None:
    """Print the time of a training step, and the share of it that the mask costs."""
    spec = model_spec("tiny", VOCAB).model_copy(update={"blocks": "CFAFCFCF"})
    model = initialise(Decoder(spec, "documents"), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seconds = rounds(
        {
            "masked": functools.partial(step, model, optimizer, conv.masked_conv, mean),
            "unmasked": functools.partial(step, model, optimizer, unmasked, mean),
        }
    )
    pairs = zip(seconds["masked"], seconds["unmasked"], strict=True)
    cost = statistics.median(masked / unmasked - 1 for masked, unmasked in pairs)
    print(
        f"step of CFAFCFCF, T 4096, documents of {mean:<5} "
        f"{statistics.median(seconds['masked']):.3f} s, cost of the mask {cost:+.1%}"
    )


def medians(subjects: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    return {name: statistics.median(durations) for name, durations in rounds(subjects).items()}


def rounds(subjects: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Return the seconds of every subject by round; subjects alternate, and a warm-up round is dropped."""
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS + 1):
        for name, subject in subjects.items():
            seconds[name].append(subject())
    return {name: durations[1:] for name, durations in seconds.items()}


@functools.cache
def documents(mean: int) -> Tensor:
    generator = torch.Generator().manual_seed(mean)
    return torch.randint(4096 // mean, (1, 4096), generator=generator).sort().values


def passes(form: Convolution, channels: int, mean: int) -> float:
    x = torch.randn(1, 4096, channels, requires_grad=True)
    weight = torch.randn(channels, KERNEL, requires_grad=True)
    g, boundaries = torch.randn(1, 4096, channels), Boundaries.from_doc_ids(documents(mean))
    began = time.process_time()
    torch.autograd.grad(form(x, weight, boundaries), (x, weight), g)
    return time.process_time() - began


def step(model: Decoder, optimizer: torch.optim.AdamW, form: Convolution, mean: int) -> float:
    ids = torch.randint(VOCAB, (1, 4096), generator=torch.Generator().manual_seed(1))
    boundaries = Boundaries.from_doc_ids(documents(mean))
    began = time.process_time()
    with mock.patch.object(conv, "masked_conv", form):
        hidden_BTD = model.hidden(ids, boundaries)
    sums = loss_sums(hidden_BTD, model.head.weight, ids, torch.ones_like(ids))
    (sums.total / 4096).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()
    return time.process_time() - began


def unmasked(x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries) -> Tensor:
    """Compute the convolution over a row that is one document."""
    return MASKED_CONV(x_BTC, weight_CK, no_boundaries(x_BTC.shape[1]))


@functools.cache
def no_boundaries(row_length: int) -> Boundaries:
    return Boundaries.from_doc_ids(torch.zeros(1, row_length, dtype=torch.int32))


def shifted(x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries) -> Tensor:
    y_BTC = x_BTC * weight_CK[:, 0]
    for k in range(1, weight_CK.shape[1]):
        stays_BT1 = (boundaries.position_ids[:, k:] >= k)[..., None]
        tap_BTC = torch.where(stays_BT1, x_BTC[:, :-k], 0) * weight_CK[:, k]
        y_BTC = y_BTC + F.pad(tap_BTC, (0, 0, k, 0))
    return y_BTC


def conv1d(x_BTC: Tensor, weight_CK: Tensor, boundaries: Boundaries) -> Tensor:
    weight_C1K = weight_CK.flip(1)[:, None]
    padded_BCT = F.pad(x_BTC.transpose(1, 2), (weight_CK.shape[1] - 1, 0))
    return F.conv1d(padded_BCT, weight_C1K, groups=len(weight_CK)).transpose(1, 2)


if __name__ == "__main__":
    main()
