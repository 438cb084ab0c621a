"""Checkpoints: weights, Adam's moments, generators and cursor; valid when their own manifest stands.

    checkpoints/step=120/model.safetensors  optimizer.safetensors  model.json  state.json  manifest.json

This portable form holds tensors and JSON only, nothing that runs when it is read, and is the same bytes
for the same values. Each phase ends in it. What several ranks write on their way has shards/ in place of
the two files of tensors, each rank its own part (sharded.py). Any number of ranks reads either form.
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
from curriculum.train.optimizer import TrainState, generators, is_moment, tensors, whole
from curriculum.train.tensor_file import write_tensors
from curriculum.whole_files import sync, write_whole
from schemas.errors import CurriculumError, JobError
from schemas.job import Figure, Job, ModelSpec, TokenCounts
from schemas.manifest import MANIFEST_NAME
from schemas.run_folders import STEP, numbered
from schemas.text import Strict

KEPT = 2


class CheckpointState(Strict):
    """Progress of a run at a checkpoint; `slot` is the data cursor."""

    step: int = 0
    slot: int = 0
    tokens: TokenCounts = TokenCounts(positions=0, valid=0, scored=0, bytes=0)
    figures: tuple[Figure, ...] = ()
    """Figures of all evaluations, strata and weighted means."""
    device: str = ""
    backend: str = ""
    """Device and backend of the last steps; empty where another trainer doesn't say."""
    switched: tuple[str, ...] = ()
    """Changes of device or backend by resumes."""

    def computed_by(self, device: str, backend: str) -> "CheckpointState":
        """The same state, from here on continued by a device and a backend; a change is logged and kept."""
        was, becomes = (self.backend, self.device), (backend, device)
        switched = self.switched
        if any(was) and was != becomes:
            change = f"{' on '.join(becomes)} from step {self.step} on, {' on '.join(was)} before"
            switched = (*switched, change)
            log(f"attention  {change}; bits may differ from those of a run without a stop")
        update = {"device": device, "backend": backend, "switched": switched}
        return self.model_copy(update=update)

    def measured(self, figures: tuple[Figure, ...]) -> "CheckpointState":
        """The state with the figures of one more evaluation; those of the same step are replaced."""
        kept = tuple(figure for figure in self.figures if figure.step != self.step)
        return self.model_copy(update={"figures": kept + figures})

    def advanced(self, job: Job, counts: TokenCounts) -> "CheckpointState":
        """The state one step of `job` later, by what that step consumed."""
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
    """Copy of the content of a portable checkpoint: training continues while it is written."""

    spec: ModelSpec
    state: CheckpointState
    weights: dict[str, Tensor] = field(default_factory=dict)
    moments: dict[str, Tensor] = field(default_factory=dict)
    """Adam's moments, and the states of the generators."""


def snapshot(train_state: TrainState, state: CheckpointState) -> CheckpointCopy:
    """A copy on the host of what rank 0 writes; every rank calls this, the others keep no tensors."""
    taken = CheckpointCopy(spec=train_state.model.spec, state=state)
    for name, tensor in tensors(train_state):
        gathered = whole(tensor)
        if train_state.ranks.leads:
            part = taken.moments if is_moment(name, taken.weights) else taken.weights
            part[name] = gathered.to("cpu", copy=True)
    for states in train_state.ranks.gathered_tensors(generators(train_state)):
        taken.moments.update(states)
    return taken


def save(folder: Path, train_state: TrainState, state: CheckpointState) -> Path:
    """Write the portable checkpoint `folder`/step=N whole, drop all but the newest two, return its path."""
    return write(folder, snapshot(train_state, state))


def write(folder: Path, taken: CheckpointCopy) -> Path:
    """Write a snapshot as `save` does."""
    path = new_draft(folder, taken.state.step)
    write_tensors(taken.weights, path / WEIGHTS)
    write_tensors(taken.moments, path / MOMENTS)
    return publish(folder, taken.spec, taken.state)


