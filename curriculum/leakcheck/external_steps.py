"""Steps of training of anyone's model: from rows to AdamW, with the loss and the clip that are usual."""

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from curriculum.leakcheck.job_sizes import Sizes, muted_layouts, step_layouts
from curriculum.leakcheck.rows import random_rows
from curriculum.leakcheck.rows_file import RowsFile
from curriculum.leakcheck.step import (
    FEW_SCORED,
    ROWS,
    SCORED,
    STEPS,
    Observer,
    Setting,
    StepSeen,
    seen,
    thinned,
)
from curriculum.leakcheck.step_claims import StepSubject
from curriculum.leakcheck.subject import Subject, awake
from curriculum.model.presets import model_spec
from curriculum.train.batch import Batch
from curriculum.train.dataloader import PlannedRows, steps_of

CLIP, RATE = 1.0, 1e-3


def external_steps(subject: Subject) -> StepSubject:
    """Rows for both claims, and steps of a copy of the model in train mode, dropout seeded alike.

    What it returns is taken for logits where it is as wide as its vocabulary, else for states that its
    embedding turns into logits.
    """
    spec = model_spec("tiny", subject.vocab_size)
    sizes = Sizes.of(spec, subject.row_length)
    rows, muted = (
        random_rows(
            layouts,
            row_length=subject.row_length,
            vocab_size=subject.vocab_size,
            structured=False,
            seed=1,
        )
        for layouts in (step_layouts(sizes), muted_layouts(sizes) * STEPS)
    )
    setting = Setting(
        model=spec,
        backend="documents",
        recompute=False,
        dtype=subject.dtype,
        device=subject.device,
        row_length=subject.row_length,
    )

    def run(workspace: Path, steps: int, scaled: Tensor | None) -> list[StepSeen]:
        return _run(subject, setting, workspace, steps, scaled)

    return StepSubject(
        name=f"step {subject.name}",
        backend=subject.backend,
        dtype=subject.dtype,
        device=subject.device,
        mode="train",
        rows=thinned(rows, len(rows.rows), SCORED),
        muted_rows=thinned(muted, len(muted.rows) // STEPS, FEW_SCORED),
        run=run,
    )


def _run(
    subject: Subject, setting: Setting, workspace: Path, steps: int, scaled: Tensor | None
) -> list[StepSeen]:
    place = [*subject.model.modules()].index(subject.embedding)
    model = awake(copy.deepcopy(subject.model)).train()
    embedding = [*model.modules()][place]
    assert isinstance(embedding, nn.Embedding), "a copy has the modules of its original"
    weights = [*model.named_parameters()]
    optimizer = torch.optim.AdamW([weight for _, weight in weights], lr=RATE)
    file = RowsFile.read(workspace / ROWS)
    rows_per_step = len(file.ids) // steps
    job = setting.job(rows_per_step)
    torch.manual_seed(job.seed)
    batches = steps_of(job, PlannedRows.of(job, workspace), first_step=0, workers=0)
    found: list[StepSeen] = []
    for step in range(steps):
        observer = Observer(file, scaled)
        with observer.watching(embedding, optimizer, weights):
            loss = _gradients(subject, model, embedding, next(batches), observer)
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), CLIP))
            optimizer.step()
            optimizer.zero_grad()
        after = {name: weight.detach().clone() for name, weight in weights}
        for name, weight in weights:
            for moment, value in optimizer.state.get(weight, {}).items():
                after[f"{name}.{moment}"] = value.clone()
        rows = range(step * rows_per_step, (step + 1) * rows_per_step)
        found.append(seen(observer, rows, after, loss=loss, norm=norm))
    return found


def _gradients(
    subject: Subject,
    model: nn.Module,
    embedding: nn.Embedding,
    batches: Sequence[Batch],
    observer: Observer,
) -> float:
    """Accumulate the gradient of the mean cross-entropy over a step's scored targets; return the loss."""
    count = max(sum(int(batch.loss_mask.sum()) for batch in batches), 1)
    total = 0.0
    for batch in (each.to(subject.device) for each in batches):
        output_BTC = subject.feed(model, batch.input_ids, batch.boundaries)
        observer.note_hidden(output_BTC)
        x_NC = output_BTC[batch.loss_mask.bool()]
        if x_NC.shape[-1] < embedding.num_embeddings:
            x_NC = F.linear(x_NC, embedding.weight)
        nll_N = F.cross_entropy(
            x_NC.float(), batch.target_ids[batch.loss_mask.bool()].long(), reduction="none"
        )
        observer.note_losses(nll_N, torch.zeros_like(nll_N))
        loss = nll_N.sum()
        (loss / count).backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    return total / count
