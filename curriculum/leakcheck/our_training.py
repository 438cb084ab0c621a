"""Training with the trainer of training jobs while a Recorder records each step."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from curriculum.leakcheck.packings import Packing
from curriculum.leakcheck.recorder import FedDocuments, Probe, Recorder
from curriculum.leakcheck.repacked import ProofSetting
from curriculum.leakcheck.subject import spread_constant_weights
from curriculum.train import restore
from curriculum.train.batch import Batch
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.optimizer import TrainState, gather_whole, new_train_state
from curriculum.train.step import Gradient
from curriculum.train.trainer import Trainer
from schemas.job import Job

RUN = "run"
_FED = TypeAdapter(FedDocuments)


def our_training(
    setting: ProofSetting,
    job: Job,
    workspace: Path,
    recorder: Recorder,
    packing: Packing,
    ranks: Ranks = ALONE,
) -> None:
    """Train a job with the real trainer while `recorder` records each step.

    The evaluations, checkpoints and resume of `packing` take place, too. Each rank calls this function with
    the same workspace, and its recorder receives the steps of all ranks. Outputs of blocks are recorded only
    if there is a single rank.
    """
    trainer = OurTrainer(
        job=job,
        workspace=workspace,
        device=setting.device,
        dtype=setting.dtype,
        start=setting.start,
        recorder=recorder,
        ranks=ranks,
    )
    if packing.resume_after is not None:
        trainer.run(stop_after=packing.resume_after)
    trainer.run()


@dataclass(frozen=True, kw_only=True, slots=True)
class OurTrainer:
    """Trainer of training jobs that records its steps."""

    job: Job
    workspace: Path
    device: torch.device
    dtype: torch.dtype
    start: Path | None
    """Checkpoint with the starting weights. None starts from fresh weights with noise on constant weights."""
    recorder: Recorder
    ranks: Ranks = ALONE

    def run(self, *, stop_after: int | None = None) -> None:
        """Train from the workspace's newest checkpoint to the end, or stop after `stop_after` steps."""
        recorder = self.recorder
        directory = self.workspace / RUN
        directory.mkdir(exist_ok=True)
        gradients: dict[str, Tensor] = {}
        probe = Probe(recorder)

        def watch(step: int, batches: Sequence[Batch], gradient: Gradient) -> None:
            train_state.reshard()
            sums = [sums.tolist() for sums in gradient.documents]
            recorder.note(
                _of_all_ranks(self.ranks, recorder.fed(batches, sums)),
                dict(gradients),
                {
                    name: gather_whole(weight.detach()).clone()
                    for name, weight in model.named_parameters()
                }
                if recorder.is_at_last_step
                else {},
                probe.by_document(batches),
                gradient.norm,
            )

        trainer = Trainer(
            self.job,
            self.workspace,
            directory,
            self.device,
            lambda: stop_after is not None and len(recorder.traces) >= stop_after,
            self.ranks,
            dtype=self.dtype,
            watch=watch,
        )
        train_state = trainer.train_state
        model = train_state.model
        if not recorder.traces:
            self._begin(train_state)

        def note_gradients(*_: Any) -> None:
            gradients.update(
                {
                    name: gather_whole(weight.grad.detach()).clone()
                    for name, weight in model.named_parameters()
                    if weight.grad is not None
                }
            )

        with ExitStack() as hooks:
            hook = train_state.optimizer.register_step_pre_hook(note_gradients)
            hooks.callback(hook.remove)
            if recorder.probed_step is not None:
                probe.hook(model, hooks)
            trainer.train()

    @torch.no_grad()
    def _begin(self, train_state: TrainState) -> None:
        """Copy the starting weights into a fresh model."""
        if self.start is None:
            alone = new_train_state(self.job, self.device, dtype=self.dtype).model
            there = spread_constant_weights(alone).state_dict()
        else:
            there = restore.read_weights(self.start)
        for name, weight in train_state.model.named_parameters():
            if name in there:
                restore.copy_into(there[name], weight, self.ranks)


def _of_all_ranks(ranks: Ranks, own: FedDocuments) -> FedDocuments:
    """Return the documents that all ranks trained on in a step.

    Ranks that share rows get the same documents, and each rank sums the losses of its own positions.
    """
    parts = ranks.gather(own, _FED)
    groups = [parts[first : first + ranks.sharing] for first in range(0, ranks.size, ranks.sharing)]
    return FedDocuments(
        fault=next((part.fault for part in parts if part.fault), ""),
        losses=tuple(
            (losses[0][0], sum(nll for _, nll in losses))
            for group in groups
            for losses in zip(*(part.losses for part in group), strict=True)
        ),
    )
