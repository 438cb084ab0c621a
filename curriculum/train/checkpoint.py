"""Checkpoints: weights, Adam's moments, random states and data cursor, listed in a manifest.

    checkpoints/step=120/model.safetensors  optimizer.safetensors  model.json  state.json  manifest.json

This portable form has only tensors and JSON. Therefore, reading it runs no code, and equal values give
equal bytes. Every phase ends with a portable checkpoint. If several ranks train, their intermediate
checkpoints have a folder shards/ instead of the two tensor files, and every rank writes its own part
(sharded.py). Any number of ranks can read either form. A checkpoint is valid once its manifest exists.
"""

import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from curriculum.store import no_room, refusal
from curriculum.train.checkpoint_files import (
    MOMENTS,
    SHARDS,
    SPEC,
    STATE,
    WEIGHTS,
    CheckpointManifest,
    damage,
    read_part,
    record_of,
)
from curriculum.train.distributed import PATH, PATH_OR_NONE
from curriculum.train.metrics import log
from curriculum.train.optimizer import TrainState, gather_whole, generators, is_moment, tensors
from curriculum.train.tensor_file import write_tensors
from curriculum.whole_files import sync, write_whole
from schemas.errors import CurriculumError, JobError
from schemas.job import Figure, Job, ModelSpec, TokenCounts
from schemas.manifest import MANIFEST_NAME
from schemas.run_folders import STEP, numbered
from schemas.text import Strict

MAX_KEPT = 2


class CheckpointState(Strict):
    """Progress of a run at a checkpoint. `slot` is the position in the data at which training continues."""

    step: int = 0
    slot: int = 0
    tokens: TokenCounts = TokenCounts(positions=0, valid=0, scored=0, bytes=0)
    figures: tuple[Figure, ...] = ()
    """Figures of all evaluations so far: one for each stratum, and the weighted means."""
    device: str = ""
    backend: str = ""
    """Device and backend of the last steps. Empty if another trainer doesn't record them."""
    switched: tuple[str, ...] = ()
    """Descriptions of changes of the device or backend when the run was resumed."""

    def computed_by(self, device: str, backend: str) -> "CheckpointState":
        """Return the state for training on a device and backend. Log and record a change of either."""
        was, becomes = (self.backend, self.device), (backend, device)
        switched = self.switched
        if any(was) and was != becomes:
            change = f"{' on '.join(becomes)} from step {self.step} on, {' on '.join(was)} before"
            switched = (*switched, change)
            log(
                f"attention  {change}; results may differ in the last bits from an uninterrupted run"
            )
        update = {"device": device, "backend": backend, "switched": switched}
        return self.model_copy(update=update)

    def measured(self, figures: tuple[Figure, ...]) -> "CheckpointState":
        """Return the state with one more evaluation's figures; they replace figures of the same step."""
        kept = tuple(figure for figure in self.figures if figure.step != self.step)
        return self.model_copy(update={"figures": kept + figures})

    def advanced(self, job: Job, counts: TokenCounts) -> "CheckpointState":
        """Return the state after one more step of `job` with the given token counts."""
        sums = {
            name: getattr(self.tokens, name) + getattr(counts, name)
            for name in TokenCounts.model_fields
        }
        return self.model_copy(
            update={
                "step": self.step + 1,
                "slot": self.slot + job.slots_per_step,
                "tokens": TokenCounts(**sums),
            }
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointCopy:
    """Copy of a portable checkpoint's content, so that training continues while it is written."""

    spec: ModelSpec
    state: CheckpointState
    weights: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, Tensor] = field(default_factory=dict)
    """Adam's moments, and the random states."""


def snapshot(train_state: TrainState, state: CheckpointState) -> CheckpointCopy:
    """Copy the content of a checkpoint to host memory.

    Every rank must call this; only rank 0 keeps the tensors.
    """
    taken = CheckpointCopy(spec=train_state.model.spec, state=state)
    for name, tensor in tensors(train_state):
        gathered = gather_whole(tensor)
        if train_state.ranks.leads:
            part = taken.moments if is_moment(name, taken.weights) else taken.weights
            part[name] = gathered.to("cpu", copy=True)
    for states in train_state.ranks.gather_tensors(generators(train_state)):
        taken.moments.update(states)
    return taken


def save(folder: Path, train_state: TrainState, state: CheckpointState) -> Path:
    """Write the portable checkpoint `folder`/step=N and return its path. Only the newest two are kept."""
    return write(folder, snapshot(train_state, state))


def write(folder: Path, taken: CheckpointCopy) -> Path:
    """Write a copied checkpoint to `folder`/step=N and return its path. Only the newest two are kept."""
    path = new_draft(folder, taken.state.step)
    write_tensors(taken.weights, path / WEIGHTS)
    write_tensors(taken.moments, path / MOMENTS)
    return publish(folder, taken.spec, taken.state)


