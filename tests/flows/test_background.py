"""Commands that a shell starts in the background, with SIGINT ignored: other signals end them in order."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
IN_THE_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")
"""Prefix that runs a command like `command &` in a script."""
TERMINATED = 128 + signal.SIGTERM
GONE_S = 20.0


def test_tests_of_held_interrupts_pass_in_the_background_too() -> None:
    command = [*IN_THE_BACKGROUND, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "tests/curriculum/workers/test_spawn.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if "XDIST" not in name},
    )
    assert done.returncode == 0, done.stdout


def ended(
    words: Sequence[str],
    home: Path,
    when: Callable[[str], bool],
    end: Callable[[int], None] = lambda pid: os.kill(pid, signal.SIGTERM),
) -> tuple[int, str, list[psutil.Process]]:
    """Start a command in the background and end it: its exit code, its words, what outlives it."""
    log = home.parent / "log.txt"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [*IN_THE_BACKGROUND, sys.executable, "-m", "flows.cli", *words, "--home", str(home)],
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        own: list[psutil.Process] = []
        try:
            deadline = time.monotonic() + 360
            while not (own and when(log.read_text())):
                assert process.poll() is None, f"it ended by itself: {log.read_text()}"
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.02)
                own = psutil.Process(process.pid).children(recursive=True)
            end(process.pid)
            code = process.wait(180)
        finally:
            process.kill()
        # The tracker of resources of multiprocessing ends by itself, when the pipe to it is closed.
        _, left = psutil.wait_procs(own, timeout=GONE_S)
        for each in left:
            each.kill()
        return code, log.read_text(), left


@pytest.mark.timeout(600)
def test_a_build_ends_with_its_workers_and_says_how_to_go_on(tmp_path: Path) -> None:
    home = tmp_path / "home"
    words = ["build", "templates.demo", "--max-commits", "12", "--workers", "2"]
    code, said, left = ended(words, home, lambda said: "documents: 0/" in said)
    assert (code, left) == (TERMINATED, []), said
    assert "Traceback" not in said
    assert not [*(home / ".drafts").glob("*")]


@pytest.mark.timeout(600)
def test_a_build_ends_in_order_when_its_terminal_is_closed(tmp_path: Path) -> None:
    """The whole group gets SIGHUP then: the command and its workers."""
    home = tmp_path / "home"
    words = ["build", "templates.demo", "--max-commits", "12", "--workers", "2"]
    code, said, left = ended(
        words,
        home,
        lambda said: "documents: 0/" in said,
        lambda pid: os.killpg(pid, signal.SIGHUP),
    )
    assert (code, left) == (128 + signal.SIGHUP, []), said
    assert "Traceback" not in said
    assert not [*(home / ".drafts").glob("*")]
    assert not [*(home / "leases").glob("*")]


def trains(said: str) -> bool:
    """Return True once a step was shown; lines are seconds apart, so the first need not be shown."""
    return re.search(r"train syntax: [1-9]", said) is not None


@pytest.mark.system
@pytest.mark.timeout(900)
def test_training_ends_with_a_checkpoint_and_says_how_to_go_on(
    demo_home: Path, tmp_path: Path
) -> None:
    home = tmp_path / "workspace"
    ignored = shutil.ignore_patterns("prefect", ".locks", "slots", "runs", "reports")
    shutil.copytree(demo_home, home, ignore=ignored)
    words = ["train", "templates.demo", "--phase", "syntax", "--workers", "1"]
    code, said, left = ended(words, home, trains)
    assert (code, left) == (TERMINATED, []), said
    assert "Traceback" not in said
    (run,) = (home / "runs").rglob("attempt=*")
    assert [*run.glob("checkpoints/step=*/manifest.json")]
    assert not (run / "state.json").exists()
