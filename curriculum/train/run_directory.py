"""Key and directory of a run. A run is open until its manifest exists; one process at a time owns it."""

import contextlib
import importlib.util
import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import filelock

from curriculum.store import Artefact, Input, Recipe, Store, inside, read_mark
from curriculum.store.gc import discarded
from curriculum.store.owners import launch_lock, launcher_record, this_process, train_lock
from curriculum.whole_files import write_whole
from schemas.cures import cure_of, set_aside
from schemas.errors import JobError
from schemas.job import Job, Report, RunState
from schemas.json_text import of_version, read_json
from schemas.manifest import MANIFEST_NAME, read_manifest
from schemas.run_folders import ATTEMPT, number_of, numbered

REVISION = 4
WHICH_RUN = (
    "schema_version",
    "specialist",
    "branch",
    "phase",
    "run_key",
    "attempt",
    "begun",
    "ordinal",
    "overrides",
)
"""Fields of a job that identify the run but don't affect training."""
_NO_PART_OF_THE_KEY = {
    *WHICH_RUN,
    *("tokenizer", "plan", "plan_key", "plan_content", "rows", "start_from", "evaluations"),
    *(
        "device",
        "threads",
        "processes",
        "context_parallel",
        "workers",
        "recompute",
        "checkpoint_every",
    ),
    *("writers", "gpu_price"),
}


def run_recipe(job: Job) -> Recipe:
    """Return the recipe of a run. Its key doesn't depend on names, paths, threads or devices.

    A backend is part of the key only if the diet names it, not if the training process chooses it.
    """
    left_to_choice = {"backend"} if job.backend == "auto" else set()
    config = job.model_dump(mode="json", exclude=_NO_PART_OF_THE_KEY | left_to_choice)
    config["evaluations"] = [
        evaluation.model_dump(mode="json", exclude={"strata": {"__all__": {"rows", "positions"}}})
        for evaluation in job.evaluations
    ]
    labels = [("specialist", job.specialist), ("phase", job.phase)]
    if job.branch is not None:
        labels.insert(1, ("branch", job.branch))
    return Recipe(
        stage="runs",
        labels=tuple(labels),
        revision=REVISION,
        config=config,
        inputs=_inputs(job),
        tools={"torch": torch_build().version},
        alternate_folders=(
            f"runs/specialist-*/phase-{job.phase}",
            f"runs/specialist-*/branch-*/phase-{job.phase}",
        ),
    )


def finished(store: Store, job: Job) -> Artefact | None:
    """Return the latest finished attempt of a job, or None.

    An unfinished attempt never replaces a finished one.
    """
    closed = list(filter(is_finished, attempts(store.path_of(run_recipe(job)))))
    return store.load(closed[-1]) if closed else None


def resumable(folder: Path) -> Path | None:
    """Return the attempt that training would resume: the latest one, or None if it is finished."""
    newest = attempts(folder)[-1:]
    return newest[0] if newest and not is_finished(newest[0]) else None


def is_finished(attempt: Path) -> bool:
    """Return True if an attempt has a manifest."""
    return (attempt / MANIFEST_NAME).is_file()


def attempts(folder: Path) -> list[Path]:
    """Return all attempts of a run in the order of their numbers."""
    return [path for _, path in numbered(folder, ATTEMPT)]


def attempt_number(attempt: Path) -> int:
    """Return the number of an attempt from the name of its directory; 0 for any other directory."""
    return number_of(attempt.name, ATTEMPT) or 0


def last_number(store: Store, folder: Path) -> int:
    """Return the highest attempt number that a run has ever had, as far as the workspace shows; 0 for none.

    The attempts may exist, be in the trash of gc, or be named in current/*.txt.
    """
    place = folder.relative_to(store.root).as_posix()
    pinned = (
        Path(line)
        for file in (store.root / "current").glob("*.txt")
        for line in read_mark(file)
        if line.startswith(f"{place}/{ATTEMPT}")
    )
    known = [*attempts(folder), *discarded(store.root, f"{place}/{ATTEMPT}*"), *pinned]
    return max(map(attempt_number, known), default=0)


def last_ordinal(store: Store) -> int:
    """Return the highest ordinal of all attempts in a workspace; 0 if there are none.

    Jobs that can't be read are ignored here. Their fault is reported when their run is read.
    """
    jobs = (inside.read(Job, file) for file in (store.root / "runs").rglob(JOB))
    return max((job.ordinal for job in jobs if job is not None), default=0)


def _inputs(job: Job) -> tuple[Input, ...]:
    inputs = [
        Input(name="plan", key=job.plan_key, content=job.plan_content),
        Input(name="tokenizer", key=job.tokenizer.key, content=job.tokenizer.content),
        *(Input(name="rows", key=rows.key, content=rows.content) for rows in job.rows),
        *(
            Input(
                name=f"evaluation {evaluation.set} {evaluation.phase} {number}",
                key=stratum.rows.key,
                content=stratum.rows.content,
            )
            for evaluation in job.evaluations
            for number, stratum in enumerate(evaluation.strata)
        ),
    ]
    if job.start_from is not None:
        start = job.start_from
        inputs.append(Input(name="previous", key=start.run_key, content=start.run_content))
    return tuple(inputs)


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchBuild:
    """Installed torch build."""

    version: str
    is_for_gpus: bool
    """False for a build that supports only CPUs."""


