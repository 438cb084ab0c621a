"""Exchange between ranks: what a rank sends is never run, and no other user reaches where ranks meet."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import curriculum.train
from curriculum.train.processes import KILLED, start_ranks
from tests.rank_processes import ROOT

VICTIM = """
import sys
import torch
import torch.distributed as dist
from pydantic import TypeAdapter
from curriculum.train.distributed import Ranks, exit_rank
from schemas.errors import JobError
dist.init_process_group("gloo", init_method=sys.argv[1], rank=0, world_size=2)
dist.all_gather_object([None, None], "honest")
ranks = Ranks(size=2, host=dist.group.WORLD)
for call in (
    lambda: ranks.gather("honest", TypeAdapter(str)),
    lambda: ranks.gather_tensors({"honest": torch.ones(1)}),
    lambda: ranks.run_together(lambda: None),
):
    try:
        call()
    except JobError as refused:
        assert refused.name == "rank 1", refused
    else:
        sys.exit("a planted pickle is a value")
exit_rank(0)
"""
INTRUDER = """
import pickle, sys
from pathlib import Path
import torch.distributed as dist
from curriculum.train.distributed import Ranks, exit_rank
from tests.flows.hostile_workspace import Canary
dist.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2)
wire = Ranks(rank=1, size=2, host=dist.group.WORLD)
for name in sys.argv[2:]:
    wire._bytes(pickle.dumps(Canary(file=Path(name))))
exit_rank(0)
"""


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def test_torch_runs_what_joins_by_a_port_and_our_exchange_refuses_it(tmp_path: Path) -> None:
    meet = f"tcp://127.0.0.1:{free_port()}"
    planted = [tmp_path / name for name in ("torch", "value", "tensors", "error")]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen([sys.executable, "-c", code, meet, *names], env=environment, cwd=ROOT)
        for code, names in ((VICTIM, ()), (INTRUDER, map(str, planted)))
    ]
    try:
        assert [process.wait(timeout=120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [file.name for file in planted if file.exists()] == ["torch"]


def test_no_module_of_training_pickles_what_ranks_send() -> None:
    (folder,) = curriculum.train.__path__
    pickling = re.compile(r"import pickle|from pickle|\w+_object(_list)?\(")
    assert not [
        file.name for file in Path(folder).rglob("*.py") if pickling.search(file.read_text())
    ]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files in place of the machine's."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


PRIVATE = """
import os, stat, sys
from pathlib import Path
from urllib.parse import urlparse
address = urlparse(sys.argv[6])
folder = Path(address.path).parent
assert address.scheme == "file" and not address.netloc and folder.parent == Path(sys.argv[7])
assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.stat().st_uid == os.getuid()
"""


def run_ranks(code: str) -> int:
    command = [sys.executable, "-c", code]
    return start_ranks(command, 2, dict(os.environ), lambda: False)


@pytest.mark.parametrize(
    ("end", "code"), [("pass", 0), ("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", KILLED)]
)
def test_ranks_meet_in_a_private_folder_that_is_gone_at_the_end(
    temporary: Path, end: str, code: int
) -> None:
    private = PRIVATE.replace("sys.argv[7]", repr(str(temporary)))
    before = os.umask(0)
    try:
        assert run_ranks(private + end) == code
    finally:
        os.umask(before)
    assert list(temporary.iterdir()) == []


STARTER = """
import os, sys
from curriculum.train.processes import start_ranks
rank = "import os, sys, time; open(sys.argv[6][7:], 'w').write(str(os.getpid())); time.sleep(600)"
start_ranks([sys.executable, "-c", rank], 1, dict(os.environ), lambda: False)
"""


def test_the_next_start_removes_the_folder_of_ranks_that_were_killed(temporary: Path) -> None:
    others = temporary / "others"
    (others / "kept").mkdir(parents=True)
    (temporary / "curriculum-ranks-link").symlink_to(others)
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER], env={**os.environ, "TMPDIR": str(temporary)}, cwd=ROOT
    )
    while not (met := [file for file in temporary.glob("*/meet") if file.read_text()]):
        assert starter.poll() is None
        time.sleep(0.01)
    rank = int(met[0].read_text())
    starter.kill()
    starter.wait()
    assert run_ranks("pass") == 0
    assert met[0].exists(), "a rank still lives"
    os.kill(rank, signal.SIGKILL)
    while Path(f"/proc/{rank}/fd").exists() and met[0].exists():
        assert run_ranks("pass") == 0
    assert run_ranks("pass") == 0
    assert not met[0].parent.exists()
    assert (others / "kept").is_dir()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_folders_that_another_user_made_are_left_alone_however_deep(temporary: Path) -> None:
    """Removing them needs a frame of Python a level."""
    planted = temporary / "curriculum-ranks-planted"
    planted.mkdir()
    os.chown(planted, 65534, 65534)
    above = os.open(planted, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("in", dir_fd=above)
        below = os.open("in", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    assert run_ranks("pass") == 0
    assert list(temporary.iterdir()) == [planted]
    subprocess.run(["rm", "-rf", planted], check=True)


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_folder_that_another_user_may_have_renamed_so_stays(temporary: Path, mode: int) -> None:
    named = temporary / "curriculum-ranks-0"
    (named / "thesis").mkdir(parents=True)
    temporary.chmod(mode)
    assert run_ranks("pass") == 0
    assert named.exists() is (mode == 0o777)


@pytest.mark.parametrize("module", ["curriculum.train", "curriculum.train.bundle"])
@pytest.mark.parametrize(("mode", "refused"), [(0o777, True), (0o1777, False)])
def test_training_begins_in_no_temporary_folder_that_others_could_replace(
    tmp_path: Path, module: str, mode: int, refused: bool
) -> None:
    shared, job = tmp_path / "shared", tmp_path / "own" / "job.json"
    shared.mkdir()
    shared.chmod(mode)
    environment = {**os.environ, "TMPDIR": str(shared)}
    environment.pop("CURRICULUM_TRUST", None)
    done = subprocess.run(
        [sys.executable, "-m", module, str(job)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert ("$TMPDIR" in done.stderr) == refused, done.stderr
