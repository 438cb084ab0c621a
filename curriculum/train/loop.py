"""The training loop: evaluate, ask the gate, step, checkpoint; all of it resumable at any step."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from curriculum.train import checkpoint, restore
from curriculum.train.checkpoint import TrainerState
from curriculum.train.counts import StepCounts, counts_of_step
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.evaluate import Cancelled, Evaluator, read_token_bytes
from curriculum.train.flops import masked_mfu, peak_of, step_flops
from curriculum.train.gate import gate_bits, opens
from curriculum.train.heartbeat import Heart
from curriculum.train.learner import new_learner
from curriculum.train.loader import Batch, PlannedRows, steps_of
from curriculum.train.memory import enough_memory
from curriculum.train.metrics import Learnt, Metrics, StepMetrics, say
from curriculum.train.saver import Saver
from curriculum.train.schedule import learning_rate
from curriculum.train.steps import cut_for, optimizer_step
from curriculum.train.writers import open_writers
from schemas.job import Job, Stopped


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How a run ended, and where its last checkpoint lies."""

    stopped: Stopped
    reason: str
    state: TrainerState
    checkpoint: Path | None


def train_loop(
    job: Job,
    workspace: Path,
    directory: Path,
    device: torch.device,
    stop: Callable[[], bool],
    ranks: Ranks = ALONE,
) -> Outcome:
    """Train a job in its run directory from its newest whole checkpoint, or from the start.

    Every rank comes here; rank 0 alone writes, but for its part of a checkpoint.

    Raises:
        NotFiniteError: for a loss or gradient that isn't finite, naming step and rows.
        JobMemoryError, JobError: for a full memory, or disk.
    """
    loop = _Loop(job, workspace, directory, device, stop, ranks)
    try:
        return loop.run()
    finally:
        loop.saver.close()


class _Loop:
    def __init__(
        self,
        job: Job,
        workspace: Path,
        directory: Path,
        device: torch.device,
        stop: Callable[[], bool],
        ranks: Ranks,
    ) -> None:
        self.job, self.device, self.ranks = job, device, ranks
        # A signal reaches ranks at different times; they must stop at the same step.
        self.stop: Callable[[], bool] = lambda: ranks.any(stop())
        torch.manual_seed(job.seed)
        self.learner = new_learner(job, device, ranks)
        checkpoints = directory / "checkpoints"
        last = ranks.from_first(lambda: checkpoint.newest(checkpoints))
        self.saver = Saver(checkpoints, self.learner, last)
        self.state = self._open(workspace)
        self.metrics = self._metrics(directory) if ranks.leads else None
        self.heart = Heart(job, directory)
        self.token_bytes = read_token_bytes(workspace / job.tokenizer.path)
        self.evaluator = Evaluator(
            learner=self.learner,
            job=job,
            workspace=workspace,
            token_bytes=self.token_bytes,
            stop=self.stop,
        )
        self.rows = PlannedRows.of(job, workspace)

    def run(self) -> Outcome:
        """Step after step, until the budget, the gate or a stop."""
        try:
            return self._run()
        except Cancelled:
            if self.state.step:
                self._save()
            return Outcome(
                stopped="cancelled",
                reason=f"stopped at step {self.state.step} of {self.job.steps}",
                state=self.state,
                checkpoint=self.saver.wait(),
            )
        finally:
            if self.metrics is not None:
                self.metrics.close()

    def _metrics(self, directory: Path) -> Metrics:
        return Metrics(
            directory / "metrics",
            resumed_at=self.state.step,
            writers=open_writers(self.job, directory),
            figures=self.state.figures,
        )

    def _run(self) -> Outcome:
        job = cut_for(self.job, self.ranks)
        steps = steps_of(
            job,
            self.rows,
            first_step=self.state.step,
            workers=job.workers,
            rank=self.ranks.rank,
            ranks=self.ranks.size,
        )
        while True:
            reason = self._evaluate_if_due()
            if reason is not None or self.state.step == self.job.steps:
                self._save(portable=True)
                return Outcome(
                    stopped="gate" if reason is not None else "budget",
                    reason=reason or f"{self.job.steps} steps",
                    state=self.state,
                    checkpoint=self.saver.wait(),
                )
            began = time.perf_counter()
            self._step(next(steps), began)
            if self.stop():
                raise Cancelled
            if self.state.step % self.job.checkpoint_every == 0:
                self._save()

    def _open(self, workspace: Path) -> TrainerState:
        if self.saver.last is not None:
            state = restore.resume(self.saver.last, self.learner)
            say(f"going on at step {state.step} of {self.job.steps}")
            return state
        if self.job.start_from is not None:
            restore.carry_over(workspace / self.job.start_from.path, self.learner)
        return TrainerState()

    def _evaluate_if_due(self) -> str | None:
        """Evaluate at the start, every so many steps and at the end; why the gate opens, if it does."""
        step, known = self.state.step, {figure.step for figure in self.state.figures}
        due = step % self.job.evaluate_every == 0 or step == self.job.steps
        if due and step not in known:
            figures = self.evaluator.figures(step)
            self.state = self.state.model_copy(update={"figures": self.state.figures + figures})
            if self.metrics is not None:
                self.metrics.evaluated(figures)
            for figure in figures:
                if figure.family == "*":
                    say(f"step {step}  {figure.kind} {figure.phase}  val_bpb {figure.val_bpb:.4f}")
        if not due or step in (0, self.job.steps):
            return None
        return opens(
            self.job.advance_when,
            valid_tokens=self.state.tokens.valid,
            bits=gate_bits(self.state.figures, self.job.phase),
        )

    def _step(self, batches: list[Batch], began: float) -> None:
        step = self.state.step
        rate = learning_rate(
            step, self.job.steps, self.job.optimizer, carries_on=self.job.start_from is not None
        )
        with enough_memory(self.job, f"step {step + 1}"):
            gradient = optimizer_step(
                self.learner,
                batches,
                self.job,
                step=step + 1,
                rate=rate,
                folders=self.rows.folders,
            )
        counts = counts_of_step(batches, self.token_bytes)
        counts = StepCounts.from_numbers(self.ranks.total(counts.numbers()))
        self.state = self.state.advanced(self.job, counts.tokens)
        seconds = time.perf_counter() - began
        if self.metrics is None:
            return
        row = StepMetrics.of(
            counts,
            step=self.state.step,
            position=self.state.tokens.positions,
            learnt=Learnt(
                loss=gradient.loss,
                z_loss=gradient.z_loss,
                gradient_norm=gradient.norm,
                learning_rate=rate,
            ),
            seconds=seconds,
            device=self.device,
            masked_mfu=masked_mfu(
                step_flops(self.job.model, counts.work),
                seconds,
                peak_of(self.device),
                devices=self.ranks.size,
            ),
        )
        self.metrics.record(row, steps=self.job.steps)
        self.heart.step(self.state, positions=counts.positions, seconds=seconds)

    def _save(self, *, portable: bool = False) -> None:
        if self.metrics is not None:
            self.metrics.flush()
        self.saver.save(self.state, portable=portable)
