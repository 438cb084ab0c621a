"""Time of the loss over the vocabulary and its gradients, compared with other implementations.

    python benchmarks/loss.py

The peers are plain torch, transformers, and the Triton kernels of Liger and Apple. The script measures the
forward and backward pass from the stream to the loss, as the median of alternating rounds: in seconds on a
GPU, else in CPU seconds of one thread. The Triton kernels need a GPU and their packages; without them, the
script skips them and says so. The last column is our time divided by the time of the implementation.
"""

import importlib
import importlib.util
import statistics
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from curriculum.model.loss import loss_sums
from curriculum.train.masking_cost import now

WIDTH, POSITIONS, ROUNDS = 256, 2048, 5
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
FUSED = {"liger_kernel": "Liger", "cut_cross_entropy": "Apple"}


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    losses: dict[str, Loss] = {"ours": _ours, "plain torch": _plain}
    if importlib.util.find_spec("transformers"):
        losses["transformers"] = _transformers
    for package, name in FUSED.items():
        if device.type == "cuda" and importlib.util.find_spec(package):
            losses[name] = _liger if package == "liger_kernel" else _apple
        else:
            print(f"{name} skipped: {package} isn't installed, or there is no GPU")
    for vocab in (4096, 32_768):
        seconds: dict[str, list[float]] = {name: [] for name in losses}
        for _ in range(ROUNDS + 1):
            for name, loss in losses.items():
                seconds[name].append(_seconds(loss, vocab, device))
        ours = statistics.median(seconds["ours"][1:])
        for name, durations in seconds.items():
            median = statistics.median(durations[1:])
            print(f"{vocab:>6} ids  {name:<13} {median:7.3f} s  ours ÷ {name} {ours / median:5.2f}")


def _seconds(loss: Loss, vocab: int, device: torch.device) -> float:
    generator = torch.Generator().manual_seed(vocab)
    x = torch.randn(1, POSITIONS, WIDTH, generator=generator).to(device).requires_grad_()
    head = (0.02 * torch.randn(vocab, WIDTH, generator=generator)).to(device).requires_grad_()
    targets = torch.randint(vocab, (1, POSITIONS), generator=generator).to(device)
    began = now(device)
    loss(x, head, targets).backward()  # type: ignore[no-untyped-call]
    return now(device) - began


def _ours(x: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    return loss_sums(x, head, targets, torch.ones_like(targets)).total


def _plain(x: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x, head).flatten(0, 1), targets.flatten(), reduction="sum")


def _transformers(x: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    utilities = importlib.import_module("transformers.loss.loss_utils")
    labels = F.pad(targets, (1, 0))
    total: Tensor = utilities.ForCausalLMLoss(
        F.linear(x, head), labels[:, :-1], len(head), num_items_in_batch=1, shift_labels=targets
    )
    return total


def _liger(x: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    kernels = importlib.import_module("liger_kernel.transformers")
    fused = kernels.LigerFusedLinearCrossEntropyLoss(reduction="sum")
    total: Tensor = fused(head, x.flatten(0, 1), targets.flatten())
    return total


def _apple(x: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    kernels = importlib.import_module("cut_cross_entropy")
    total: Tensor = kernels.linear_cross_entropy(
        x.bfloat16(), head.bfloat16(), targets, reduction="sum"
    )
    return total


if __name__ == "__main__":
    main()
