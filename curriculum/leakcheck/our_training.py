"""The trainer of training jobs under a recorder."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from curriculum.leakcheck.packings import Packing
from curriculum.leakcheck.recorder import Probe, Recorder
from curriculum.leakcheck.repacked import Setting
from curriculum.leakcheck.subject import spread_constant_weights
from curriculum.train import restore
from curriculum.train.batch import Batch
from curriculum.train.step import Gradient
from curriculum.train.trainer import Trainer
from schemas.job import Job

RUN = "run"


def our_training(
    setting: Setting, job: Job, workspace: Path, recorder: Recorder, packing: Packing
) -> None:
    """Train as a job does: the real trainer, with the evaluations, checkpoints and resume of a packing."""
    trainer = OurTrainer(
        job=job,
        workspace=workspace,
        device=setting.device,
        dtype=setting.dtype,
        start=setting.start,
        recorder=recorder,
    )
    if packing.resume_after is not None:
        trainer.run(stop_after=packing.resume_after)
    trainer.run()


@dataclass(frozen=True, kw_only=True, slots=True)
class OurTrainer:
    """The trainer of training jobs, recorded."""

    job: Job
    workspace: Path
    device: torch.device
    dtype: torch.dtype
    start: Path | None
    """Checkpoint with the weights to start from; None spreads fresh weights."""
    recorder: Recorder

    def run(self, *, stop_after: int | None = None) -> None:
        """Train from the newest checkpoint of the workspace until the end, or stop after so many steps."""
        recorder = self.recorder
        directory = self.workspace / RUN
        directory.mkdir(exist_ok=True)
        gradients: dict[str, Tensor] = {}
        probe = Probe(recorder)

        def watch(step: int, batches: Sequence[Batch], gradient: Gradient) -> None:
            recorder.note(
                batches,
                [sums.tolist() for sums in gradient.documents],
                dict(gradients),
                {name: weight.detach().clone() for name, weight in model.named_parameters()},
                probe.by_document(batches),
                gradient.norm,
            )

        trainer = Trainer(
            self.job,
            self.workspace,
            directory,
            self.device,
            lambda: stop_after is not None and len(recorder.traces) >= stop_after,
            dtype=self.dtype,
            watch=watch,
        )
        model = trainer.train_state.model
        if not recorder.traces:
            self._begin(model)

        def note_gradients(*_: Any) -> None:
            gradients.update(
                {
                    name: weight.grad.detach().clone()
                    for name, weight in model.named_parameters()
                    if weight.grad is not None
                }
            )

        with ExitStack() as hooks:
            hook = trainer.train_state.optimizer.register_step_pre_hook(note_gradients)
            hooks.callback(hook.remove)
            if recorder.probed_step is not None:
                probe.hook(model, hooks)
            trainer.train()

    @torch.no_grad()
    def _begin(self, model: nn.Module) -> None:
        """Give a fresh model the weights to start from."""
        if self.start is None:
            spread_constant_weights(model).train()
            return
        there = restore.read_weights(self.start)
        for name, weight in model.named_parameters():
            if name in there:
                weight.copy_(there[name])
