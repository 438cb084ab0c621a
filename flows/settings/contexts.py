"""Contexts of steps: the resources that the environment names, and the command of a diet's trainer."""

import sys
from collections.abc import Callable

from curriculum.pipeline.context import Context, Resources, ignore
from curriculum.pipeline.notifiers import Notifier
from curriculum.pipeline.plan import RunPlan
from curriculum.train.launch.slurm import read_template
from flows import settings
from schemas.progress import ProgressCallback, ignore_progress
from schemas.visible import visible


def warn_on_stderr(text: str) -> None:
    """Write a warning of a step to stderr."""
    sys.stderr.write(f"warning: {visible(text)}\n")


def context_of(
    watch: ProgressCallback = ignore_progress,
    *,
    log: Callable[[str], None] = ignore,
    warn: Callable[[str], None] = warn_on_stderr,
) -> Context:
    """Return the context of steps that this process carries out; by default its warnings go to stderr.

    Raises:
        SettingError: for a variable that is wrong.
        JobError: for a wrong template of sbatch.
    """
    return Context(
        resources=resources(),
        watch=watch,
        log=log,
        warn=warn,
        notifier=Notifier(target=settings.notify_target(), environment=settings.outside()),
        permit=trainer_command,
    )


def trainer_command(plan: RunPlan) -> str | None:
    """Return the command of a plan's diet, if it names one: who trains here trusts the workspace."""
    return None if plan.diet.trainer is None else plan.diet.trainer.command


def resources() -> Resources:
    """Read the resources that the environment names, and prepare it for Ray where a cluster is named.

    Raises:
        SettingError: for a variable that is wrong.
        JobError: for a wrong template of sbatch.
    """
    ray = settings.ray_address()
    if ray is not None:
        settings.apply(settings.ray(ray))
    template = settings.sbatch_template()
    return Resources(
        gpu_slots=settings.gpu_slots(),
        slots_folder=settings.slots_folder(),
        sbatch=None if template is None else read_template(template),
        gpu_price=settings.gpu_price(),
        ray=ray,
    )
