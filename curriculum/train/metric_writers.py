"""Metrics for TensorBoard and, offline, for Weights & Biases.

Both are optional packages with one protocol here.

    tensorboard/  tensorboard --logdir <run>/tensorboard
    wandb/        wandb sync <run>/wandb/offline-run-*

At each start, a writer is filled again from the run's own metrics. Therefore, a resumed run looks as if
it had never stopped, and no step appears twice.
"""

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, get_args

from schemas.cures import install_command
from schemas.errors import JobError
from schemas.job import Figure, Job, WriterName

Scalars = Mapping[str, float]
_SERVICE_SECONDS = 600.0


class Writer(Protocol):
    """Writer of scalars. Steps come in ascending order."""

    def write(self, step: int, scalars: Scalars) -> None:
        """Write the scalars of a step. Several calls in a row may have the same step."""

    def flush(self) -> None:
        """Write everything to disk, if the writer supports it."""

    def close(self) -> None:
        """Write the rest, and close the writer."""


def parse_writers(text: str | None) -> tuple[WriterName, ...]:
    """Parse a comma-separated list: "tensorboard,wandb" -> ("tensorboard", "wandb").

    Raises:
        JobError: for an unknown name, or a writer whose package isn't installed.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    known = {str(name): name for name in get_args(WriterName)}
    for name in names:
        if name not in known:
            raise JobError(
                "--log",
                name,
                cause="the writer doesn't exist",
                cure=f"Name one of these: {', '.join(known)}",
            )
    writers = tuple(dict.fromkeys(known[name] for name in names))
    require_installed(writers)
    return writers


def require_installed(names: Iterable[WriterName]) -> None:
    """Raise a JobError with the install command unless the packages of the writers `names` are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise JobError(
                "--log",
                name,
                cause="the package of this writer isn't installed",
                cure=f"{install_command(f'curriculum[{name}]')}; or train without this writer",
            )


def open_writers(job: Job, directory: Path) -> tuple[Writer, ...]:
    """Create the writers of a job in the run's directory. They are empty.

    Raises:
        JobError: if a package isn't installed.
    """
    require_installed(job.writers)
    return tuple(_MAKERS[name](job, directory) for name in job.writers)


def fill(
    writers: Sequence[Writer], rows: Sequence[Mapping[str, Any]], figures: Sequence[Figure]
) -> None:
    """Write earlier steps and evaluations to new writers, in the order of steps."""
    if not writers:
        return
    scalars = [(int(row["step"]), step_scalars(row)) for row in rows]
    scalars += [(figure.step, figure_scalars([figure])) for figure in figures]
    for step, values in sorted(scalars, key=lambda pair: pair[0]):
        for writer in writers:
            writer.write(step, values)


def step_scalars(row: Mapping[str, Any]) -> Scalars:
    """Convert a row of metrics to scalars. Missing values are left out."""
    return {
        f"train/{name}": float(value)
        for name, value in row.items()
        if name != "step" and value is not None
    }


def figure_scalars(figures: Iterable[Figure]) -> Scalars:
    """Convert figures to scalars. A weighted mean has the name of its evaluation; a stratum's name is longer.

    val_bpb/phase syntax, val_bpb/phase syntax, v2_simple general
    """
    return {f"val_bpb/{_name(figure)}": figure.val_bpb for figure in figures}


def _name(figure: Figure) -> str:
    is_mean = figure.family == "*"
    return figure.name if is_mean else f"{figure.name}, {figure.family} {figure.domain}"


class _TensorBoard:
    def __init__(self, job: Job, directory: Path) -> None:
        folder = _empty(directory / "tensorboard")
        board = importlib.import_module("torch.utils.tensorboard")
        # A TensorBoard that watches the folder drops events of earlier processes.
        self._board = board.SummaryWriter(str(folder), purge_step=0)

    def write(self, step: int, scalars: Scalars) -> None:
        for name, value in scalars.items():
            self._board.add_scalar(name, value, step)

    def flush(self) -> None:
        self._board.flush()

    def close(self) -> None:
        self._board.close()


class _WeightsAndBiases:
    def __init__(self, job: Job, directory: Path) -> None:
        self._folder = _empty(directory / "wandb")
        self._wandb = importlib.import_module("wandb")
        settings = self._wandb.Settings(
            mode="offline",
            console="off",
            silent=True,
            save_code=False,
            symlink=False,
            disable_git=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
            # The service may start slowly on shared cores, which must not end a run.
            x_service_wait=_SERVICE_SECONDS,
            init_timeout=_SERVICE_SECONDS,
        )
        branch = [job.branch] if job.branch else []
        self._run = self._wandb.init(
            project="curriculum",
            group=" ".join([job.specialist, *branch]),
            name=" ".join([job.specialist, *branch, job.phase]),
            id=f"{job.run_key[:12]}-{job.attempt}",
            dir=str(directory),
            config=job.model_dump(mode="json"),
            settings=settings,
        )

    def write(self, step: int, scalars: Scalars) -> None:
        self._run.log(dict(scalars), step=step)

    def flush(self) -> None:
        """Do nothing, since wandb writes continuously."""

    def close(self) -> None:
        self._run.finish()
        # The service may still write for a moment; after the teardown the files are final.
        self._wandb.teardown()
        # Links lead to logs outside of the run, which must contain only its own files.
        for path in self._folder.rglob("*"):
            if path.is_symlink():
                path.unlink()


_MAKERS: Mapping[WriterName, Callable[[Job, Path], Writer]] = {
    "tensorboard": _TensorBoard,
    "wandb": _WeightsAndBiases,
}


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
