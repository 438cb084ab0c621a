"""The proof of the step that trains, at a model's or a job's own sizes but for width and depth."""

from pathlib import Path

import torch
from torch import Tensor

from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.job_sizes import Sizes, step_layouts
from curriculum.leakcheck.rows import Rows, random_rows
from curriculum.leakcheck.step import STEPS, Setting, StepSeen, run_steps
from curriculum.leakcheck.subject import one_thread, same_bits
from curriculum.leakcheck.thin import SCORED, thinned
from curriculum.leakcheck.two_claims import StepSubject, step_findings
from schemas.job import Backend, ModelSpec
from schemas.leak import Finding
from schemas.progress import Watch, unwatched

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
    rows = adversarial_rows(small, row_length)
    setting = Setting(
        model=small,
        backend=backend,
        recompute=recompute,
        dtype=dtype,
        device=device,
        row_length=row_length,
        rows_per_step=len(rows.rows) // STEPS,
    )
    return tuple(step_findings(subject_of_step(setting, rows), watch))


def adversarial_rows(spec: ModelSpec, row_length: int) -> Rows:
    """Rows of two steps with the layouts at which the layers of a model change what they do."""
    return random_rows(
        step_layouts(Sizes.of(spec, row_length)) * STEPS,
        row_length=row_length,
        vocab_size=spec.vocab_size,
        structured=spec.structure,
        seed=1,
    )


def subject_of_step(setting: Setting, rows: Rows) -> StepSubject:
    """These rows and our trainer's steps over them."""

    def run(workspace: Path, steps: int, scaled: Tensor | None) -> list[StepSeen]:
        return run_steps(setting, workspace, steps=steps, scaled=scaled)

    return StepSubject(
        name=f"step {setting.model.blocks}",
        backend=setting.backend if "A" in setting.model.blocks else "",
        dtype=setting.dtype,
        device=setting.device,
        mode="train, recompute" if setting.recompute else "train",
        rows=thinned(rows, setting.rows_per_step, SCORED),
        rows_per_step=setting.rows_per_step,
        run=run,
    )
