"""A lock tells whether the owner of a record lives, in any PID namespace."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from curriculum.store.owners import SILENT_SECONDS, HeldFile, is_held, is_owner_alive, this_process

LONG_AGO = "2001-01-01T00:00:00.000000+00:00"
HOLD = """
import subprocess
import sys
from pathlib import Path
from curriculum.store.owners import HeldFile
HeldFile(Path(sys.argv[1])).write("mine")
child = subprocess.Popen(["sleep", "600"], close_fds=False)
print("held", child.pid, flush=True)
sys.stdin.read()
"""


def test_a_file_is_held_until_its_owner_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "record"
    assert not is_held(file)
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        _, child = owner.stdout.readline().split()
        assert is_held(file)
        owner.kill()
        owner.wait()
        assert not is_held(file), "what it started doesn't hold it"
        os.kill(int(child), signal.SIGKILL)
        assert file.read_text() == "mine"


def test_a_file_that_is_replaced_time_and_again_is_never_seen_free_or_in_part(
    tmp_path: Path,
) -> None:
    file, ended = tmp_path / "record", threading.Event()
    held = HeldFile(file)
    held.write("x" * 10_000)

    def replace() -> None:
        while not ended.is_set():
            held.write("x" * 10_000)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(500):
            assert is_held(file)
            assert len(file.read_text()) == 10_000
    finally:
        ended.set()
        writer.join()
    held.release()
    assert not file.exists()
    assert [*tmp_path.iterdir()] == []


def test_an_owner_on_another_machine_is_alive_while_its_heartbeats_are_recent(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "lock"
    here = this_process()
    assert here.pid == os.getpid()
    away = here.model_copy(update={"host": "elsewhere"})
    silent = away.model_copy(update={"at": LONG_AGO})
    assert SILENT_SECONDS > 60
    assert not is_owner_alive(lock, here), "nobody holds its lock"
    assert is_owner_alive(lock, away)
    assert is_owner_alive(lock, silent, here.at)
    assert not is_owner_alive(lock, silent, LONG_AGO)
    held = HeldFile(lock)
    held.write("")
    assert is_owner_alive(lock, silent), "a lock that reaches this machine"
    held.release()
