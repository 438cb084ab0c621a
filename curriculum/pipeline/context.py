"""Context: the resources that steps use, and the receivers of their progress, log lines and notifications."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from curriculum.pipeline.notifiers import Notifier
from curriculum.pipeline.plan import RunPlan
from curriculum.train.launch.gpu_slots import Slots
from curriculum.train.launch.slurm import SbatchTemplate
from schemas.errors import DietError
from schemas.progress import ProgressCallback, ignore_progress


def ignore(_: str) -> None:
    """Drop a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """Resources of this machine, as its environment names them."""

    gpu_slots: int = 1
    """Jobs that may train on this machine at once."""
    slots_folder: Path | None = None
    """The folder of the slots; None for the workspace's own."""
    sbatch: SbatchTemplate | None = None
    """The script with which jobs are handed to Slurm."""
    gpu_price: float | None = None
    """Price of an hour of one GPU."""
    ray: str | None = None
    """Address of the Ray cluster whose workers build."""

    def slots_of(self, workspace: Path) -> Slots:
        """Return the slots that a workspace's jobs take."""
        return Slots(self.slots_folder or workspace / "slots", self.gpu_slots)


def refuse_commands(plan: RunPlan) -> str | None:
    """Return None for a diet without a trainer of its own.

    Raises:
        DietError: for a diet that names a command: somebody must have allowed it.
    """
    if plan.diet.trainer is None:
        return None
    raise DietError(
        plan.config.specialist,
        f"trainer.command = {plan.diet.trainer.command!r}",
        cause="it would run as you, and nobody has allowed it",
        cure="Read it; then give a Context whose `permit` returns it",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Resources of steps, and receivers of their progress, lines and notifications."""

    resources: Resources = field(default_factory=Resources)
    watch: ProgressCallback = ignore_progress
    log: Callable[[str], None] = ignore
    """Receives the lines of a training job's log."""
    warn: Callable[[str], None] = ignore
    """Receives lines that a person should not miss."""
    notifier: Notifier = field(default_factory=Notifier)
    permit: Callable[[RunPlan], str | None] = refuse_commands
    """Returns the trainer's command of a plan's diet that may run, or None where it names none; raises
    DietError for one that may not."""
