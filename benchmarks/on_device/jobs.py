"""Jobs over made rows, and optimizer steps as the trainer takes them."""

from collections.abc import Sequence

from benchmarks import loading
from benchmarks.on_device.setting import Setting
from curriculum.model.decoder import DEFAULT_ROPE_BASE
from curriculum.train.batch import Batch
from curriculum.train.optimizer import TrainState
from curriculum.train.step import gradients
from schemas.job import Backend, Job, ModelSpec, OptimizerSpec, RowsSource, TokenizerRef

ROWS = "rows"
"""Folder of the rows artefact and its plan in a workspace."""


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
    """A job whose steps are one micro-batch each of rows of one length."""
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
    """Take one optimizer step and return its loss."""
    gradient = gradients(train_state, batches, job, step=number)
    train_state.optimizer.step()
    train_state.optimizer.zero_grad()
    return gradient.loss
