"""Attempts at runs: their names, order and states, and the artefacts that are current.

Two rules apply everywhere. An unfinished attempt never replaces a finished one: see `current_attempt`, and
`finished` for the attempts with one key. Attempts are ordered by the numbers in their jobs, never by time,
because clocks may be set back, and workspaces may be copied or restored.
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
    """Mark artefacts as current under a name, update catalog.sql, and return True.

    If they are already marked, return False; only a lost workspace.json is written again.
    """
    store.open()
    if store.is_marked(name, artefacts):
        return False
    # Deferred, because `status` imports this module and doesn't need DuckDB.
    from curriculum import catalog

    store.mark(name, artefacts)
    catalog.publish(store.root)
    return True


def current_artefacts(store: Store, stage: str) -> list[Artefact]:
    """Return the artefacts of a stage that are marked in current/, sorted by path."""
    lines = {line for file in (store.root / "current").glob("*.txt") for line in read_mark(file)}
    marked = (store.root / line for line in sorted(lines) if line.startswith(f"{stage}/"))
    return [store.load(path) for path in marked if (path / MANIFEST_NAME).is_file()]


def names_of(ref: SpecialistRef) -> set[str]:
    """Return all spellings of a specialist with its branch that commands accept.

    >>> sorted(names_of(SpecialistRef("templates", "ux")))
    ['templates.ux', 'templates/ux']
    """
    parts = [part for part in ref if part]
    return {"/".join(parts), ".".join(parts)}


def specialist_of(artefact: Artefact) -> SpecialistRef:
    """Return the specialist and the branch that a run or mixture belongs to."""
    labels = artefact.manifest.labels
    return SpecialistRef(labels["specialist"], labels.get("branch"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """An attempt at a run; it is open until its manifest is written, then finished."""

    path: Path
    job: Job

    @staticmethod
    def at(path: Path) -> "Attempt":
        """Return the attempt in a directory like runs/…/attempt=1."""
        return Attempt(path=path, job=read_job(path / JOB))

    @property
    def names(self) -> set[str]:
        """Names that commands accept, for example templates/syntax, or templates.ux/syntax with a branch."""
        names = {self.job.specialist, *names_of(self.ref)}
        return {*names, *(f"{name}/{self.job.phase}" for name in names)}

    @property
    def ref(self) -> SpecialistRef:
        """Specialist and branch."""
        return SpecialistRef(self.job.specialist, self.job.branch)

    @property
    def name(self) -> str:
        """Name to display, for example templates/demo/syntax."""
        return format_reference(self.ref, self.job.phase)

    @property
    def is_finished(self) -> bool:
        """True if the attempt has a manifest."""
        return is_finished(self.path)

    @property
    def order(self) -> tuple[int, int]:
        """Sort key that puts all attempts of a workspace in the order in which they were started."""
        return self.job.ordinal, attempt_number(self.path)

    @property
    def title(self) -> str:
        """Title to display, for example templates/demo/syntax, attempt 1, 0123456789ab.

        The last part is the start of the key. For a run of a study, the study follows.
        """
        words = (self.name, f"attempt {self.job.attempt}", self.job.run_key[:KEY_DIGITS])
        return ", ".join(filter(None, (*words, study_mark(self.job.study))))


def current_attempt(
    attempts: Iterable[Attempt], marked: Collection[Path] = frozenset()
) -> Attempt | None:
    """Return the attempt that represents a run or phase, or None if there are no attempts.

    This is the newest finished attempt, and among finished attempts a marked one is preferred. The newest
    unfinished attempt is returned only if no attempt is finished.
    """

    def rank(attempt: Attempt) -> tuple[bool, bool, tuple[int, int]]:
        return attempt.path in marked, attempt.is_finished, attempt.order

    return max(attempts, key=rank, default=None)


def newest_unfinished(attempts: Iterable[Attempt], current: Artefact | None) -> Attempt | None:
    """Return the newest attempt if it is unfinished and newer than the finished run `current`, else None."""
    newest = max(attempts, key=lambda attempt: attempt.order, default=None)
    if newest is None or newest.is_finished:
        return None
    if current is not None and newest.order < Attempt.at(current.path).order:
        return None
    return newest


def current_runs(store: Store, ref: SpecialistRef) -> dict[str, Artefact]:
    """Return the finished runs that are marked for a specialist, by phase, in the order of their start.

    A marked run may belong to another specialist that has the same phase.
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
    """The finished runs and the mixtures that are current, and the chain of runs that each run continued."""

    store: Store
    runs: Mapping[Path, Artefact]
    """Finished runs by path."""
    plans: frozenset[str]
    """Contents (digests) of the current mixtures."""
    unread: frozenset[tuple[SpecialistRef, str]]
    """Specialists with phases whose current mixture has been read by unfinished attempts only."""

    @staticmethod
    def read(store: Store) -> "RunHistory":
        """Return the history of a workspace according to its marks."""
        runs = {run.path: run for run in current_artefacts(store, "runs")}
        plans = frozenset(artefact.content for artefact in current_artefacts(store, "mixtures"))
        read = [attempt for attempt in attempts_in(store) if attempt.job.plan_content in plans]
        begun = {(attempt.ref, attempt.job.phase) for attempt in read}
        done = {(attempt.ref, attempt.job.phase) for attempt in read if attempt.is_finished}
        return RunHistory(store=store, runs=runs, plans=plans, unread=frozenset(begun - done))

    def last(self, attempts: Iterable[Attempt]) -> Attempt | None:
        """Return the run of the latest phase that is marked and whose inputs are current, or None."""
        current = [attempt for attempt in attempts if self.is_current(attempt)]
        return max(current, key=self.position, default=None)

    def is_current(self, run: Attempt) -> bool:
        """Return True if a run is current, and so are its mixture and the run that it continues.

        A mixture that only unfinished attempts have read doesn't replace an earlier one.
        """
        is_mixed = run.job.plan_content in self.plans or (run.ref, run.job.phase) in self.unread
        if run.path not in self.runs or not is_mixed:
            return False
        start = self._entry(run)
        return start is None or any(
            (artefact.key, artefact.content) == (start.run_key, start.run_content)
            and self.is_current(Attempt.at(path))
            for path, artefact in self.runs.items()
        )

    def position(self, run: Attempt) -> tuple[int, tuple[int, int]]:
        """Return the sort key of a run: the number of phases before it, and then the order of its start."""
        number, start = 0, self._entry(run)
        while start is not None:
            number += 1
            before = self._attempt_of(start)
            start = None if before is None else self._entry(before)
        return number, run.order

    def _entry(self, run: Attempt) -> CheckpointRef | None:
        """Return the checkpoint from which the phase of `run` started.

        If the run continues another run of the same phase, this is the start of that run.
        """
        start = run.job.start_from
        before = None if start is None else self._attempt_of(start)
        if before is None or before.job.phase != run.job.phase:
            return start
        return self._entry(before)

    def _attempt_of(self, start: CheckpointRef) -> Attempt | None:
        """Return the attempt that a checkpoint belongs to, or None if it was moved away."""
        folder = (self.store.root / start.path).parents[1]
        return Attempt.at(folder) if (folder / JOB).is_file() else None


