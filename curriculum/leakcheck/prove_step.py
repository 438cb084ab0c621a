"""The proof of the step that trains, at a model's own sizes but for width and depth."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch

from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.job_sizes import Sizes, step_layouts
from curriculum.leakcheck.rows import Document, Rows, random_rows
from curriculum.leakcheck.step import STEPS, Setting
from curriculum.leakcheck.subject import one_thread, same_bits
from curriculum.leakcheck.two_claims import StepSubject, step_findings
from schemas.job import Backend, ModelSpec
from schemas.leak import Finding
from schemas.progress import Watch, unwatched

SCORED = 3072
"""Positions of a step that are scored at most, most of them in its first half: more than one chunk of the
loss."""
CPU = torch.device("cpu")


@one_thread()
@same_bits()
def prove_step(
    spec: ModelSpec,
    *,
    backend: Backend,
    row_length: int,
    dtype: torch.dtype = torch.float32,
    recompute: bool = False,
    structure: bool | None = None,
    device: torch.device = CPU,
    watch: Watch = unwatched,
) -> tuple[Finding, ...]:
    """Both claims about the step of a small model with these sizes, on adversarial rows.

    Vocabulary, kernel, chunk and streams are those of `spec`; width and depth are small. `structure` stands
    in for the model's own.
    """
    chosen = spec.structure if structure is None else structure
    small = small_model(spec.model_copy(update={"structure": chosen}))
    subject = step_subject(
        small,
        backend=backend,
        row_length=row_length,
        dtype=dtype,
        recompute=recompute,
        device=device,
    )
    return tuple(step_findings(subject))


def step_subject(
    small: ModelSpec,
    *,
    backend: Backend,
    row_length: int,
    dtype: torch.dtype,
    recompute: bool,
    device: torch.device,
) -> StepSubject:
    """Rows of two steps for a model, and how they are trained on."""
    layouts = step_layouts(Sizes.of(small, row_length))
    rows = random_rows(
        layouts * STEPS,
        row_length=row_length,
        vocab_size=small.vocab_size,
        structured=small.structure,
        seed=1,
    )
    setting = Setting(
        model=small,
        backend=backend,
        recompute=recompute,
        dtype=dtype,
        device=device,
        row_length=row_length,
        rows_per_step=len(layouts),
        rows_per_micro_batch=max(len(layouts) // 4, 2),
    )
    return StepSubject(
        name=f"step {small.blocks}", setting=setting, rows=thinned(rows, len(layouts))
    )


def thinned(rows: Rows, rows_per_step: int) -> Rows:
    """The rows with SCORED scored positions a step at most: the ends of each document first."""
    chance = np.random.default_rng(rows.row_length)
    steps = [rows.rows[at : at + rows_per_step] for at in range(0, len(rows.rows), rows_per_step)]
    return dataclasses.replace(
        rows, rows=tuple(row for step in steps for row in _thinned(step, chance))
    )


def _thinned(
    step: tuple[tuple[Document, ...], ...], chance: np.random.Generator
) -> Iterator[tuple[Document, ...]]:
    mask = np.concatenate([each.loss_mask for row in step for each in row])
    kept = np.concatenate([_ends(each) for row in step for each in row])
    half = sum(len(each.ids) for row in step[: (len(step) + 1) // 2] for each in row)
    left = max(SCORED - int(kept.sum()), 0)
    for part, share in ((slice(0, half), 0.8), (slice(half, None), 0.2)):
        free = np.flatnonzero((mask[part] == 1) & (kept[part] == 0)) + (part.start or 0)
        count = min(int(left * share), len(free))
        kept[chance.choice(free, count, replace=False)] = 1
    at = 0
    for row in step:
        found = []
        for each in row:
            found.append(dataclasses.replace(each, loss_mask=kept[at : at + len(each.ids)]))
            at += len(each.ids)
        yield tuple(found)


def _ends(document: Document) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Its first three scored positions and the last."""
    kept = np.zeros_like(document.loss_mask)
    scored = np.flatnonzero(document.loss_mask)
    kept[scored[:3]] = 1
    kept[scored[-1:]] = 1
    return kept
