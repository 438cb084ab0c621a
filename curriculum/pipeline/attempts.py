"""Attempts at runs: their names, their order, their states; and the artefacts that are current.

Two rules stand here, for all that reads runs. An attempt that isn't finished never replaces a finished one
(`current_attempt`, of one key `finished`). Attempts are ordered by the numbers in their jobs, never by time:
clocks may be set back, and a workspace can be copied or restored.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from curriculum.inspection.formats import count
from curriculum.store import Artefact, Store, read_mark
from curriculum.store.artefact import KEY_DIGITS
from curriculum.store.attempt_state import AttemptState, state_of_attempt
from curriculum.train.launch.gpu_slots import SlotRecord, Slots
from curriculum.train.run_directory import (
    CHECKPOINTS,
    JOB,
    attempt_number,
    is_finished,
    read_job,
    resumable,
)
from schemas.job import CheckpointRef, Heartbeat, Job, RunState
from schemas.label_folders import label_of
from schemas.manifest import MANIFEST_NAME
from schemas.run_folders import ATTEMPT, STEP, number_of, numbered
from schemas.specialist import SpecialistRef, file_stem, format_reference
from schemas.study import study_mark


def mark_current(store: Store, name: str, artefacts: Sequence[Artefact]) -> bool:
    """Let a name stand for these artefacts from now on, and catalog.sql read what is in use then.

    The result is False where the name stands for them already: nothing is written then but a workspace.json
    that was lost.
    """
    store.open()
    if store.is_marked(name, artefacts):
        return False
    # `status` loads this and asks nothing of DuckDB.
    from curriculum import catalog

    store.mark(name, artefacts)
    catalog.publish(store.root)
    return True


def current_artefacts(store: Store, stage: str) -> list[Artefact]:
    """Return the artefacts of a stage that the lists in current/ name, by path."""
    lines = {line for file in (store.root / "current").glob("*.txt") for line in read_mark(file)}
    marked = (store.root / line for line in sorted(lines) if line.startswith(f"{stage}/"))
    return [store.load(path) for path in marked if (path / MANIFEST_NAME).is_file()]


def names_of(ref: SpecialistRef) -> set[str]:
    """The whole name of a specialist and branch in each spelling that is accepted.

    >>> sorted(names_of(SpecialistRef("templates", "ux")))
    ['templates.ux', 'templates/ux']
    """
    parts = [each for each in ref if each]
    return {"/".join(parts), ".".join(parts)}


def specialist_of(artefact: Artefact) -> SpecialistRef:
    """The specialist and branch of a run or a mixture."""
    labels = artefact.manifest.labels
    return SpecialistRef(labels["specialist"], labels.get("branch"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """An attempt at a run, open or closed."""

    path: Path
    job: Job

    @staticmethod
    def at(path: Path) -> "Attempt":
        """The one in a directory runs/…/attempt=1."""
        return Attempt(path=path, job=read_job(path / JOB))

    @property
    def names(self) -> set[str]:
        """templates, templates/syntax, and with its branch templates/demo and templates.demo/syntax."""
        names = {self.job.specialist, *names_of(self.ref)}
        return {*names, *(f"{name}/{self.job.phase}" for name in names)}

    @property
    def ref(self) -> SpecialistRef:
        """Specialist and branch."""
        return SpecialistRef(self.job.specialist, self.job.branch)

    @property
    def name(self) -> str:
        """The name that is shown: templates/demo/syntax."""
        return format_reference(self.ref, self.job.phase)

    @property
    def is_finished(self) -> bool:
        """True once its manifest closes it."""
        return is_finished(self.path)

    @property
    def order(self) -> tuple[int, int]:
        """Its place among all attempts of the workspace, in the order in which they began."""
        return self.job.ordinal, attempt_number(self.path)

    @property
    def title(self) -> str:
        """The title of a run for a reader: templates/demo/syntax, attempt 1, 0123456789ab, and its study."""
        words = (self.name, f"attempt {self.job.attempt}", self.job.run_key[:KEY_DIGITS])
        return ", ".join(filter(None, (*words, study_mark(self.job.study))))


def current_attempt(
    attempts: Iterable[Attempt], marked: Collection[Path] = frozenset()
) -> Attempt | None:
    """Return the attempt that stands for a run or a phase, or None where none has begun.

    The newest finished one, of those that are marked where any is: an attempt that isn't finished never
    replaces a finished one. Where none is finished, the newest one.
    """

    def rank(attempt: Attempt) -> tuple[bool, bool, tuple[int, int]]:
        return attempt.path in marked, attempt.is_finished, attempt.order

    return max(attempts, key=rank, default=None)


def newest_unfinished(attempts: Iterable[Attempt], current: Artefact | None) -> Attempt | None:
    """Return the newest attempt, unless it is finished or the finished run `current` began after it."""
    newest = max(attempts, key=lambda attempt: attempt.order, default=None)
    if newest is None or newest.is_finished:
        return None
    if current is not None and newest.order < Attempt.at(current.path).order:
        return None
    return newest


def current_runs(store: Store, ref: SpecialistRef) -> dict[str, Artefact]:
    """Return the finished runs that are marked for a specialist, by phase, in the order in which they began.

    A run may lie with another specialist, whose phase is the same.
    """
    prefix = f"runs+{file_stem(ref)}+"
    found: dict[str, Artefact] = {}
    for file in (store.root / "current").glob(f"{prefix}*.txt"):
        for path in (store.root / line for line in read_mark(file)):
            phase = file.stem.removeprefix(prefix)
            if is_finished(path) and (run := store.load(path)).manifest.labels["phase"] == phase:
                found[phase] = run
    begun = {phase: Attempt.at(run.path).order for phase, run in found.items()}
    return {phase: found[phase] for phase in sorted(begun, key=begun.__getitem__)}


@dataclass(frozen=True, kw_only=True, slots=True)
class RunHistory:
    """The finished runs and the mixtures that are current, and the runs that each of them resumed."""

    store: Store
    runs: Mapping[Path, Artefact]
    """Finished runs by path."""
    plans: frozenset[str]
    """The contents of the mixtures."""
    unread: frozenset[tuple[SpecialistRef, str]]
    """Specialists and phases whose mixture only attempts that aren't finished have read."""

    @staticmethod
    def read(store: Store) -> "RunHistory":
        """Read the marks of a workspace."""
        runs = {run.path: run for run in current_artefacts(store, "runs")}
        plans = frozenset(artefact.content for artefact in current_artefacts(store, "mixtures"))
        read = [each for each in attempts_in(store) if each.job.plan_content in plans]
        begun = {(each.ref, each.job.phase) for each in read}
        done = {(each.ref, each.job.phase) for each in read if each.is_finished}
        return RunHistory(store=store, runs=runs, plans=plans, unread=frozenset(begun - done))

    def last(self, attempts: Iterable[Attempt]) -> Attempt | None:
        """Return the latest marked phase whose inputs are current, or None."""
        current = [attempt for attempt in attempts if self.is_current(attempt)]
        return max(current, key=self.position, default=None)

    def is_current(self, run: Attempt) -> bool:
        """Return True where a run and its mixture are marked, and the run that it continues is current.

        A mixture that only attempts that aren't finished have read replaces none.
        """
        is_mixed = run.job.plan_content in self.plans or (run.ref, run.job.phase) in self.unread
        if run.path not in self.runs or not is_mixed:
            return False
        start = self._entry(run)
        return start is None or any(
            (each.key, each.content) == (start.run_key, start.run_content)
            and self.is_current(Attempt.at(path))
            for path, each in self.runs.items()
        )

    def position(self, run: Attempt) -> tuple[int, tuple[int, int]]:
        """Return the number of phases before a run, then its order: the order of a curriculum."""
        number, start = 0, self._entry(run)
        while start is not None:
            number += 1
            before = self._attempt_of(start)
            start = None if before is None else self._entry(before)
        return number, run.order

    def _entry(self, run: Attempt) -> CheckpointRef | None:
        """The checkpoint at which a phase was entered, by the run or by the one that it continues from."""
        start = run.job.start_from
        before = None if start is None else self._attempt_of(start)
        if before is None or before.job.phase != run.job.phase:
            return start
        return self._entry(before)

    def _attempt_of(self, start: CheckpointRef) -> Attempt | None:
        """The run of a checkpoint, where it is still there."""
        folder = (self.store.root / start.path).parents[1]
        return Attempt.at(folder) if (folder / JOB).is_file() else None


