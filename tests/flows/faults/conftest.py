"""A small course that is killed at seeded points, and what must hold of its workspace afterwards."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from curriculum.store import Store
from schemas.manifest import MANIFEST_NAME

DIET = """
specialist: faulty
branch: small
why: two short phases with several checkpoints each, which a CPU trains in seconds
phases_file: phases.demo
corpus: sample
tokenizer: corpus
vocab_size: 800
model: attention-tiny
token_budget: 52K
tokens_per_step: 1024
phases:
  - phase: syntax
    portion: 0.5
    why: files
    servings: [{family: v2_simple, share: 1.0}]
  - phase: file_graph
    portion: 0.5
    why: the same files in longer rows
    servings: [{family: v2_simple, share: 1.0}]
"""
READ_LITTLE = ("--max-commits", "4", "--versions-per-path", "1", "--workers", "2")
STAGES = ("documents", "selections", "tokenizers", "tokens", "rows", "mixtures")
ORPHANS_END_WITHIN_S = 90.0
PATIENCE_S = 600.0
MARK = "FAULTS_OF"
ROLES = {
    "trainer": "curriculum.train",
    "server": "flows.server.api",
    "worker": "prefect\0worker\0start",
    "flow": "flows.flow_process",
    "serve": "flows.cli\0serve",
    "command": "flows.cli",
}


@dataclass(kw_only=True)
class Commands:
    """A workspace, the commands given in it, and whatever they started, told by a mark they inherit."""

    folder: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    words: tuple[str, ...] = ("train",)
    variables: dict[str, str] = field(default_factory=dict)
    """More of the environment of what it starts."""
    log: Path | None = None
    """Log file, by default beside the workspace."""
    whole: int = 0
    """Progress of the finished commands."""

    @property
    def home(self) -> Path:
        """The workspace."""
        return self.folder / "workspace"

    @property
    def diet(self) -> Path:
        """The diet's file; written at the first look."""
        file = self.folder / "faulty.yaml"
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            file.write_text(DIET)
        return file

    @property
    def python(self) -> tuple[str, ...]:
        """The command line's program."""
        return (sys.executable, "-m", "flows.cli")

    def command(self) -> list[str]:
        """The command line that makes all of it."""
        words = [*self.python, *self.words, str(self.diet), *READ_LITTLE]
        return [*words, "--home", str(self.home)]

    def start(self, command: Sequence[str] | None = None) -> "subprocess.Popen[bytes]":
        """Start a command; what it says is added to said.txt."""
        words = command or self.command()
        with self.said.open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | self.variables | {MARK: self.mark},
                start_new_session=True,
            )

    @property
    def said(self) -> Path:
        """File with the output of all commands."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.log or self.folder / "said.txt"

    def finish(self) -> None:
        """Give the command, and wait for its good end."""
        assert self.start().wait(PATIENCE_S) == 0, self.said.read_text()

    def alive(self) -> dict[int, str]:
        """The processes that this course's commands started and that still run, with their roles."""
        found = {}
        needle = f"{MARK}={self.mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if needle in (folder / "environ").read_bytes().split(b"\0"):
                    line = (folder / "cmdline").read_bytes().decode(errors="replace")
                    found[int(folder.name)] = _role(line)
        return found

    def progress(self) -> int:
        """Number of published artefacts and reported steps."""
        while True:
            # A draft may go while it is looked into.
            with contextlib.suppress(FileNotFoundError):
                return self._progress()

    def _progress(self) -> int:
        folders = [self.home / stage for stage in (*STAGES, "runs")]
        manifests = sum(len(list(each.rglob(MANIFEST_NAME))) for each in folders)
        logs = self.home.glob("runs/**/train.log")
        return manifests + sum(log.read_text(errors="replace").count("  loss ") for log in logs)

    def kill(self, role: str, *, newest: bool = False) -> int:
        """Kill one process of a role without a word, the oldest or the newest; its pid."""
        pids = sorted(pid for pid, each in self.alive().items() if each == role)
        pid = pids[-1 if newest else 0]
        os.kill(pid, signal.SIGKILL)
        return pid

    def await_progress(
        self, point: int, role: str, process: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        """Wait until it is so far and somebody of that role lives, while that process does."""
        deadline = time.monotonic() + PATIENCE_S
        while self.progress() < point or role not in self.alive().values():
            assert time.monotonic() < deadline, self.said.read_text()
            assert process is None or process.poll() is None, f"{point}: {self.said.read_text()}"
            time.sleep(0.1)

    def await_quiet(self, *but: str) -> None:
        """Wait until nobody lives any more, but for these roles."""
        deadline = time.monotonic() + ORPHANS_END_WITHIN_S
        while left := {pid: role for pid, role in self.alive().items() if role not in but}:
            assert time.monotonic() < deadline, f"orphans: {left}"
            time.sleep(0.1)

    def contents(self) -> dict[tuple[str, str], str]:
        """Return the content of each artefact; for runs weights, moments and counts."""
        found = Store(self.home).artefacts()
        return {(each.manifest.stage, each.key): each.content for each in found}

    def require_whole(self) -> None:
        """Nothing is half published, and every byte is the one that was published."""
        store = Store(self.home)
        for artefact in store.artefacts():
            store.verify(artefact)
        files = [each for stage in STAGES for each in (self.home / stage).rglob("*.*")]
        for file in files:
            assert any((above / MANIFEST_NAME).is_file() for above in file.parents), file
        for checkpoint in self.home.glob("runs/**/checkpoints/step=*"):
            assert (checkpoint / MANIFEST_NAME).is_file(), checkpoint

    def end(self) -> None:
        """Leave no process behind, whatever happened."""
        while left := self.alive():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def _role(line: str) -> str:
    return next((role for role, words in ROLES.items() if words in line), "other")


@pytest.fixture
def course(tmp_path: Path) -> Iterator[Commands]:
    """A course of one's own; whatever it starts has ended when the test has."""
    course = Commands(folder=tmp_path / "course")
    try:
        yield course
    finally:
        course.end()


@pytest.fixture(scope="session")
def new_commands() -> type[Commands]:
    """Yield a class that starts commands, and end them afterwards."""
    return Commands


@pytest.fixture(scope="session")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """The same course, with nothing happening to it."""
    course = Commands(folder=tmp_path_factory.mktemp("uninterrupted"))
    course.finish()
    assert len(list(Store(course.home).artefacts("runs"))) == 2
    return course


@pytest.fixture
def dice(request: pytest.FixtureRequest) -> random.Random:
    """Seeded by the test's name and parameters."""
    return random.Random(request.node.name)