def checkpoints(run: Path) -> Iterator[tuple[int, Path]]:
    """Yield the step and the path of each checkpoint that a run has saved."""
    for step, path in numbered(run / CHECKPOINTS, STEP):
        if (path / MANIFEST_NAME).is_file():
            yield step, path


def newest_checkpoint(run: Path) -> Path | None:
    """Return the last saved checkpoint of a run, or None."""
    kept = dict(checkpoints(run))
    return kept[max(kept)] if kept else None


def resumed_step(run: Path) -> int:
    """Return the last saved step of the attempt that a run would resume; 0 if there is none."""
    attempt = resumable(run)
    return max((step for step, _ in checkpoints(attempt)), default=0) if attempt else 0


def attempts_in(store: Store) -> list[Attempt]:
    """Return all attempts of a workspace, open and finished, in start order."""
    begun = map(Attempt.at, _folders(store))
    return sorted(begun, key=lambda attempt: attempt.order)


def open_attempts(store: Store) -> list[Attempt]:
    """Return the open attempts of a workspace in start order."""
    begun = (Attempt.at(folder) for folder in _folders(store) if not is_finished(folder))
    return sorted(begun, key=lambda attempt: attempt.order)


def _folders(store: Store) -> list[Path]:
    folders = (file.parent for file in (store.root / "runs").rglob(JOB))
    return sorted(folder for folder in folders if number_of(folder.name, ATTEMPT) is not None)


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotQueue:
    """Runs that hold this machine's GPU slots, and runs that wait for a slot, in order."""

    holders: tuple[SlotRecord, ...]
    waiting: tuple[SlotRecord, ...]

    @staticmethod
    def read(slots: Slots) -> "SlotQueue":
        """Return the current queue for `slots`."""
        holders = tuple(holder for holder in slots.holders() if holder is not None)
        return SlotQueue(holders=holders, waiting=tuple(slots.line()))

    def why_waiting(self, run: Path) -> str | None:
        """Return a text that names the runs that a run waits for; None if it doesn't wait."""
        runs = [Path(record.run) for record in self.waiting]
        if run not in runs:
            return None
        ahead = runs.index(run)
        held = ", ".join(map(_holder_words, self.holders))
        behind = f", behind {ahead}" if ahead else ""
        return f"for a GPU slot{behind}; held by {held or 'another process'}"


def attempt_state(store: Store, attempt: Attempt, queue: SlotQueue) -> AttemptState:
    """Return the state of an open attempt, with a description of its progress."""
    if waits := queue.why_waiting(attempt.path):
        return AttemptState(state="waiting", why=waits)
    found = state_of_attempt(store.root, attempt.path, attempt.job)
    if found.state == "running" and found.owner is not None:
        return replace(found, why=_progress(found.owner, found.beat))
    return found


def _progress(owner: RunState, beat: Heartbeat | None) -> str:
    """Return the progress of a run as text, from its last heartbeat."""
    who = f"process {owner.pid} on {owner.host}"
    if beat is None:
        return f"starting; {who}"
    bits = "" if beat.val_bpb is None else f", val_bpb {beat.val_bpb:.3f}"
    speed = f"{count(beat.tokens_per_second)} tokens/s"
    return f"step {beat.step:,} of {beat.steps:,}, {speed}{bits}; {who}"


def _holder_words(holder: SlotRecord) -> str:
    if holder.user:
        return f"user {holder.user}"
    who = f"process {holder.pid}" if holder.pid else "processes that outlived their launcher"
    return f"{who} with {_short(holder.run)}" if holder.run else "another process"


def _short(run: str) -> str:
    """Return specialist, branch and phase from the path of a run's directory.

    >>> _short("/w/runs/specialist-fmt/branch-demo/phase-syntax/0a1b/attempt=1")
    'fmt/demo/syntax'
    """
    labels = map(label_of, run.rpartition("/runs/")[2].split("/"))
    return "/".join(value for name, value in labels if name in ("specialist", "branch", "phase"))
