"""Training loop of one process: evaluate, check the gate, train a step, save a checkpoint."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from curriculum.train import checkpoint, document_sums, restore
from curriculum.train.advance_when import gate_bits, gate_reason
from curriculum.train.checkpoint import CheckpointState, Saver
from curriculum.train.dataloader import Batch, Lookahead, PlannedRows, steps_of
from curriculum.train.device import enough_memory
from curriculum.train.distributed import ALONE, PATH_OR_NONE, Ranks
from curriculum.train.evaluation import Cancelled, Evaluator, is_evaluated, read_token_bytes
from curriculum.train.metrics import (
    Metrics,
    StepCounts,
    StepMetrics,
    StepOutcome,
    counts_of_step,
    log,
)
from curriculum.train.optimizer import learning_rate, new_train_state
from curriculum.train.report import HeartbeatWriter, TrainingEnd
from curriculum.train.step import Gradient, Prefetcher, optimizer_step
from schemas.job import Job

StepWatch = Callable[[int, Sequence[Batch], Gradient], None]
"""Function called after each step with the step's number (from 1), its batches and its gradient's sums."""


class Trainer:
    """Training loop of one rank. It begins at the run's newest undamaged checkpoint, or at step 0.

    Every rank creates a trainer. Only rank 0 writes files, except that each rank writes its shard of a
    checkpoint. Training can be stopped and resumed at any step, with identical bits.
    """

    def __init__(
        self,
        job: Job,
        workspace: Path,
        directory: Path,
        device: torch.device,
        stop: Callable[[], bool],
        ranks: Ranks = ALONE,
        *,
        dtype: torch.dtype = torch.float32,
        watch: StepWatch | None = None,
    ) -> None:
        self.job, self.device, self.ranks, self.watch = job, device, ranks, watch
        # A signal reaches ranks at different times, but all must stop at the same step.
        self.stop: Callable[[], bool] = lambda: ranks.any(stop())
        torch.manual_seed(job.seed)
        self.train_state = new_train_state(job, device, ranks, dtype=dtype)
        checkpoints = directory / "checkpoints"
        last = ranks.broadcast_first(lambda: checkpoint.newest(checkpoints), PATH_OR_NONE)
        self.saver = Saver(checkpoints, self.train_state, last)
        self.state = self._open(workspace)
        self.metrics = None
        if ranks.leads:
            figures = self.state.figures
            self.metrics = Metrics.open(job, directory, step=self.state.step, figures=figures)
        self.heartbeat = HeartbeatWriter(job, directory)
        self.token_bytes = read_token_bytes(workspace / job.tokenizer.path)
        self.evaluator = Evaluator(
            train_state=self.train_state,
            job=job,
            workspace=workspace,
            token_bytes=self.token_bytes,
            stop=self.stop,
            before=ranks.run_together(
                lambda: restore.evaluated_before(job, workspace, self.state.step)
            ),
        )
        self.directory = directory
        self.rows = PlannedRows.from_job(job, workspace)
        self.prefetcher = Prefetcher(device)

    def train(self) -> TrainingEnd:
        """Train step by step until the budget is used, the gate opens or `stop` returns True.

        Raises:
            NotFiniteError: for a loss or gradient that isn't finite; names step and rows.
            JobMemoryError: if memory runs out.
            JobError: if a checkpoint can't be written.
        """
        try:
            return self._train()
        except Cancelled:
            if self.state.step:
                self._save()
            return TrainingEnd(
                stopped="cancelled",
                reason=f"stopped at step {self.state.step} of {self.job.steps}",
                state=self.state,
                checkpoint=self.saver.wait(),
            )
        finally:
            if self.metrics is not None:
                self.metrics.close()
            self.saver.close()

    def _train(self) -> TrainingEnd:
        self.steps = Lookahead(
            steps_of(
                self.job,
                self.rows,
                first_step=self.state.step,
                workers=self.job.workers,
                rank=self.ranks.reader,
                ranks=self.ranks.readers,
            )
        )
        while True:
            reason = self._evaluate_if_due()
            if reason is not None or self.state.step == self.job.steps:
                self._save(portable=True)
                return TrainingEnd(
                    stopped="gate" if reason is not None else "budget",
                    reason=reason or f"{self.job.steps} step{'' if self.job.steps == 1 else 's'}",
                    state=self.state,
                    checkpoint=self.saver.wait(),
                )
            began = time.perf_counter()
            self._step(next(self.steps), began)
            if self.stop():
                raise Cancelled
            if self.state.step % self.job.checkpoint_every == 0:
                self._save()

    def _open(self, workspace: Path) -> CheckpointState:
        if self.saver.last is not None:
            state = restore.resume(self.saver.last, self.train_state)
            log(f"resuming at step {state.step} of {self.job.steps}")
            return state.computed_by(self.job.device, self.job.kernel)
        if self.job.start_from is not None:
            restore.carry_over(workspace / self.job.start_from.path, self.train_state)
        return CheckpointState().computed_by(self.job.device, self.job.kernel)

    def _evaluate_if_due(self) -> str | None:
        """Evaluate the model if an evaluation is due. Return the reason if the gate opens."""
        step, known = self.state.step, {figure.step for figure in self.state.figures}
        due = is_evaluated(step, every=self.job.evaluate_every, steps=self.job.steps)
        if due and step not in known:
            if self.metrics is not None:
                self.heartbeat.beat(self.state, "evaluating")
            found = self.evaluator.evaluate(step)
            self.state = self.state.measured(found.figures)
            if step or self.evaluator.before is None:
                self.heartbeat.set_evaluation_seconds(found.seconds)
            if self.metrics is not None:
                document_sums.write(self.directory, step, found.documents, seconds=found.seconds)
                self.metrics.record_figures(found.figures)
            for figure in found.figures:
                if figure.family == "*":
                    log(f"step {step}  {figure.name}  val_bpb {figure.val_bpb:.4f}")
        if not due or step in (0, self.job.steps):
            return None
        return gate_reason(
            self.job.advance_when,
            valid_tokens=self.state.tokens.valid,
            bits=gate_bits(self.state.figures, self.job.phase, self.job.advance_when),
        )

    def _step(self, batches: list[Batch], began: float) -> None:
        step = self.state.step
        rate = learning_rate(
            step, self.job.steps, self.job.optimizer, carries_on=self.job.start_from is not None
        )
        with enough_memory(self.job, f"step {step + 1}"):
            gradient = optimizer_step(
                self.train_state,
                batches,
                self.job,
                step=step + 1,
                rate=rate,
                folders=self.rows.folders,
                prefetcher=self.prefetcher,
                send_next=self._send_next,
            )
        if self.watch is not None:
            self.watch(step + 1, batches, gradient)
        numbers = counts_of_step(batches, self.token_bytes).numbers()
        # Ranks that share rows have the same counts; only one of them counts.
        numbers = numbers if self.ranks.counts else [0] * len(numbers)
        counts = StepCounts.from_numbers(self.ranks.total(numbers))
        self.state = self.state.advanced(self.job, counts.tokens)
        seconds = time.perf_counter() - began
        if self.metrics is None:
            return
        row = StepMetrics.from_counts(
            counts,
            step=self.state.step,
            position=self.state.tokens.positions,
            learnt=StepOutcome(
                loss=gradient.loss,
                z_loss=gradient.z_loss,
                gradient_norm=gradient.norm,
                learning_rate=rate,
            ),
            seconds=seconds,
            device=self.device,
            spec=self.job.model,
            devices=self.ranks.size,
        )
        self.metrics.record(row, steps=self.job.steps)
        self.heartbeat.step(self.state, positions=counts.positions, seconds=seconds)

    def _send_next(self) -> None:
        """Start to copy the first batch of the next step to a GPU that still computes this step."""
        if self.device.type == "cuda" and self.state.step + 1 < self.job.steps:
            batches = self.steps.peek()
            if batches:
                self.prefetcher.send(batches[0])

    def _save(self, *, portable: bool = False) -> None:
        if self.metrics is not None:
            self.metrics.flush()
        self.saver.save(self.state, portable=portable)