def new_draft(folder: Path, step: int) -> Path:
    """An empty folder in which a checkpoint is written until it is whole."""
    path = folder / f".step={step}.draft"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def publish(folder: Path, spec: ModelSpec | None, state: CheckpointState) -> Path:
    """Complete a draft that holds its tensors, manifest last, and let it appear; older ones go.

    `spec` is None for what another trainer wrote, whose model is its own affair.

    Raises:
        JobError: for a link or a pipe among the files, which no reader would take.
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
    for old in _numbered(folder)[KEPT:]:
        shutil.rmtree(old)
    return target


def newest(folder: Path) -> Path | None:
    """The newest checkpoint that is whole; damaged ones are named and passed over."""
    for path in _numbered(folder):
        fault = damage(path)
        if fault is None:
            return path
        log(f"{path.name} is passed over: {fault}")
    return None


def newest_step(folder: Path) -> int:
    """The step of the newest checkpoint by its name alone, for progress; 0 for none."""
    return max((step for step, _ in numbered(folder, STEP)), default=0)


def read_state(checkpoint: Path) -> CheckpointState:
    """Read the state of a checkpoint."""
    return read_part(CheckpointState, checkpoint, STATE)


def _numbered(folder: Path) -> list[Path]:
    """Checkpoints, newest first."""
    return [path for _, path in numbered(folder, STEP)][::-1]


class Saver:
    """Writes the checkpoints of a run; every rank makes the same calls."""

    def __init__(self, folder: Path, train_state: TrainState, last: Path | None = None) -> None:
        self.folder, self.train_state = folder, train_state
        self.last = last
        """The newest whole checkpoint."""
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._pending: Future[Path | None] | None = None

    def save(self, state: CheckpointState, *, portable: bool = False) -> None:
        """Copy what a checkpoint holds, and write it from a thread.

        One rank writes the portable form; several write their shards, or are gathered where it must be
        portable.

        Raises:
            JobError: on every rank, where the checkpoint before could not be written.
        """
        self.wait()
        if portable or self.train_state.ranks.size == 1:
            taken = snapshot(self.train_state, state)
            if self.train_state.ranks.leads:
                self._pending = self._threads.submit(write, self.folder, taken)
        else:
            self._pending = self._shards(state)

    def wait(self) -> Path | None:
        """The newest whole checkpoint, once nothing is being written any more.

        Raises:
            JobError: on every rank, where it could not be written; the one before stays.
        """
        ranks = self.train_state.ranks
        written = ranks.gathered(ranks.together(self._written), PATH_OR_NONE)[0]
        self.last = written or self.last
        return self.last

    def close(self) -> None:
        """Let what is being written be finished; for a run that failed otherwise."""
        try:
            self._written()
        except CurriculumError as failed:
            log(str(failed))
        self._threads.shutdown()

    def _shards(self, state: CheckpointState) -> "Future[Path | None]":
        # torch's distributed checkpoints take half a second to import, and one rank writes none.
        from curriculum.train import sharded

        ranks = self.train_state.ranks
        draft = ranks.from_first(lambda: new_draft(self.folder, state.step), PATH)
        shards = sharded.start(draft / SHARDS, self.train_state)
        spec = self.train_state.model.spec

        def finish() -> Path | None:
            shards.result()
            return publish(self.folder, spec, state) if ranks.leads else None

        return self._threads.submit(finish)

    def _written(self) -> Path | None:
        """Wait for what this rank is writing."""
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
        cure = "Free some space" if no_room(root) else named.cure if named else "See what it says"
        raise JobError(
            str(self.folder),
            root.strerror or str(root),
            cause="a checkpoint could not be written, so the run ended",
            cure=f"{cure}; the same command resumes from {last}",
        ) from failed


def _root_of(failed: BaseException) -> BaseException:
    """The operating system's error behind a failed save, else the failure itself."""
    seen: list[BaseException] = [failed]
    for each in seen:
        if isinstance(each, OSError):
            return each
        seen += [cause for cause in (each.__cause__, each.__context__) if cause is not None]
        failures = getattr(each, "failures", {})
        seen += [wrapped[0] for wrapped in failures.values()]
    return failed
