"""Functions for another trainer that trains instead of ours.

    trainer: {command: "python my_train.py {job}"}                        # in a diet

    run = open_run(Path(sys.argv[1]))
    load(run.resumed or run.start)                                        # folders of its own making
    asked_to_stop = listen()
    for batches in run.steps():                                           # curriculum.train.dataloader.Batch
        ...
        run.record(run.counts(batches), loss=loss, learning_rate=rate)
        if run.is_due or asked_to_stop():
            run.publish_checkpoint(save)                                  # save(folder) writes files
        if asked_to_stop():
            sys.exit(run.write_report("cancelled"))
    sys.exit(run.write_report("budget"))

The trainer must read job.json and the plan, train `job.steps` steps from where it stopped, and write
metrics/, a checkpoint and report.json. On SIGTERM it finishes its step, publishes a checkpoint and exits
with 75; the same command then resumes. It may exit with 71 if memory is full, and with 65 if a loss isn't
finite.

The run is checked when the trainer ends. A trainer may write the files without these functions; if a file
is missing, the error names it. If several processes train, they all call `steps`, and only one of them
calls the other functions.
"""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from curriculum.stop_signals import terminating_signals
from curriculum.store import Store
from curriculum.train import checkpoint, document_sums
from curriculum.train.advance_when import gate_bits, gate_reason
from curriculum.train.batch import Batch
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.checkpoint_files import require_whole
from curriculum.train.dataloader import PlannedRows, steps_of
from curriculum.train.evaluation import HeldOut, read_token_bytes
from curriculum.train.metrics import Metrics, StepCounts, StepMetrics, StepOutcome, counts_of_step
from curriculum.train.processes import CANCELLED, FAILED
from curriculum.train.report import HeartbeatWriter, TrainingEnd, report_of
from curriculum.train.run_directory import CHECKPOINTS, REPORT, read_job
from curriculum.whole_files import write_whole
from schemas.job import Figure, Job, MaskingCost, Stopped

EXIT_CODES: dict[Stopped, int] = {"budget": 0, "gate": 0, "cancelled": CANCELLED, "failed": FAILED}


