"""Steps of training over a folder of rows: loader, model in train mode, loss, backward, clip, AdamW."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from curriculum.leakcheck.observe import Observer, Traces
from curriculum.leakcheck.rows import KEY, PLAN
from curriculum.leakcheck.rows_file import RowsFile
from curriculum.leakcheck.subject import awake
from curriculum.train.dataloader import PlannedRows, steps_of
from curriculum.train.optimizer import learning_rate, new_train_state, tensors
from curriculum.train.step import optimizer_step
from schemas.job import Backend, Job, ModelSpec, OptimizerSpec, RowsSource, TokenizerRef

STEPS = 2
ROWS = "rows"
RATE = OptimizerSpec(learning_rate=1e-3, warmup_steps=2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """Settings of steps: all of a job but its rows."""

    model: ModelSpec
    backend: Backend
    recompute: bool
    dtype: torch.dtype
    device: torch.device
    row_length: int
    rope_base: float = 500_000.0
    optimizer: OptimizerSpec = RATE
    carries_on: bool = False
    seed: int = 0

    def job(self, rows_per_step: int) -> Job:
        """A job of two steps over the rows of a folder; a step has several micro-batches."""
        rows_at_once = max(rows_per_step // 4, min(2, rows_per_step // 2))
        rows = RowsSource(key=KEY, content=KEY, path=ROWS, row_length=self.row_length)
        return Job(
            specialist="leakcheck",
            branch=None,
            phase="leakcheck",
            run_key="",
            attempt=1,
            seed=self.seed,
            model=self.model,
            backend=self.backend,
            device="cuda" if self.device.type == "cuda" else "cpu",
            tokenizer=TokenizerRef(
                key=KEY, content=KEY, path="tokenizer", vocab_size=self.model.vocab_size
            ),
            recompute=self.recompute,
            plan=f"{ROWS}/{PLAN}",
            plan_key=KEY,
            plan_content=KEY,
            rows=(rows,),
            rope_base=self.rope_base,
            micro_positions=rows_at_once * self.row_length,
            tokens_per_step=rows_per_step * self.row_length,
            steps=STEPS,
            optimizer=self.optimizer,
            start_from=None,
            evaluations=(),
            evaluate_every=STEPS,
            checkpoint_every=STEPS,
            advance_when=None,
            require=(),
            overrides={},
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSeen:
    """One step: what it left at each token, and what it changed."""

    fault: str
    """Difference of its batches from the file; "" where there is none."""
    traces: Traces | None
    """None where there is a fault."""
    loss: float
    counted_loss: float
    """Σ of the token losses ÷ the scored positions of the file."""
    norm: float
    gradients: dict[str, Tensor]
    """Gradients of the parameters, clipped."""
    after: dict[str, Tensor]
    """Weights and Adam's moments after the step."""


def run_steps(
    setting: Setting, workspace: Path, *, steps: int, scaled: Tensor | None = None
) -> list[StepSeen]:
    """Train from fresh awake weights on all of workspace/rows in so many steps; return what each left.

    Embeddings are scaled at positions of the file where `scaled` [R, T] is true.

    Raises:
        CurriculumError: what a run of such a job would end in.
    """
    file = RowsFile.read(workspace / ROWS)
    rows_per_step = len(file.ids) // steps
    job = setting.job(rows_per_step)
    torch.manual_seed(job.seed)
    train_state = new_train_state(job, setting.device)
    # Hooks on the model's own modules need them as they are; the dtype is that of the weights.
    awake(train_state.model.to(setting.dtype)).train()
    planned = PlannedRows.of(job, workspace)
    found: list[StepSeen] = []
    batches = steps_of(job, planned, first_step=0, workers=0)
    for step in range(steps):
        observer = Observer(file, scaled)
        rate = learning_rate(step, job.steps, job.optimizer, carries_on=setting.carries_on)
        with observer.watching_learner(train_state):
            gradient = optimizer_step(
                train_state, next(batches), job, step=step + 1, rate=rate, folders=planned.folders
            )
        rows = range(step * rows_per_step, (step + 1) * rows_per_step)
        after = {name: value.clone() for name, value in tensors(train_state)}
        found.append(seen(observer, rows, after, loss=gradient.loss, norm=gradient.norm))
    return found


def seen(
    observer: Observer, rows: Sequence[int], after: dict[str, Tensor], *, loss: float, norm: float
) -> StepSeen:
    """Observe the step over these rows of the file."""
    fault = observer.fault(rows)
    traces = None if fault else observer.traces(rows)
    count = int(observer.file.mask[list(rows)].sum())
    nll = float(traces.losses[..., 0].double().sum()) if traces is not None else 0.0
    return StepSeen(
        fault=fault,
        traces=traces,
        loss=loss,
        counted_loss=nll / max(count, 1),
        norm=norm,
        gradients=observer.parameter_gradients,
        after=after,
    )
