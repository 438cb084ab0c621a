"""Slots: so many jobs at once, first come first served, whoever is killed on the way."""

import contextlib
import errno
import fcntl
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.pipeline.attempts import SlotQueue
from curriculum.store.owners import this_process
from curriculum.train.launch import gpu_slots as module
from curriculum.train.launch.gpu_slots import Slots, share_of
from curriculum.train.processes import MARK, processes_of
from schemas.errors import StoreError
from schemas.job import SlotState
from tests.bounded import endless

HOLD = """
import sys, time
from pathlib import Path
from curriculum.train.launch.gpu_slots import Slots
with Slots(Path(sys.argv[1]), 1).hold(sys.argv[2], lambda words: print(words, flush=True)):
    print("taken", flush=True)
    time.sleep(6000)
"""


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """Starts a process that takes the one slot for a run, and says so; it is killed in the end."""
    started: list[subprocess.Popen[str]] = []

    def begin(run: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", HOLD, str(tmp_path), run]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def hear(words: str, process: "subprocess.Popen[str]") -> None:
    """Wait for a line with these words; who waits for a slot says whenever something changes."""
    assert process.stdout is not None
    assert any(words in line for line in process.stdout)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def silent(_: str) -> None:
    """Nobody listens."""


def test_jobs_take_one_slot_one_at_a_time_in_order_of_arrival(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    slots, served, inside = Slots(tmp_path, 1), list[str](), list[int]()

    def job(run: str) -> None:
        with slots.hold(run, silent):
            inside.append(len([each for each in slots.holders() if each]))
            served.append(run)

    with slots.hold("first", silent):
        threads = [threading.Thread(target=job, args=(name,)) for name in ("c", "a", "d", "b")]
        for number, thread in enumerate(threads, start=1):
            thread.start()
            until(lambda number=number: len(slots.line()) == number)  # type: ignore[misc]
        assert [each.run for each in slots.line()] == ["c", "a", "d", "b"]
        assert served == []
    for thread in threads:
        thread.join()
    assert served == ["c", "a", "d", "b"]
    assert inside == [1, 1, 1, 1]
    assert slots.holders() == [None]
    assert slots.line() == []


def test_who_waits_is_told_who_holds_the_slots_and_how_many_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    slots, heard = Slots(tmp_path, 2), list[str]()

    def wait(run: str) -> None:
        with slots.hold(run, heard.append):
            pass

    with slots.hold("runs/a", silent) as one, slots.hold("runs/b", silent) as two:
        assert (one.number, two.number, two.of) == (0, 1, 2)
        third, fourth = (threading.Thread(target=wait, args=(name,)) for name in ("c", "d"))
        third.start()
        until(lambda: len(heard) == 1)
        fourth.start()
        until(lambda: len(heard) == 2)
    third.join()
    fourth.join()
    me = this_process()
    holders = " and ".join(heard[:1])
    assert holders == (
        f"waiting for a GPU slot; slots are held by process {me.pid} on {me.host} with runs/a, "
        f"process {me.pid} on {me.host} with runs/b"
    )
    assert "behind 1 other" in heard[1]


def test_a_killed_process_gives_back_its_slot_and_its_place(
    tmp_path: Path, begin: Callable[[str], "subprocess.Popen[str]"]
) -> None:
    slots = Slots(tmp_path, 1)
    holder = begin("first")
    hear("taken", holder)
    second = begin("second")
    hear(f"held by process {holder.pid} on", second)
    third = begin("third")
    hear(f"held by process {holder.pid} on", third)
    assert [each.run for each in slots.line()] == ["second", "third"]
    second.kill()
    second.wait()
    assert [each.run for each in slots.line()] == ["third"]
    holder.kill()
    hear("taken", third)
    (now,) = slots.holders()
    assert now is not None
    assert (now.pid, now.run) == (third.pid, "third")
    third.kill()
    third.wait()
    assert slots.holders() == [None]


def test_a_slot_is_held_as_long_as_a_process_that_inherited_it_lives(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 1)
    with slots.hold("runs/a", silent) as slot:
        child = subprocess.Popen(["sleep", "6000"], pass_fds=[slot.lock])
    try:
        assert slots.holders() != [None]
    finally:
        child.kill()
        child.wait()
    assert slots.holders() == [None]


def test_what_outlives_its_killed_launcher_is_ended_by_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.3)
    slots, run, heard = Slots(tmp_path, 1), tmp_path / "run", list[str]()
    lock = os.open(tmp_path / f"{this_process().host}-0.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    child = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; setsid sleep 6000"],
        pass_fds=[lock],
        env={**os.environ, MARK: str(run)},
    )
    os.close(lock)
    gone = {**this_process().model_dump(), "run": str(run)}
    record = tmp_path / f"{this_process().host}-0.json"
    record.write_text(SlotState(**gone).model_dump_json())
    until(lambda: len(processes_of(run)) == 2)
    reaper = threading.Thread(target=child.wait)
    reaper.start()
    with slots.hold("next", heard.append):
        assert processes_of(run) == []
    reaper.join()
    assert child.returncode == -signal.SIGKILL
    assert "launcher" in heard[0]