class ForeignRun:
    """Directory and progress of a run that another trainer trains.

    `resumed` is the newest complete checkpoint of this run. If there is none, `start` is the checkpoint of
    the previous phase. If there is none either, training starts with new weights.
    """

    def __init__(self, job: Job, workspace: Path, directory: Path) -> None:
        self.job, self.workspace, self.directory = job, workspace, directory
        self.resumed = checkpoint.newest(directory / CHECKPOINTS)
        self.start = workspace / job.start_from.path if job.start_from is not None else None
        if self.start is not None:
            require_whole(self.start)
        self.state = checkpoint.read_state(self.resumed) if self.resumed else CheckpointState()
        self.rows = PlannedRows.from_job(job, workspace)
        self._token_bytes = read_token_bytes(workspace / job.tokenizer.path)
        self._metrics: Metrics | None = None
        self._heart = HeartbeatWriter(job, directory)
        self._began = time.perf_counter()

    @property
    def step(self) -> int:
        """Number of steps that have been trained and recorded."""
        return self.state.step

    @property
    def is_due(self) -> bool:
        """True if a checkpoint should be published after the last recorded step."""
        return self.step % self.job.checkpoint_every == 0 or self.step == self.job.steps

    def steps(self, *, rank: int = 0, ranks: int = 1) -> Iterator[list[Batch]]:
        """Yield the micro-batches of each remaining step, for one of several ranks.

        A micro-batch has rows of one length. The loss of a step is the sum over all of its micro-batches on
        all ranks, divided by the number of scored targets, which is the sum of all loss_mask.
        """
        self._began = time.perf_counter()
        return steps_of(
            self.job,
            self.rows,
            first_step=self.step,
            workers=self.job.workers,
            rank=rank,
            ranks=ranks,
        )

    def counts(self, batches: Sequence[Batch]) -> StepCounts:
        """Count the contents of micro-batches. To add the counts of several ranks, add their `numbers`."""
        return counts_of_step(batches, self._token_bytes)

    def record(
        self,
        counts: StepCounts,
        *,
        loss: float,
        learning_rate: float,
        gradient_norm: float = 0.0,
        z_loss: float = 0.0,
    ) -> None:
        """Record the metrics of a finished step: a row of schemas.job.METRICS_SCHEMA.

        `loss` is in nats per scored target. The duration of the step is the time since the previous call.
        """
        seconds = time.perf_counter() - self._began
        metrics = self._open_metrics()
        self.state = self.state.advanced(self.job, counts.tokens)
        row = StepMetrics.from_counts(
            counts,
            step=self.step,
            position=self.state.tokens.positions,
            learnt=StepOutcome(
                loss=loss,
                z_loss=z_loss,
                gradient_norm=gradient_norm,
                learning_rate=learning_rate,
            ),
            seconds=seconds,
            device=torch.device(self.job.device),
        )
        metrics.record(row, steps=self.job.steps)
        self._heart.step(self.state, positions=counts.positions, seconds=seconds)
        self._began = time.perf_counter()

    def evaluate(self, nll: Callable[[Batch], Tensor]) -> tuple[Figure, ...]:
        """Measure bits per byte on the job's held-out rows at this step, for the report.

        Results per document are written to evaluations/step=<step>/documents.parquet.

        `nll` returns the loss of each scored target of a batch (where loss_mask is 1) in nats, row by row,
        [N]. It is called once for the rows of each stratum.
        """
        held_out = HeldOut(
            nll=nll,
            job=self.job,
            workspace=self.workspace,
            token_bytes=self._token_bytes,
            stop=lambda: False,
        )
        metrics = self._open_metrics()
        self._heart.beat(self.state, "evaluating")
        found = held_out.evaluate(self.step)
        self.state = self.state.measured(found.figures)
        self._heart.set_evaluation_seconds(found.seconds)
        document_sums.write(self.directory, self.step, found.documents, seconds=found.seconds)
        metrics.record_figures(found.figures)
        return found.figures

    def gate(self) -> str | None:
        """Return the reason why the phase may end now, or None. It follows from the evaluations so far."""
        bits = gate_bits(self.state.figures, self.job.phase, self.job.advance_when)
        return gate_reason(self.job.advance_when, valid_tokens=self.state.tokens.valid, bits=bits)

    def publish_checkpoint(self, write: Callable[[Path], object]) -> Path:
        """Publish a checkpoint of this step atomically. `write` writes files of any kind into a folder.

        The checkpoint also gets state.json, which has the progress, and a manifest with the hashes of all
        files. The newest two checkpoints are kept.
        """
        self._open_metrics().flush()
        folder = self.directory / CHECKPOINTS
        write(checkpoint.new_draft(folder, self.step))
        self.resumed = checkpoint.publish(folder, None, self.state)
        return self.resumed

    def write_report(
        self,
        stopped: Stopped,
        reason: str = "",
        *,
        leakcheck: Literal["passed", "not run"] = "not run",
        masking_cost: MaskingCost | None = None,
        devices: int = 1,
    ) -> int:
        """Write report.json for the last published checkpoint, and return the exit code.

        `stopped` is `budget` after the job's last step, `gate` if the method `gate` returned a reason, and
        `cancelled` after a requested stop.
        """
        if self._metrics is not None:
            self._metrics.flush()
            self._metrics.close()
        outcome = TrainingEnd(
            stopped=stopped,
            reason=reason or f"step {self.step} of {self.job.steps}",
            state=self.state,
            checkpoint=self.resumed,
        )
        report = report_of(
            self.job,
            self.workspace,
            self.directory,
            outcome,
            devices=devices,
            leakcheck=leakcheck,
            masking_cost=masking_cost,
        )
        write_whole(self.directory / REPORT, report.model_dump_json(indent=1))
        return EXIT_CODES[stopped]

    def _open_metrics(self) -> Metrics:
        """Open the metrics when they are first needed, not earlier.

        Opening removes outdated files. If several processes train, only the one that records may do that.
        """
        if self._metrics is None:
            figures = self.state.figures
            self._metrics = Metrics.open(self.job, self.directory, step=self.step, figures=figures)
        return self._metrics


def open_run(job: Path) -> ForeignRun:
    """Open the run of a job.json.

    Raises:
        JobError: if the file isn't a job, or the checkpoint to start from is damaged.
    """
    return ForeignRun(read_job(job), Store.containing(job).root, job.absolute().parent)


def listen() -> Callable[[], bool]:
    """Handle SIGTERM, SIGHUP and SIGINT.

    Return a function that returns True once one of them was received.
    """
    received: list[int] = []
    for number in (*terminating_signals(), signal.SIGINT):
        signal.signal(number, lambda received_number, _frame: received.append(received_number))
    return lambda: bool(received)