def checkpoints(run: Path) -> Iterator[tuple[int, Path]]:
    """The steps that a run keeps a checkpoint of, and where."""
    for step, path in numbered(run / CHECKPOINTS, STEP):
        if (path / MANIFEST_NAME).is_file():
            yield step, path


def newest_checkpoint(run: Path) -> Path | None:
    """Return the checkpoint of the highest step that a run keeps, or None."""
    kept = dict(checkpoints(run))
    return kept[max(kept)] if kept else None


def resumed_step(run: Path) -> int:
    """Return the step of the last checkpoint of the attempt at a run that would be resumed; 0 for none."""
    attempt = resumable(run)
    return max((step for step, _ in checkpoints(attempt)), default=0) if attempt else 0


def attempts_in(store: Store) -> list[Attempt]:
    """Return all attempts at runs of a workspace, open and closed, in the order in which they began."""
    begun = map(Attempt.at, _folders(store))
    return sorted(begun, key=lambda attempt: attempt.order)


def open_attempts(store: Store) -> list[Attempt]:
    """Return the attempts of a workspace that aren't closed, in the order in which they began."""
    begun = (Attempt.at(folder) for folder in _folders(store) if not is_finished(folder))
    return sorted(begun, key=lambda attempt: attempt.order)


def _folders(store: Store) -> list[Path]:
    """Return the directories of all attempts at runs of a workspace, by path."""
    folders = (file.parent for file in (store.root / "runs").rglob(JOB))
    return sorted(folder for folder in folders if number_of(folder.name, ATTEMPT) is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotQueue:
    """Holders of this machine's slots, and jobs that wait for one, the first first."""

    holders: tuple[SlotRecord, ...]
    waiting: tuple[SlotRecord, ...]

    @staticmethod
    def read(slots: Slots) -> "SlotQueue":
        """Read the holders and the waiting jobs of some slots."""
        holders = tuple(holder for holder in slots.holders() if holder is not None)
        return SlotQueue(holders=holders, waiting=tuple(slots.line()))

    def why_waiting(self, run: Path) -> str | None:
        """Name the runs that a run waits for; None if it doesn't wait."""
        runs = [Path(each.run) for each in self.waiting]
        if run not in runs:
            return None
        ahead = runs.index(run)
        held = ", ".join(map(_holder_words, self.holders))
        behind = f", behind {ahead}" if ahead else ""
        return f"for a GPU slot{behind}; held by {held or 'another process'}"


def attempt_state(store: Store, attempt: Attempt, queue: SlotQueue) -> AttemptState:
    """Determine the state of an open attempt, in words."""
    if waits := queue.why_waiting(attempt.path):
        return AttemptState(state="waiting", why=waits)
    found = state_of_attempt(store.root, attempt.path, attempt.job)
    if found.state == "running" and found.owner is not None:
        return replace(found, why=_progress(found.owner, found.beat))
    return found


def _progress(owner: RunState, beat: Heartbeat | None) -> str:
    """Describe the progress of a run by its last heartbeat."""
    who = f"process {owner.pid} on {owner.host}"
    if beat is None:
        return f"begins; {who}"
    bits = "" if beat.val_bpb is None else f", val_bpb {beat.val_bpb:.3f}"
    speed = f"{count(beat.tokens_per_second)} tokens/s"
    return f"step {beat.step:,} of {beat.steps:,}, {speed}{bits}; {who}"


def _holder_words(holder: SlotRecord) -> str:
    """Describe the holder of a slot in short."""
    if holder.user:
        return f"user {holder.user}"
    who = f"process {holder.pid}" if holder.pid else "processes that its launcher left"
    return f"{who} with {_short(holder.run)}" if holder.run else "another process"


def _short(run: str) -> str:
    """A run's directory as its specialist and phase.

    >>> _short("/w/runs/specialist-fmt/branch-demo/phase-syntax/0a1b/attempt=1")
    'fmt/demo/syntax'
    """
    labels = map(label_of, run.rpartition("/runs/")[2].split("/"))
    return "/".join(value for name, value in labels if name in ("specialist", "branch", "phase"))
