"""Metrics for TensorBoard and for Weights & Biases offline: extras behind one protocol.

    tensorboard/  tensorboard --logdir <run>/tensorboard
    wandb/        wandb sync <run>/wandb/offline-run-*

A writer is filled anew at each start from what the run's own metrics hold, so that a resumed run stands
there as if it had never stopped, no step twice.
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
    """Receives scalars, in the order of steps."""

    def write(self, step: int, scalars: Scalars) -> None:
        """Keep the scalars of a step; a step may come several times in a row."""

    def flush(self) -> None:
        """Bring what is kept to the disk, where the writer lets one."""

    def close(self) -> None:
        """Write the rest and end."""


def parse_writers(text: str | None) -> tuple[WriterName, ...]:
    """The writers of a list with commas: "tensorboard,wandb" -> ("tensorboard", "wandb").

    Raises:
        JobError: for a name that isn't there, or one whose package isn't installed.
    """
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    known = {str(name): name for name in get_args(WriterName)}
    for name in names:
        if name not in known:
            raise JobError(
                "--log",
                name,
                cause="there is no such writer",
                cure=f"Known writers: {', '.join(known)}",
            )
    writers = tuple(dict.fromkeys(known[name] for name in names))
    require_installed(writers)
    return writers


def require_installed(names: Iterable[WriterName]) -> None:
    """Raise a JobError with the command that installs what lacks."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise JobError(
                "--log",
                name,
                cause="its package isn't installed",
                cure=f"{install_command(f'curriculum[{name}]')}; or train without it",
            )


def open_writers(job: Job, directory: Path) -> tuple[Writer, ...]:
    """The job's writers, empty, in the run's directory.

    Raises:
        JobError: where a package isn't installed.
    """
    require_installed(job.writers)
    return tuple(_MAKERS[name](job, directory) for name in job.writers)


def fill(
    writers: Sequence[Writer], rows: Sequence[Mapping[str, Any]], figures: Sequence[Figure]
) -> None:
    """Write steps and evaluations of before, in the order of steps."""
    if not writers:
        return
    scalars = [(int(row["step"]), of_step(row)) for row in rows]
    scalars += [(figure.step, of_figures([figure])) for figure in figures]
    for step, each in sorted(scalars, key=lambda pair: pair[0]):
        for writer in writers:
            writer.write(step, each)


def of_step(row: Mapping[str, Any]) -> Scalars:
    """A line of the metrics as scalars; what wasn't measured is left out."""
    return {
        f"train/{name}": float(value)
        for name, value in row.items()
        if name != "step" and value is not None
    }


def of_figures(figures: Iterable[Figure]) -> Scalars:
    """Figures as scalars; the weighted mean of an evaluation goes by the evaluation alone.

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
        # One that watches the folder drops what an earlier process told it.
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
            # Its service may start slowly where cores are shared; that must not end a run.
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
        """Do nothing: it writes by itself."""

    def close(self) -> None:
        self._run.finish()
        # Its service may write on for a moment; then nothing changes any more.
        self._wandb.teardown()
        # It logs elsewhere and links to it; a run holds only what is its own.
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