@cache
def torch_build() -> TorchBuild:
    """Return the installed torch build without importing torch, which takes seconds."""
    found = importlib.util.find_spec("torch")
    assert found is not None, "torch isn't installed"
    assert found.origin is not None
    said = runpy.run_path(str(Path(found.origin).with_name("version.py")))
    return TorchBuild(
        version=str(said["__version__"]),
        is_for_gpus=any(said.get(name) is not None for name in ("cuda", "hip", "xpu")),
    )


JOB, STATE, REPORT, LOG = "job.json", "state.json", "report.json", "train.log"
CHECKPOINTS, METRICS, HEARTBEAT = "checkpoints", "metrics", "heartbeat.json"
EVALUATIONS = "evaluations"
LEAKCHECK = "leakcheck.json"
ENDING_SECONDS = 10.0
"""Seconds to wait for a lock of a killed process.

The system frees the memory of a process before its locks, which takes seconds on a busy machine.
"""


def read_job(path: Path) -> Job:
    """Read the job in a file.

    Raises:
        JobError: if the file is missing or isn't a job.
    """
    if not path.is_file():
        raise JobError(
            str(path), cause="the file doesn't exist", cure="Give the path of a job.json"
        )
    return read_json(
        Job,
        path,
        error=JobError,
        cause="it isn't a job of this version, or it was changed after it was written",
        cure=set_aside(path.absolute().parent),
    )


def read_report(directory: Path) -> Report:
    """Read the report of an attempt: from the manifest if the attempt is finished, else from report.json.

    Raises:
        JobError: if the file is missing or was changed.
    """
    file, manifest = directory / REPORT, directory / MANIFEST_NAME
    if manifest.is_file():
        kept = read_manifest(manifest)
        return of_version(Report, kept.report, kept.schema_version)
    if not file.is_file():
        raise JobError(str(file), cause="the report doesn't exist", cure="Train the phase again")
    return read_json(
        Report,
        file,
        error=JobError,
        cause="it isn't a report of this version, or it was changed after it was written",
        cure=cure_of(file.absolute()),
    )


@contextlib.contextmanager
def claim_directory(store: Store, job: Job, directory: Path) -> Iterator[None]:
    """Own the directory of a run. When this process dies, the system releases the lock.

    Partial files of a killed owner and the report of an earlier end are removed. Everything that the run
    reads is protected from gc, even after the launcher has ended. Links that lead out of the directory are
    refused, because job.json may come from anywhere.

    Raises:
        JobError: if another process trains the run; names the process.
        StoreError: for a link, a device, a pipe or a socket in the directory, or a link above it in the
            workspace.
    """
    inside.require_plain_below(store.root, directory)
    lock = _acquired(store, job, directory)
    try:
        with store.leased():
            store.use([run_recipe(job)])
            for draft in directory.rglob(".*.draft"):
                inside.remove(draft)
            (directory / REPORT).unlink(missing_ok=True)
            write_whole(directory / STATE, this_process().model_dump_json(indent=1))
            yield
    finally:
        (directory / STATE).unlink(missing_ok=True)
        (directory / HEARTBEAT).unlink(missing_ok=True)
        lock.release()


def require_unclaimed(store: Store, job: Job, directory: Path) -> None:
    """Raise if a process is training the run.

    Raises:
        JobError: names the process.
    """
    _acquired(store, job, directory).release()


@contextlib.contextmanager
def lock_launch(store: Store, job: Job, say: Callable[[str], None]) -> Iterator[None]:
    """Ensure that only one process launches a run, including all attempts and the time it waits for a slot.

    If another process is launching the run, call `say` once with the name of that process, and wait.
    """
    owner = inside.lock(store.root, launcher_record(store.root, job.run_key).name)
    file = inside.lock(store.root, launch_lock(store.root, job.run_key).name)
    lock = filelock.FileLock(file)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        say(f"waiting for {_process_of(owner)}, which is training this run")
        lock.acquire()
    try:
        write_whole(owner, this_process().model_dump_json(indent=1))
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def _acquired(store: Store, job: Job, directory: Path) -> filelock.BaseFileLock:
    name = train_lock(store.root, job.run_key, job.attempt).name
    lock = filelock.FileLock(inside.lock(store.root, name), timeout=ENDING_SECONDS)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise JobError(
            str(directory),
            _process_of(directory / STATE),
            cause="this process is training the run now",
            cure="Wait until the process has ended, or end it",
        ) from None
    return lock


def _process_of(owner: Path) -> str:
    """Return a description of the process that is recorded in a state.json."""
    there = inside.read(RunState, owner)
    return f"process {there.pid} on {there.host}" if there else "another process"
