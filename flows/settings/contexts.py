"""Contexts in which steps run: machine resources from environment variables, and a diet's trainer command."""

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
    """Return the context of steps that run in this process; by default warnings go to stderr.

    Raises:
        SettingError: if an environment variable is invalid.
        JobError: if the sbatch template is invalid.
    """
    return Context(
        resources=resources(),
        watch=watch,
        log=log,
        warn=warn,
        notifier=Notifier(
            target=settings.notify_target(), environment=settings.external_environment()
        ),
        permit=trainer_command,
    )


def trainer_command(plan: RunPlan) -> str | None:
    """Return the trainer command in a plan's diet, if any.

    The command is executed by training, which requires a trusted workspace.
    """
    return None if plan.diet.trainer is None else plan.diet.trainer.command


def resources() -> Resources:
    """Return the machine resources that environment variables describe.

    If a variable names a Ray cluster, the environment variables of Ray are set too.

    Raises:
        SettingError: if an environment variable is invalid.
        JobError: if the sbatch template is invalid.
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
