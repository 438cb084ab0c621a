"""A compilation database by cmake, for a tree that brings none: it runs the repository's code.

Never called unless the user asks for it.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from schemas.errors import CorpusError

LIMIT_SECONDS = 600.0
_TOLD_LINES = 8
_NOWHERE = "http://127.0.0.1:9"
"""Nobody answers at the discard port: what a project would download, it is refused."""
_EXTRAS = re.compile(r"^\s*option\s*\(\s*(\w*(?:TEST|BENCH)\w*)", re.IGNORECASE | re.MULTILINE)
"""Options that build more than the product, which often needs submodules that an export hasn't."""
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")


def configure(tree: Path, scratch: Path, *, limit_seconds: float = LIMIT_SECONDS) -> Path:
    """The compile_commands.json that cmake makes of a copy of a tree.

    The copy is `scratch / "source"`, for `original` of `index_tree`; what cmake generates stays beside it.
    `scratch` is a new or empty folder. Downloads are refused as far as cmake lets us. What can't be
    configured is tried once more without its tests.

    Raises:
        CorpusError: if there is no CMakeLists.txt or no cmake, or cmake fails, ends without a database or
            takes longer than its limit; with the last lines that it wrote.
    """
    if not (tree / "CMakeLists.txt").is_file():
        raise _refusal(tree, "it has no CMakeLists.txt", "Give a compile_commands of your own")
    cmake = shutil.which("cmake")
    if cmake is None:
        raise _refusal(tree, "cmake isn't installed", "Install cmake")
    source, build = scratch / "source", scratch / "build"
    shutil.copytree(tree, source, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    command = [cmake, "-S", str(source), "-B", str(build), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    command += ["-DFETCHCONTENT_FULLY_DISCONNECTED=ON", "-DCMAKE_BUILD_TYPE=Release"]
    log = scratch / "cmake.log"
    if _run(tree, command, log, limit_seconds) != 0:
        extras = _EXTRAS.findall((tree / "CMakeLists.txt").read_text("utf-8", "replace"))
        command += ["-DBUILD_TESTING=OFF", *(f"-D{name}=OFF" for name in extras)]
        code = _run(tree, command, log, limit_seconds)
        if code != 0:
            raise _refusal(tree, f"cmake ended with code {code}", _cure(log))
    database = build / "compile_commands.json"
    if not database.is_file():
        raise _refusal(
            tree,
            "cmake configured it without a compilation database",
            "Give a compile_commands of your own",
        )
    return database


def _run(tree: Path, command: list[str], log: Path, limit_seconds: float) -> int:
    environment = {**os.environ.copy(), **dict.fromkeys(_PROXIES, _NOWHERE)}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=limit_seconds)
        except subprocess.TimeoutExpired as error:
            raise _refusal(
                tree, f"cmake had no end after {limit_seconds:g} s", _cure(log)
            ) from error
        finally:
            # Whatever it started as well: a compiler test that hangs would live on.
            _kill_group(process.pid)
            process.wait()


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return  # All of it ended by itself.


def _cure(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = " / ".join([line.strip() for line in lines if line.strip()][-_TOLD_LINES:])
    return f"It wrote last: {told}"


def _refusal(tree: Path, cause: str, cure: str) -> CorpusError:
    return CorpusError(f"--configure {tree}", cause=cause, cure=cure)
