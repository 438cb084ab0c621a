"""A reader of foreign files that a file has taken over: it tries what the file's sender would like.

It stands in for the modules that read foreign files in a sandbox, where a fault of a library would give a
file such powers. The name of the file says what it tries.
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


def _sleep(_: Path) -> str:
    time.sleep(60)
    return "slept"


def _drip(_: Path) -> str:
    """An answer without an end, byte by byte, by a child that holds the output open."""
    if os.fork() == 0:
        for _second in range(60):
            os.write(1, b" ")
            time.sleep(1)
    os._exit(0)


def _say_nonsense(_: Path) -> str:
    sys.stdout.write("[" * 100_000)
    return "said"


def _forge_a_label(_: Path) -> str:
    facts = {
        "family": "../../x",
        "objective": "causal",
        "variant": 0,
        "domain": "d",
        "split": "train",
    }
    key = {"format": "parquet", "facts": facts, "files": [], "row_length": 128}
    answer({"key": {**key, "boundaries": None, "settings": {}}})
    return "said"


def _forge_an_error(_: Path) -> str:
    answer({"error": ["visible", "a", "b", "c", "d"]})
    return "said"


ATTEMPTS = {
    attempt.__name__.lstrip("_"): attempt
    for attempt in (
        *(_steal, _write, _connect, _look_around, _crash, _spin, _say_nonsense),
        *(_forge_a_label, _forge_an_error, _sleep, _drip),
    )
}


def main() -> None:
    """Try what the name of the file says, and answer with what came of it."""
    request = enter_sandbox()
    file = Path(request["path"] if "path" in request else request["files"][0])
    try:
        said = ATTEMPTS[file.stem](file.parent)
    except OSError as stopped:
        said = f"stopped: {stopped.strerror}"
    answer({"fault": said, "error": ["SchemaError", str(file), said, "it tried", "None"]})


if __name__ == "__main__":
    main()
