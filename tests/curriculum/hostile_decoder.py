"""A reader of Parquet files that a file has taken over: it tries what the file's sender would like.

It stands in for `curriculum.foreign_decoding` in the process that decodes, where a fault of a library would
give a file such powers. The first line beside the file says what it tries.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path

from curriculum.sandboxed_process import answer, enter_sandbox


def _steal(folder: Path) -> str:
    return (folder / "secret").read_text()


def _write(folder: Path) -> str:
    (folder / "written").write_text("x")
    return "written"


def _connect(_: Path) -> str:
    socket.socket().close()
    return "opened"


def _look_around(_: Path) -> str:
    return " ".join(sorted({*os.environ} - {"PYTHONPATH", "LC_CTYPE"}))


def _crash(_: Path) -> str:
    os.kill(os.getpid(), signal.SIGSEGV)
    return "alive"


def _spin(_: Path) -> str:
    begun = time.process_time()
    while time.process_time() - begun < 4:
        pass
    return "spun"


def _say_nonsense(_: Path) -> str:
    sys.stdout.write("[" * 100_000)
    return "said"


ATTEMPTS = {
    each.__name__.lstrip("_"): each
    for each in (_steal, _write, _connect, _look_around, _crash, _spin, _say_nonsense)
}


def main() -> None:
    """Try what the name of the file says, and answer with what came of it."""
    file = Path(enter_sandbox()["files"][0])
    try:
        answer({"fault": ATTEMPTS[file.stem](file.parent)})
    except OSError as stopped:
        answer({"fault": f"stopped: {stopped.strerror}"})


if __name__ == "__main__":
    main()
