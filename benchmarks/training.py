"""Time of a training step of the model `tiny` on a CPU, by backend and row length.

    python benchmarks/training.py

A step is a forward pass, a backward pass and the optimizer's update on one row with documents of about 100
tokens. Times are CPU seconds of one thread, medians of alternating rounds.
"""

import statistics
import time

import torch

from curriculum.model.backend_choice import MAX_DENSE_ROW
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.loss import loss_sums
from curriculum.model.masks import Boundaries
from curriculum.model.presets import model_spec
from schemas.job import Backend

BACKENDS: tuple[Backend, ...] = ("documents", "sdpa", "math", "flex")
ROUNDS = 5
VOCAB = 4096


def main() -> None:
    torch.set_num_threads(1)
    for row_length in (512, 1024, 4096):
        subjects = {name: new_subject(name) for name in BACKENDS if row_length <= MAX_DENSE_ROW}
        seconds: dict[Backend, list[float]] = {name: [] for name in subjects}
        for _ in range(ROUNDS + 1):
            for name, (model, optimizer) in subjects.items():
                seconds[name].append(step(model, optimizer, row_length))
        reference = statistics.median(seconds["documents"][1:])
        for name, durations in seconds.items():
            median = statistics.median(durations[1:])
            print(
                f"T {row_length:>5}  {name:<10} {1 / median:6.1f} steps/s  "
                f"{row_length / median:9,.0f} tokens/s  {median / reference:5.2f} × documents"
            )


def new_subject(backend: Backend) -> tuple[Decoder, torch.optim.AdamW]:
    model = initialise(Decoder(model_spec("tiny", VOCAB), backend), 0)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def step(model: Decoder, optimizer: torch.optim.AdamW, row_length: int) -> float:
    generator = torch.Generator().manual_seed(row_length)
    ids = torch.randint(VOCAB, (1, row_length), generator=generator)
    doc_ids = torch.randint(row_length // 100, (1, row_length), generator=generator).sort().values
    began = time.process_time()
    boundaries = Boundaries.from_doc_ids(doc_ids)
    sums = loss_sums(model.hidden(ids, boundaries), model.head.weight, ids, torch.ones_like(ids))
    (sums.total / row_length).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad()
    return time.process_time() - began


if __name__ == "__main__":
    main()
