"""`python -m curriculum.train.bundle FOLDER`: train the arms of a bundle within a time limit.

`curriculum ablate --bundle` writes the folder. Training needs no corpus, no server and no network. The
same command resumes where training stopped, and reports how much is left.

Exit codes: 0 all arms are trained; 1 a training failed, and the last line says why; 2 the command line is
wrong; 75 the time was up, or a stop was requested. After 75, the same command resumes.
"""

import argparse
import shlex
import signal
import sys
from pathlib import Path

from curriculum.exposure import (
    exposure,
    exposure_below,
    is_trusted_by_environment,
    keep_others_out,
    real_path,
)
from curriculum.store import Artefact, Store, refusal
from curriculum.store.inside import require_plain
from curriculum.train.job import JobInputs, make_job
from curriculum.train.launch.gpu_slots import Machine
from curriculum.train.launch.launcher import GRACE_SECONDS, Launch
from curriculum.train.processes import CANCELLED
from curriculum.train.run import train
from curriculum.whole_files import write_whole
from schemas.bundle import Bundle, BundledArm, BundledPhase, BundledRuns
from schemas.errors import CurriculumError, JobError, StoreError
from schemas.job import Job
from schemas.json_text import read_json

BUNDLE, RUNS = "bundle.json", "runs.json"


def read_bundle(folder: Path) -> Bundle:
    """Read the bundle in a folder.

    Raises:
        JobError: if the folder contains no bundle, or the bundle was changed.
    """
    file = folder / BUNDLE
    if not file.is_file():
        raise JobError(
            str(file), cause="the file doesn't exist", cure="Give a folder that contains a bundle"
        )
    return read_json(
        Bundle,
        file,
        error=JobError,
        cause="it isn't a bundle of this version, or it was changed after it was written",
        cure="Write the bundle again: curriculum ablate FILE --bundle FOLDER",
    )


def read_runs(folder: Path) -> BundledRuns:
    """Read the file that lists the trained arms of a bundle.

    Raises:
        JobError: if the file was changed.
    """
    file = folder / RUNS
    if not file.is_file():
        return BundledRuns(runs={})
    return read_json(
        BundledRuns,
        file,
        error=JobError,
        cause="it isn't a record of trained arms, or it was changed after it was written",
        cure="Remove the file and train the bundle again; finished trainings are reused",
    )


def train_arm(store: Store, arm: BundledArm, machine: Machine) -> list[Artefact]:
    """Return the runs of an arm's phases, and train those that don't exist. End at a run that was stopped."""
    runs: list[Artefact] = []
    for phase in arm.phases:
        job = job_of(store, arm, phase, machine, previous=runs[-1] if runs else None)
        run = train(store, job, launch=Launch(tell=_tell))
        if run.artefact is None:
            break
        runs.append(run.artefact)
    return runs


def job_of(
    store: Store,
    arm: BundledArm,
    phase: BundledPhase,
    machine: Machine,
    *,
    previous: Artefact | None,
) -> Job:
    """Build the job of a phase for a machine. The job continues the run of the previous phase."""
    root = store.root
    return make_job(
        arm.diet,
        phase.phase,
        phase.spec,
        JobInputs(
            workspace=root,
            plan=store.load(root / phase.plan),
            rows=tuple(store.load(root / path) for path in phase.rows),
            tokenizer=store.load(root / phase.tokenizer),
            previous=previous,
        ),
        evaluations=phase.evaluations,
        machine=machine,
        overrides=phase.overrides,
    )


def require_own_bundle(folder: Path) -> None:
    """Raise unless a folder has only plain files and folders, which no other user can change.

    A bundle comes from another machine. If it had a link in it, training could write outside of the folder.

    Raises:
        StoreError: naming the link, the special file, or the path that another user can change.
    """
    require_plain(folder)
    if is_trusted_by_environment(folder):
        return
    if (words := exposure(folder) or exposure_below(folder)) is not None:
        quoted = shlex.quote(str(folder))
        raise StoreError(
            str(folder),
            cause=f"{words}: those users could change what the training writes",
            cure=f"Make the bundle yours alone: chown -R, chmod -R go-w and setfacl -R -k {quoted}. "
            f"Or, if you trust all who can write there to run code as you: "
            f"export CURRICULUM_TRUST={quoted}",
        )


def train_bundle(folder: Path) -> bool:
    """Train all arms of a bundle, and record each trained arm. Return False if one was stopped."""
    if folder.is_dir():
        require_own_bundle(folder)
    bundle, store, machine = read_bundle(folder), Store(folder), Machine.local()
    for number, arm in enumerate(bundle.arms, 1):
        _tell(f"arm {arm.title}: {number} of {len(bundle.arms)}")
        runs = train_arm(store, arm, machine)
        if len(runs) < len(arm.phases):
            return False
        paths = tuple(run.path.relative_to(store.root).as_posix() for run in runs)
        noted = BundledRuns(runs={**read_runs(folder).runs, arm.title: paths})
        write_whole(folder / RUNS, noted.model_dump_json(indent=1))
    return True


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Train until all arms are trained, the time is up or a signal arrives; return the exit code."""
    arguments = _arguments()
    folder = real_path(arguments.folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.seconds is not None:
        # A stop waits for the step in progress and its checkpoint, so it is requested early.
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, max(arguments.seconds - GRACE_SECONDS, 1))
    try:
        if not is_trusted_by_environment(folder):
            keep_others_out()
        is_done = train_bundle(folder)
    except CurriculumError as failed:
        return _failed(failed)
    except OSError as failed:
        if (refused := refusal(failed, folder)) is None:
            raise
        return _failed(refused)
    except KeyboardInterrupt:
        is_done = False
    _tell("all arms are trained" if is_done else "stopped; the same command resumes")
    return 0 if is_done else CANCELLED


def _failed(failed: CurriculumError) -> int:
    sys.stderr.write(f"{type(failed).__name__}: {failed}\n")
    return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m curriculum.train.bundle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="folder that contains bundle.json")
    parser.add_argument(
        "--seconds", type=float, help="stop after this many seconds; default: no limit"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
