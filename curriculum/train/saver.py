"""Checkpoints written while training goes on: one at a time, and its failure is the trainer's."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from curriculum.store import no_room, refusal
from curriculum.train import checkpoint, sharded
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.checkpoint_files import SHARDS
from curriculum.train.metrics import log
from curriculum.train.optimizer import TrainState
from schemas.errors import CurriculumError, JobError


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
            taken = checkpoint.snapshot(self.train_state, state)
            if self.train_state.ranks.leads:
                self._pending = self._threads.submit(checkpoint.write, self.folder, taken)
        else:
            self._pending = self._shards(state)

    def wait(self) -> Path | None:
        """The newest whole checkpoint, once nothing is being written any more.

        Raises:
            JobError: on every rank, where it could not be written; the one before stays.
        """
        written = self.train_state.ranks.together(self._written)[0]
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
        ranks = self.train_state.ranks
        draft = ranks.from_first(lambda: checkpoint.new_draft(self.folder, state.step))
        shards = sharded.start(draft / SHARDS, self.train_state)
        spec = self.train_state.model.spec

        def finish() -> Path | None:
            shards.result()
            return checkpoint.publish(self.folder, spec, state) if ranks.leads else None

        return self._threads.submit(finish)

    def _written(self) -> Path | None:
        """Wait for what this rank is writing."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        failed = pending.exception()
        if failed is None:
            return pending.result()
        root = sharded.root_of(failed)
        if not isinstance(root, OSError):
            raise failed
        last = self.last.name if self.last else "its start"
        named = refusal(root, self.folder)
        cure = "Make room" if no_room(root) else named.cure if named else "See what it says"
        raise JobError(
            str(self.folder),
            root.strerror or str(root),
            cause="a checkpoint could not be written, so the run ended",
            cure=f"{cure}; the same command goes on from {last}",
        ) from failed
