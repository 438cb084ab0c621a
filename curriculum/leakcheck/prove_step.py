"""The proof of the step that trains, at a model's or a job's own sizes but for width and depth."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.job_sizes import Layout, Sizes, muted_layouts, step_layouts
from curriculum.leakcheck.rows import Rows, random_rows
from curriculum.leakcheck.step import (
    FEW_SCORED,
    SCORED,
    STEPS,
    Setting,
    StepSeen,
    run_steps,
    thinned,
)
from curriculum.leakcheck.step_claims import StepSubject, step_findings
from curriculum.leakcheck.subject import one_thread
from schemas.job import Backend, ModelSpec
from schemas.leak import Finding
from schemas.progress import ProgressCallback, ignore_progress

CPU = torch.device("cpu")


@one_thread()
def prove_step(
    spec: ModelSpec,
    *,
    backend: Backend,
    row_length: int,
    dtype: torch.dtype = torch.float32,
    recompute: bool = False,
    structure: bool | None = None,
    device: torch.device = CPU,
    watch: ProgressCallback = ignore_progress,
) -> tuple[Finding, ...]:
    """Both claims about the step of a small model with these sizes, on adversarial rows.

    Vocabulary, kernel, chunk and streams are those of `spec`; width and depth are small. `structure` stands
    in for the model's own.
    """
    chosen = spec.structure if structure is None else structure
    small = small_model(spec.model_copy(update={"structure": chosen}))
    setting = Setting(
        model=small,
        backend=backend,
        recompute=recompute,
        dtype=dtype,
        device=device,
        row_length=row_length,
    )
    sizes = Sizes.of(small, row_length)
    subject = subject_of_step(
        setting,
        drawn_rows(small, row_length, step_layouts(sizes)),
        drawn_rows(small, row_length, muted_layouts(sizes) * STEPS),
    )
    return step_findings(subject, watch)


def drawn_rows(spec: ModelSpec, row_length: int, layouts: Sequence[Layout]) -> Rows:
    """Rows of these layouts for a model, with ids over its whole vocabulary."""
    return random_rows(
        layouts,
        row_length=row_length,
        vocab_size=spec.vocab_size,
        structured=spec.structure,
        seed=1,
    )


def subject_of_step(setting: Setting, rows: Rows, muted_rows: Rows) -> StepSubject:
    """Rows of one step and of two, thinned, and our trainer's steps over them."""

    def run(workspace: Path, steps: int, scaled: Tensor | None) -> list[StepSeen]:
        return run_steps(setting, workspace, steps=steps, scaled=scaled)

    return StepSubject(
        name=f"step {setting.model.blocks}",
        backend=setting.backend if "A" in setting.model.blocks else "",
        dtype=setting.dtype,
        device=setting.device,
        mode="train, recompute" if setting.recompute else "train",
        rows=thinned(rows, len(rows.rows), SCORED),
        muted_rows=thinned(muted_rows, len(muted_rows.rows) // STEPS, FEW_SCORED),
        run=run,
    )
