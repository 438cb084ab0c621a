"""Training jobs over generated rows, and the optimizer steps of the trainer."""

from collections.abc import Sequence

from benchmarks import loading
from benchmarks.on_device.setting import Setting
from curriculum.model.decoder import DEFAULT_ROPE_BASE
from curriculum.train.batch import Batch
from curriculum.train.optimizer import TrainState
from curriculum.train.step import gradients
from schemas.job import Backend, Job, ModelSpec, OptimizerSpec, RowsSource, TokenizerRef

ROWS = "rows"
"""Folder of a workspace that contains the rows and their plan."""


def job_of(
    setting: Setting,
    model: ModelSpec,
    length: int,
    *,
    backend: Backend | None = None,
    recompute: bool = False,
    workers: int = 0,
    steps: int = 1,
) -> Job:
    """Return a job with rows of one length and one micro-batch per step."""
    positions = setting.rows(length) * length
    return Job(
        specialist="benchmark",
        branch=None,
        phase="benchmark",
        run_key="",
        attempt=1,
        seed=0,
        model=model,
        backend=backend or setting.backend,
        device="cuda" if setting.on_gpu else "cpu",
        tokenizer=TokenizerRef(key="", content="", path="none", vocab_size=setting.vocab),
        threads=setting.threads,
        workers=workers,
        recompute=recompute,
        plan=f"{ROWS}/plan.parquet",
        plan_key="",
        plan_content="",
        rows=(RowsSource(key=loading.KEY, content="", path=ROWS, row_length=length),),
        rope_base=DEFAULT_ROPE_BASE,
        micro_positions=positions,
        tokens_per_step=positions,
        steps=steps,
        optimizer=OptimizerSpec(learning_rate=1e-3, warmup_steps=1),
        start_from=None,
        evaluations=(),
        evaluate_every=steps,
        checkpoint_every=steps,
        advance_when=None,
        require=(),
        overrides={},
    )


def step(train_state: TrainState, batches: Sequence[Batch], job: Job, number: int) -> float:
    """Run one optimizer step and return its loss."""
    gradient = gradients(train_state, batches, job, step=number)
    train_state.optimizer.step()
    train_state.optimizer.zero_grad()
    return gradient.loss
