"""A process in a sandbox reads and writes what was named, and nothing else."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from curriculum.sandbox import Sandbox, code_paths, landlock

pytestmark = pytest.mark.skipif(
    not landlock(),
    reason="needs Landlock: Linux 5.13 or newer with it in /sys/kernel/security/lsm",
)

TRIES = """
import os, socket, sys
from pathlib import Path
from curriculum import sandbox
there, version = Path(sys.argv[1]), int(sys.argv[2])
held = (there / "held").open("wb", buffering=0)
if version:
    sandbox.landlock = lambda: version
    drafts = str(there / "drafts")
    read = (str(there / "allowed"), str(there / "not there"))
    assert sandbox.Sandbox(read=read, write=(drafts,)).enter() == version
tries = {
    "write": lambda: (there / "new").write_text("x"),
    "append": lambda: (there / "allowed").open("a"),
    "make a folder": lambda: (there / "folder").mkdir(),
    "link": lambda: os.link(there / "allowed", there / "hard"),
    "symlink": lambda: (there / "soft").symlink_to("/"),
    "pipe": lambda: os.mkfifo(there / "pipe"),
    "write what was open": lambda: held.write(b"x"),
    "write in drafts": lambda: (there / "drafts" / "file").write_text("x"),
    "read another": lambda: (there / "other").read_text(),
    "list": lambda: os.listdir(there),
    "TCP": lambda: socket.socket(),
    "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "Unix socket": lambda: socket.socket(socket.AF_UNIX),
    "rename": lambda: (there / "other").rename(there / "newer"),
    "remove": lambda: (there / "newer" if not version else there / "other").unlink(),
}
if version >= 3 or not version:
    tries["truncate on opening"] = lambda: os.open(there / "allowed", os.O_RDONLY | os.O_TRUNC)
    tries["truncate"] = lambda: os.truncate(there / "allowed", 0)
if version >= 6 or not version:
    tries["signal"] = lambda: os.kill(os.getppid(), 0)
for name, attempt in tries.items():
    try:
        attempt()
    except OSError as stopped:
        print(f"{name}: {stopped.errno}")
    else:
        print(f"{name}: done")
try:
    os.execv("/bin/true", ["true"])
except PermissionError:
    print("run: 13")
"""
EACCES, EFBIG, EPERM = 13, 27, 1


def _tried(folder: Path, version: int) -> dict[str, str]:
    folder.mkdir()
    (folder / "drafts").mkdir()
    for name in ("allowed", "other"):
        (folder / name).write_text("as it was")
    done = subprocess.run(
        [sys.executable, "-c", TRIES, str(folder), str(version)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return dict(line.split(": ") for line in done.stdout.splitlines())


@pytest.mark.parametrize("version", range(1, 8))
def test_a_process_in_a_sandbox_can_do_nothing_but_what_was_named(
    tmp_path: Path, version: int
) -> None:
    if version > landlock():
        pytest.skip(f"this kernel has Landlock {landlock()}")
    tries = _tried(tmp_path / "there", version)
    too_large = {name for name, end in tries.items() if end == str(EFBIG)}
    assert too_large == {"write what was open", "write in drafts"}
    refused = {name for name, end in tries.items() if end in {str(EACCES), str(EPERM)}}
    assert refused == tries.keys() - too_large
    names = sorted(path.name for path in (tmp_path / "there").iterdir())
    assert names == ["allowed", "drafts", "held", "other"]
    assert (tmp_path / "there" / "allowed").read_text() == "as it was"


def test_each_of_these_things_is_done_without_a_sandbox(tmp_path: Path) -> None:
    tries = _tried(tmp_path / "there", 0)
    assert set(tries.values()) == {"done"}
    assert len(tries) > 15


def test_drafts_are_written_up_to_a_size(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from curriculum.sandbox import *\n"
        "Sandbox(write=(sys.argv[1],), file_bytes=1000).enter()\n"
        "there = Path(sys.argv[1])\n"
        "(there / 'folder').mkdir(); (there / 'folder' / 'file').write_bytes(bytes(1000))\n"
        "(there / 'folder' / 'file').rename(there / 'file')\n"
        "print((there / 'file').stat().st_size)\n"
        "(there / 'file').write_bytes(bytes(1001))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "1000\n"
    assert "File too large" in done.stderr


def test_memory_and_time_have_limits() -> None:
    script = (
        "import signal\n"
        "from curriculum.sandbox import *\n"
        "{first}\n"
        "try: bytearray(1 << 30)\n"
        "except MemoryError: print('no memory', flush=True)\n"
        "while True: pass\n"
    )
    enter = "Sandbox(read=code_paths(), memory=200 << 20, cpu_seconds=1).enter()"
    free = "signal.setitimer(signal.ITIMER_PROF, 3)"
    limited, control = (
        subprocess.run(
            [sys.executable, "-c", script.format(first=first)],
            capture_output=True, text=True, check=False,
        )
        for first in (enter, free)
    )  # fmt: skip
    assert (limited.stdout, limited.returncode < 0) == ("no memory\n", True)
    assert (control.stdout, control.returncode) == ("", -signal.SIGPROF)


def test_lower_limits_of_the_machine_stay() -> None:
    script = (
        "import resource; from curriculum.sandbox import *\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
        "Sandbox(memory=2 << 30, cpu_seconds=9).limit()\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA), resource.getrlimit(resource.RLIMIT_CPU))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"({1 << 30}, {1 << 30}) (9, 9)\n"


def test_libraries_can_be_imported_after_entering() -> None:
    script = (
        "from curriculum.sandbox import *\n"
        "Sandbox(read=code_paths()).enter()\n"
        "import numpy, pyarrow.parquet, polars, tree_sitter_cpp, schemas.diet, tokenizers\n"
        "print(polars.Series([1, 2]).sum())\n"
        "try: open('pyproject.toml')\n"
        "except PermissionError: print('not code')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "3\nnot code\n"


def test_a_python_that_starts_in_a_sandbox_finds_our_packages() -> None:
    """An editable installation finds them through the folder of the checkout, which it must list."""
    script = (
        "import subprocess, sys\n"
        "from curriculum.sandbox import *\n"
        "run = (sys.executable, *SYSTEM_CODE, sys.base_prefix)\n"
        "Sandbox(read=code_paths(), run=run).enter()\n"
        "code = 'import curriculum.store.inside; print(1); open(\"pyproject.toml\")'\n"
        "done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)\n"
        "print(done.stdout, done.stderr)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=root,
        env={"PYTHONPATH": root},
    )
    assert done.stdout.startswith("1\n"), done.stdout
    assert "PermissionError" in done.stdout


def test_code_paths_hold_no_folder_of_a_checkout() -> None:
    root = Path(__file__).parents[2]
    assert not {Path(path) for path in code_paths()} & {root, *root.parents}
    assert Sandbox(read=code_paths()).write == ()