def new_draft(folder: Path, step: int) -> Path:
    """Create an empty folder in which a checkpoint is written until it is complete."""
    path = folder / f".step={step}.draft"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def publish(folder: Path, spec: ModelSpec | None, state: CheckpointState) -> Path:
    """Complete a draft that has its tensors already, rename it to step=N, and remove older checkpoints.

    `spec` is None for a checkpoint of another trainer, whose model is unknown. The manifest is written last.

    Raises:
        JobError: if the files include a link or a pipe, which readers would refuse.
    """
    path, target = folder / f".step={state.step}.draft", folder / f"step={state.step}"
    if spec is not None:
        (path / SPEC).write_text(spec.model_dump_json(indent=1))
    (path / STATE).write_text(state.model_dump_json(indent=1))
    files = tuple(record_of(path, file) for file in sorted(path.rglob("*")) if file.is_file())
    for record in files:
        sync(path / record.name)
    manifest = CheckpointManifest(step=state.step, files=files)
    write_whole(path / MANIFEST_NAME, manifest.model_dump_json(indent=1))
    if target.exists():
        shutil.rmtree(target)
    path.rename(target)
    sync(folder)
    for old in _numbered(folder)[MAX_KEPT:]:
        shutil.rmtree(old)
    return target


def newest(folder: Path) -> Path | None:
    """Return the newest undamaged checkpoint, or None. Log the damaged checkpoints that are skipped."""
    for path in _numbered(folder):
        fault = damage(path)
        if fault is None:
            return path
        log(f"{path.name} is skipped: {fault}")
    return None


def newest_step(folder: Path) -> int:
    """Return the step in the name of the newest checkpoint, or 0 if there is none.

    Progress displays use it; the checkpoint isn't verified.
    """
    return max((step for step, _ in numbered(folder, STEP)), default=0)


def read_state(checkpoint: Path) -> CheckpointState:
    """Read the state of a checkpoint."""
    return read_part(CheckpointState, checkpoint, STATE)


def _numbered(folder: Path) -> list[Path]:
    """Return the checkpoints in `folder`, the newest first."""
    return [path for _, path in numbered(folder, STEP)][::-1]


class Saver:
    """Writer of a run's checkpoints. All ranks must make the same calls."""

    def __init__(self, folder: Path, train_state: TrainState, last: Path | None = None) -> None:
        self.folder, self.train_state = folder, train_state
        self.last = last
        """Newest complete checkpoint."""
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[Path | None] | None = None

    def save(self, state: CheckpointState, *, portable: bool = False) -> None:
        """Copy the content of a checkpoint, and write it in a background thread.

        A single rank writes the portable form. Several ranks write shards. With `portable`, rank 0 gathers
        everything and writes the portable form.

        Raises:
            JobError: on every rank, if the previous checkpoint could not be written.
        """
        self.wait()
        if portable or self.train_state.ranks.size == 1:
            taken = snapshot(self.train_state, state)
            if self.train_state.ranks.leads:
                self._pending = self._threads.submit(write, self.folder, taken)
        else:
            self._pending = self._shards(state)

    def wait(self) -> Path | None:
        """Wait until no checkpoint is being written, and return the newest complete checkpoint.

        Raises:
            JobError: on every rank, if a checkpoint could not be written; the previous one is kept.
        """
        ranks = self.train_state.ranks
        written = ranks.gather(ranks.run_together(self._written), PATH_OR_NONE)[0]
        self.last = written or self.last
        return self.last

    def close(self) -> None:
        """Finish writing. Errors are logged instead of raised, because the run has already ended."""
        try:
            self._written()
        except CurriculumError as failed:
            log(str(failed))
        self._threads.shutdown()

    def _shards(self, state: CheckpointState) -> "Future[Path | None]":
        # torch's distributed checkpoints take half a second to import, and a single rank doesn't need them.
        from curriculum.train import sharded

        ranks = self.train_state.ranks
        draft = ranks.broadcast_first(lambda: new_draft(self.folder, state.step), PATH)
        shards = sharded.start(draft / SHARDS, self.train_state)
        spec = self.train_state.model.spec

        def finish() -> Path | None:
            shards.result()
            return publish(self.folder, spec, state) if ranks.leads else None

        return self._threads.submit(finish)

    def _written(self) -> Path | None:
        """Wait until this rank's write is complete; raise an error if it failed."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        failed = pending.exception()
        if failed is None:
            return pending.result()
        root = _root_of(failed)
        if not isinstance(root, OSError):
            raise failed
        last = self.last.name if self.last else "its start"
        named = refusal(root, self.folder)
        cure = "Free some space" if no_room(root) else named.cure if named else "Fix the cause"
        raise JobError(
            str(self.folder),
            root.strerror or str(root),
            cause="a checkpoint could not be written, so the run ended",
            cure=f"{cure}; the same command resumes from {last}",
        ) from failed


def _root_of(failed: BaseException) -> BaseException:
    """Return the operating system's error that made a save fail, or else the failure itself."""
    seen: list[BaseException] = [failed]
    for error in seen:
        if isinstance(error, OSError):
            return error
        seen += [cause for cause in (error.__cause__, error.__context__) if cause is not None]
        failures = getattr(error, "failures", {})
        seen += [wrapped[0] for wrapped in failures.values()]
    return failed
