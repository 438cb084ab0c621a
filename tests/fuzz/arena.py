"""Cases in processes of their own, each under limits of time and memory.

A case follows from (seed, target, number) and the material alone. What it must not do, besides raising
something else than a CurriculumError: take more CPU or memory than the ring allows, wait longer than
WALL_SECONDS, end its process.
"""

import contextlib
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from curriculum.workers.pool import spawned

WALL_SECONDS = 300.0
"""Timeout: on a busy machine a process may take minutes for seconds of CPU."""
ADDRESS_BYTES = 24 << 30
"""Limit of address space, so that one huge request fails at once."""
STARTING_SECONDS = 300.0
WATCH_SECONDS = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A fuzz case."""

    seed: int
    target: str
    number: int

    @property
    def name(self) -> str:
        """For people, and for the folder of a finding."""
        return f"{self.target}-{self.seed}-{self.number}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """Outcome of a case: accepted, refused, or a finding."""

    case: Case
    said: str
    seconds: float

    @property
    def is_finding(self) -> bool:
        """True if the case was neither accepted nor refused."""
        return self.said not in ("taken", "refused")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ring:
    """The folders of a run."""

    material: Path
    findings: Path
    """A folder for the input of each finding."""
    cpu_seconds: float = 10.0
    memory_bytes: int = 1 << 30
    """Bytes by which a case's memory may grow."""


def write_case(case: Case, ring: Ring) -> Path:
    """The folder of a case, written anew."""
    from tests.fuzz.targets import KNOWN

    dice = random.Random(f"{case.seed} {case.target} {case.number}")
    place = ring.findings / case.name
    place.mkdir(parents=True)
    KNOWN[case.target].spoil(ring.material, place, dice)
    return place


def outcome_of(case: Case, place: Path, ring: Ring) -> str:
    """Read a case in this process: taken, refused, or a traceback."""
    from curriculum.store import refusal
    from schemas.errors import CurriculumError
    from tests.fuzz.targets import KNOWN

    try:
        KNOWN[case.target].read(place, ring.material)
        said = "taken"
    except CurriculumError as refused:
        said = "refused" if _is_printable(refused) else f"can't be printed: {refused!r}"
    except OSError as failed:
        # The command line names it, as that of a name too long.
        said = "refused" if failed.filename and refusal(failed, place) else traceback.format_exc()
    except BaseException:
        said = traceback.format_exc()
    if said in ("taken", "refused"):
        shutil.rmtree(place)
    return said


def _is_printable(refused: Exception) -> bool:
    with contextlib.suppress(UnicodeEncodeError):
        return bool(str(refused).encode("utf-8", "surrogateescape"))
    return False


def _serve(ring: Ring, pipe: Connection) -> None:
    """Try the cases that come over a pipe, each answered by its outcome."""
    from tests.fuzz import material

    os.environ.setdefault("CURRICULUM_STATE", tempfile.mkdtemp(prefix="fuzz-state-"))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    material.make(ring.material)
    said = (ring.material / "said.txt").open("a")
    for stream in (sys.stdout, sys.stderr):
        os.dup2(said.fileno(), stream.fileno())
    pipe.send("ready")
    while True:
        case = pipe.recv()
        place = write_case(case, ring)
        pipe.send("made")
        pipe.send(outcome_of(case, place, ring))


class Arena:
    """A process that tries cases one after another, and is replaced by another when it is lost."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._tried = 0

    def attempt(self, case: Case) -> Outcome:
        """Try a case, at most as long as the limits allow."""
        if self._process is None or self._tried == 2_000:
            self.close()
            self._begin()
        assert self._pipe is not None
        begun = time.monotonic()
        self._tried += 1
        self._pipe.send(case)
        if not self._pipe.poll(STARTING_SECONDS) or self._pipe.recv() != "made":
            raise RuntimeError(f"{case.name} can't be made")
        said = self._answer()
        if said is None:
            said = self._lost or "lost"
            self.close()
        return Outcome(case=case, said=said, seconds=time.monotonic() - begun)

    def _begin(self) -> None:
        self._process, self._pipe = spawned(_serve, self._ring)
        self._tried = 0
        if not self._pipe.poll(STARTING_SECONDS) or self._pipe.recv() != "ready":
            raise RuntimeError("the first process of the fuzzer didn't start")

    def _answer(self) -> str | None:
        """The answer to the case that was made; None where a limit was reached or the process ended."""
        assert self._pipe is not None
        assert self._process is not None
        self._lost = ""
        with contextlib.suppress(psutil.NoSuchProcess, EOFError, OSError):
            watched = psutil.Process(self._process.pid)
            before, cpu, begun = watched.memory_info().rss, _cpu(watched), time.monotonic()
            while not self._pipe.poll(WATCH_SECONDS):
                if watched.status() == psutil.STATUS_ZOMBIE:
                    break
                grown = watched.memory_info().rss - before
                if grown > self._ring.memory_bytes:
                    self._lost = f"memory: {grown / 1e9:.1f} GB"
                elif _cpu(watched) - cpu > self._ring.cpu_seconds:
                    self._lost = f"hang: {self._ring.cpu_seconds:.0f} s of CPU"
                elif time.monotonic() - begun > WALL_SECONDS:
                    self._lost = f"hang: waited {WALL_SECONDS:.0f} s"
                if self._lost:
                    return None
            return str(self._pipe.recv())
        self._process.join(5)
        self._lost = f"crash: exit code {self._process.exitcode}"
        return None

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.is_alive():
            self._process.kill()
            self._process.join(10)
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@contextlib.contextmanager
def arena(ring: Ring) -> Iterator[Arena]:
    """An arena that is closed at the end."""
    write_case = Arena(ring)
    try:
        yield write_case
    finally:
        write_case.close()
