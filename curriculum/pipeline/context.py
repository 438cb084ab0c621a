"""Context of steps: resources, and callbacks for progress, log lines and notifications."""

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
    """Ignore a line of text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """Resources of this machine, as environment variables set them."""

    gpu_slots: int = 1
    """Maximum number of jobs that train on this machine at a time."""
    slots_folder: Path | None = None
    """Folder of the slots; None for the workspace's own folder."""
    sbatch: SbatchTemplate | None = None
    """Script template that submits jobs to Slurm."""
    gpu_price: float | None = None
    """Price of one GPU hour."""
    ray: str | None = None
    """Address of the Ray cluster that runs the tasks of builds."""

    def slots_of(self, workspace: Path) -> Slots:
        """Return the slots that jobs of a workspace use."""
        return Slots(self.slots_folder or workspace / "slots", self.gpu_slots)


def refuse_commands(plan: RunPlan) -> str | None:
    """Return None for a diet without an external trainer; refuse any other diet.

    Raises:
        DietError: for a diet with a trainer command, since it needs explicit permission.
    """
    if plan.diet.trainer is None:
        return None
    raise DietError(
        plan.config.specialist,
        f"trainer.command = {plan.diet.trainer.command!r}",
        cause="the command would run with your rights, and nobody has allowed it",
        cure="Read the command; then pass a Context whose `permit` returns it",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """Resources of steps, and callbacks for progress, log lines and notifications."""

    resources: Resources = field(default_factory=Resources)
    watch: ProgressCallback = ignore_progress
    log: Callable[[str], None] = ignore
    """Function that receives the log lines of training jobs."""
    warn: Callable[[str], None] = ignore
    """Function that receives important warnings."""
    notifier: Notifier = field(default_factory=Notifier)
    permit: Callable[[RunPlan], str | None] = refuse_commands
    """Function that returns the trainer command of a plan's diet if it is allowed, or None if the diet has
    none. It raises DietError for a command that isn't allowed.
    """