def test_a_record_of_before_a_reboot_holds_nothing(tmp_path: Path) -> None:
    slots, me = Slots(tmp_path, 1), this_process()
    before = SlotState(**me.model_dump(), run="runs/a")
    (tmp_path / f"{me.host}-0.json").write_text(before.model_dump_json())
    (tmp_path / f"{me.host}.0000000001.json").write_text(before.model_dump_json())
    assert slots.holders() == [None]
    with slots.hold("runs/b", lambda words: pytest.fail(words)):
        assert [each.run for each in slots.holders() if each] == ["runs/b"]
    assert slots.line() == []


def test_an_interrupt_leaves_the_line(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 1)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with slots.hold("first", silent):
        with pytest.raises(KeyboardInterrupt), slots.hold("second", interrupt):
            pytest.fail("there was no slot")
        assert slots.line() == []


def test_a_folder_that_is_not_there_has_free_slots_and_stays_away(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots", 2)
    assert (slots.holders(), slots.line()) == ([None, None], [])
    assert not slots.folder.exists()


@given(st.integers(1, 9), st.integers(1, 16))
def test_slots_share_all_gpus_evenly_and_none_twice(slots: int, devices: int) -> None:
    shares = [share_of(slot, slots, devices) for slot in range(slots)]
    used = [each for share in shares for each in share]
    assert set(used) <= set(range(devices))
    if devices >= slots:
        assert len(set(used)) == len(used) == devices // slots * slots
        assert {len(share) for share in shares} == {devices // slots}
    else:
        assert all(len(share) == 1 for share in shares)


def test_a_process_that_its_launcher_left_with_the_slot_is_ended_for_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    slots, run, heard = Slots(tmp_path / "slots", 1), tmp_path / "run", list[str]()
    with slots.hold(str(run), silent) as slot:
        left = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(6000)"],
            env={**os.environ, MARK: str(run)},
            pass_fds=(slot.lock,),
        )
        until(lambda: processes_of(run) == [left.pid])
    try:
        (holder,) = slots.holders()
        assert holder is not None
        assert holder.run == str(run)
        with slots.hold("another", heard.append):
            assert left.wait(60) == -signal.SIGKILL
        assert heard == [
            f"waiting for a GPU slot; slots are held by {run} "
            "(the launcher has ended, its processes are ending)"
        ]
        assert slots.holders() == [None]
    finally:
        left.kill()
        left.wait()


@pytest.fixture
def orphan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that trains <tmp_path>/run and has the one slot; its launcher is gone, its record isn't."""
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.2)
    host, run = socket.gethostname(), tmp_path / "run"
    left = SlotState(**this_process().model_dump(), run=str(run))
    (tmp_path / f"{host}-0.json").write_text(left.model_dump_json())
    lock = os.open(tmp_path / f"{host}-0.lock", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    process = subprocess.Popen(
        ["sleep", "6000"], pass_fds=[lock], env={**os.environ, MARK: str(run)}
    )
    os.close(lock)
    until(lambda: processes_of(run) == [process.pid])
    yield process
    process.kill()
    process.wait()


def waits_until_it_ends(slots: Slots, holder: "subprocess.Popen[bytes]") -> str:
    """Wait for a slot ten times as long as orphans have, end its holder, and return what was said."""
    heard = list[str]()

    def wait() -> None:
        with slots.hold("another", heard.append):
            pass

    waiter = threading.Thread(target=wait)
    waiter.start()
    until(lambda: bool(heard))
    time.sleep(10 * module.GRACE_SECONDS)
    assert waiter.is_alive()
    assert holder.poll() is None, "it was ended"
    holder.kill()
    holder.wait()
    waiter.join()
    (words,) = heard
    return words


def test_an_orphan_is_ended_for_a_record_that_this_user_wrote(
    tmp_path: Path, orphan: "subprocess.Popen[bytes]"
) -> None:
    with Slots(tmp_path, 1).hold("another", silent):
        assert orphan.wait(60) == -signal.SIGKILL


def test_no_process_is_ended_for_a_record_of_another_user_who_is_named(
    tmp_path: Path, orphan: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    words = waits_until_it_ends(Slots(tmp_path, 1), orphan)
    assert words.endswith(f"user {pwd.getpwuid(own).pw_name}")


def test_no_process_is_ended_for_a_record_that_others_may_write(
    tmp_path: Path, orphan: "subprocess.Popen[bytes]"
) -> None:
    (tmp_path / f"{socket.gethostname()}-0.json").chmod(0o666)
    waits_until_it_ends(Slots(tmp_path, 1), orphan)


def test_no_process_is_ended_for_a_slot_that_another_process_holds(
    tmp_path: Path, orphan: "subprocess.Popen[bytes]"
) -> None:
    """Its record is left over: the run trains without the slot, which another user locked."""
    host = socket.gethostname()
    (tmp_path / f"{host}-0.lock").unlink()
    lock = os.open(tmp_path / f"{host}-0.lock", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with subprocess.Popen(["sleep", "6000"], pass_fds=[lock]) as holder:
        os.close(lock)
        waits_until_it_ends(Slots(tmp_path, 1), holder)
    assert orphan.poll() is None


def test_no_run_waits_for_a_slot_by_a_ticket_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    slots, run, own = Slots(tmp_path, 1), Path("runs/b"), os.getuid()

    def wait() -> None:
        with slots.hold(str(run), silent):
            pass

    waiter = threading.Thread(target=wait)
    with slots.hold("runs/a", silent):
        waiter.start()
        until(lambda: SlotQueue.read(slots).why_waiting(run) is not None)
        with monkeypatch.context() as patched:
            patched.setattr(os, "getuid", lambda: own + 1)
            assert SlotQueue.read(slots).why_waiting(run) is None
            (ticket,) = slots.line()
        assert (ticket.run, ticket.user) == ("", pwd.getpwuid(own).pw_name)
    waiter.join()


PLANTED: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a link": lambda place: place.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("name", ["{host}.lock", "{host}-0.lock"])
def test_no_lock_is_opened_where_another_user_planted_something_else(
    tmp_path: Path, name: str, plant: Callable[[Path], None]
) -> None:
    file = tmp_path / name.format(host=socket.gethostname())
    plant(file)
    with ends_in_time(), pytest.raises(StoreError) as refused, Slots(tmp_path, 1).hold("a", silent):
        pass
    assert str(file) in str(refused.value)
    with ends_in_time():
        assert Slots(tmp_path, 1).holders() == [None]


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("name", ["{host}-0.json", "{host}.0000000001.json"])
def test_no_record_is_read_where_another_user_planted_something_else(
    tmp_path: Path, name: str, plant: Callable[[Path], None]
) -> None:
    host = socket.gethostname()
    plant(tmp_path / name.format(host=host))
    lock = os.open(tmp_path / f"{host}-0.lock", os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with ends_in_time():
        (holder,) = Slots(tmp_path, 1).holders()
        assert holder is not None
        assert (holder.run, Slots(tmp_path, 1).line()) == ("", [])
    heard = list[str]()

    def give_back(words: str) -> None:
        heard.append(words)
        os.close(lock)

    with (
        ends_in_time(),
        contextlib.suppress(IsADirectoryError),
        Slots(tmp_path, 1).hold("a", give_back),
    ):
        pass
    assert heard == ["waiting for a GPU slot; slots are held by another process"]


def test_a_planted_pipe_would_be_waited_for(tmp_path: Path) -> None:
    """The control of the two tests above."""
    os.mkfifo(tmp_path / "a.lock")
    with endless(seconds=0.3):
        (tmp_path / "a.lock").read_bytes()


def test_a_draft_that_another_user_planted_is_removed_and_not_written(tmp_path: Path) -> None:
    folder, kept = tmp_path / "slots", tmp_path / "kept"
    folder.mkdir()
    kept.write_text("kept")
    (folder / f".{socket.gethostname()}-0.json.draft").hardlink_to(kept)
    with Slots(folder, 1).hold("runs/a", silent):
        (holder,) = Slots(folder, 1).holders()
        assert holder is not None
        assert holder.run == "runs/a"
    assert kept.read_text() == "kept"


@contextlib.contextmanager
def ends_in_time() -> Iterator[None]:
    """Raise where the block waits for more than 20 seconds, such as for the writer of a pipe."""

    def late(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_slot_of_a_lock_that_may_only_be_read_is_held_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user made it: without the right to write to it, it can be locked."""
    with Slots(tmp_path, 1).hold("runs/a", silent):
        pass

    def refused(path: Any, flags: int, *mode: int, **beside: Any) -> int:
        if flags & os.O_RDWR and not flags & os.O_EXCL:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *mode, **beside)

    real = os.open
    monkeypatch.setattr(os, "open", refused)
    slots = Slots(tmp_path, 1)
    with slots.hold("runs/b", silent):
        (holder,) = slots.holders()
        assert holder is not None
        assert (holder.run, holder.is_alive) == ("runs/b", True)


NOBODY = 65534
MALLORY = """
import fcntl, os, sys, time
os.setgroups([])
os.setgid(int(sys.argv[1]))
os.setuid(int(sys.argv[1]))
file, mode = sys.argv[2], int(sys.argv[3], 8)
lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
os.fchmod(lock, mode)
fcntl.flock(lock, fcntl.LOCK_EX)
print("planted", flush=True)
time.sleep(6000)
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder of root where all users may add files, as /tmp is."""
    if os.getuid() != 0:
        pytest.skip("only root can act as another user")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@contextlib.contextmanager
def foreign_lock(file: Path, mode: int) -> Iterator[None]:
    """A file of another user who holds it."""
    command = [sys.executable, "-c", MALLORY, str(NOBODY), str(file), f"{mode:o}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mallory:
        hear("planted", mallory)
        yield
        mallory.kill()


def hold_as_another_user(folder: Path) -> "subprocess.CompletedProcess[str]":
    """Hold a slot as a third user: root may open and remove all files."""
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from curriculum.train.launch.gpu_slots import Slots\n"
        "os.setgroups([]); os.setgid(65533); os.setuid(65533)\n"
        "with Slots(Path(sys.argv[1]), 1).hold('runs/a', print): print('taken')\n"
    )
    command = [sys.executable, "-c", code, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", ["0000000001", "9999999998"])
def test_a_ticket_that_nobody_may_open_is_passed_over(shared: Path, number: str) -> None:
    with foreign_lock(shared / f"{socket.gethostname()}.{number}.json", 0):
        assert hold_as_another_user(shared).stdout == "taken\n"


@pytest.mark.parametrize(
    ("name", "mode"),
    [(".9999999999.json", 0o644), ("-0.json", 0o644), ("-0.lock", 0), (".lock", 0)],
)
def test_what_another_user_planted_in_the_way_is_refused_by_name(
    shared: Path, name: str, mode: int
) -> None:
    file = shared / f"{socket.gethostname()}{name}"
    with foreign_lock(file, mode):
        done = hold_as_another_user(file.parent)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("schemas.errors.StoreError")
    assert str(file) in last
    file.unlink()
    assert hold_as_another_user(file.parent).stdout == "taken\n"


def test_a_run_whose_ticket_was_renamed_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    ticket = tmp_path / f"{socket.gethostname()}.0000000001.json"

    def rename(_: str) -> None:
        ticket.rename(tmp_path / "kept")

    slots = Slots(tmp_path, 1)
    with (
        slots.hold("first", silent),
        pytest.raises(StoreError) as refused,
        slots.hold("second", rename),
    ):
        pass
    assert str(ticket) in str(refused.value)


def test_no_folder_lies_below_the_slots_that_could_become_a_link(tmp_path: Path) -> None:
    """A user who can replace a folder could redirect the path to files that would be removed."""
    slots = Slots(tmp_path, 1)

    def look(_: str) -> None:
        assert all(file.is_file() for file in tmp_path.iterdir())
        raise KeyboardInterrupt

    with (
        slots.hold("first", silent),
        contextlib.suppress(KeyboardInterrupt),
        slots.hold("second", look),
    ):
        pass
