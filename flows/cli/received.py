"""Sandbox for commands that read an untrusted workspace.

The command runs in a child process. It may read the workspace, the other paths on the command line and the
code of this installation. It may write its output and its own temporary files. It opens no socket and starts
no program but git and this Python, which run in the same sandbox. Before the command runs, the files of the
workspace are listed once, and links, devices, pipes and sockets are refused.
"""

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from curriculum.sandbox import (
    SYSTEM_CODE,
    Sandbox,
    SandboxError,
    code_paths,
    landlock,
    require_one_thread,
)
from curriculum.sandboxed_process import machine_memory
from curriculum.store.inside import require_plain
from flows import settings
from flows.cli.output_files import drafted
from flows.settings import trust
from schemas.errors import StoreError
from schemas.regular_files import expanded

MEMORY = min(16 << 30, machine_memory() // 2)
"""Memory limit of a sandboxed command in bytes."""
CPU_SECONDS = 6 * 3600
"""CPU time limit of a sandboxed command in seconds."""
_FILE_BYTES = 1 << 40
_MACHINE = ("/usr/share/zoneinfo", "/usr/include", "/usr/local/include")
"""Folders that a sandboxed command may read: time zones, and system headers that call graphs need."""


def look(
    home: Path,
    work: Callable[[Path | None], None],
    ending: Callable[[Callable[[], None]], int],
    *,
    named: Iterable[str | Path] = (),
    outside: Iterable[str | Path] = (),
    output: Path | None = None,
    folder: Callable[[Path], Path] | None = None,
) -> int:
    """Run `work`, which reads a workspace, in a sandbox unless the workspace is trusted.

    Return the exit code.

    Args:
        home: Workspace.
        work: Function that is called with the path to write to: a draft of `output`, or the folder that
            `folder` creates for an untrusted workspace, or None.
        ending: Function that runs work as a command and returns its exit code.
        named: Other paths that the command reads if they lie in a workspace.
        outside: Other paths that the command reads even if they lie in no workspace.
        output: File that the command writes.
        folder: Function that creates a folder outside of the workspace.

    Raises:
        StoreError: if an untrusted workspace contains something other than plain files and folders, or if the
            kernel can't sandbox a process.
    """
    outside = [*outside]
    named = [*named, *outside]
    workspaces = trust.untrusted(home, named)
    foreign = [*workspaces, *trust.outside_workspaces(outside)]
    if not foreign:
        with _drafted(output) as draft:
            work(draft)
        return 0
    there = [*filter(Path.exists, workspaces)]
    for path in there:
        require_plain(path)
    if not landlock():
        raise StoreError(
            str(foreign[0]),
            cause="it is in no workspace that you trust, and this kernel has no Landlock sandbox for "
            "reading it safely",
            cure="Read it on Linux 5.13 or newer with Landlock; or, if its commands "
            f"may run as you: curriculum trust {shlex.quote(str(foreign[0]))}",
        )
    paths = (expanded(word) for word in named)
    given = (path.resolve() for path in paths if trust.path_exists(path))
    # Paths that didn't exist are not readable, since others could create them in the meantime.
    read = [*there, *given, *(() if home in foreign else (home,))]
    with _drafted(output) as draft, tempfile.TemporaryDirectory(prefix="look-") as scratch:
        place = folder(home) if folder is not None else draft
        written = [] if place is None else [place if draft is None else place.parent]
        sandbox = Sandbox(
            read=(*map(str, read), *code_paths(), *_MACHINE),
            write=tuple(map(str, written)),
            scratch=scratch,
            run=_programs(),
            file_bytes=_FILE_BYTES,
            memory=MEMORY,
            cpu_seconds=CPU_SECONDS,
        )
        return _run_in_child(
            lambda: ending(lambda: _enter_sandbox(sandbox, scratch, lambda: work(place)))
        )


def _drafted(output: Path | None) -> contextlib.AbstractContextManager[Path | None]:
    return contextlib.nullcontext() if output is None else drafted(output)


def _run_in_child(work: Callable[[], int]) -> int:
    """Run work in a forked child process and return its exit code.

    The child has a single thread. A sandbox that `work` enters therefore holds for the whole child process
    and for its own children.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _end_with(work)
    try:
        ended = os.waitpid(child, 0)[1]
    except BaseException:
        # A signal can arrive between the end of the child and the next line.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    code = os.waitstatus_to_exitcode(ended)
    if code < 0:
        raise StoreError(
            "the workspace",
            f"signal {signal.Signals(-code).name}",
            cause="the sandboxed process that read the workspace was killed",
            cure=f"The process may use {MEMORY >> 30} GiB of memory and {CPU_SECONDS // 3600} "
            "hours of CPU time; curriculum check finds damaged files",
        )
    return code


def _programs() -> tuple[str, ...]:
    """Return the paths that a sandboxed command may execute: this Python, git, sh, and system libraries."""
    try:
        libraries = subprocess.check_output(["git", "--exec-path"], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        libraries = ""
    programs = [shutil.which("git") or "", "/bin/sh", sys.executable]
    real = [str(Path(program).resolve()) for program in programs if program]
    return (*programs, *real, libraries, *SYSTEM_CODE)


def _enter_sandbox(sandbox: Sandbox, scratch: str, work: Callable[[], None]) -> None:
    """Enter the sandbox, remove secrets from the environment, and run work."""
    settings.leave_no_secrets(scratch)
    tempfile.tempdir = scratch
    try:
        require_one_thread()
        sandbox.enter()
    except SandboxError as refused:
        raise StoreError(
            "Landlock",
            refused,
            cause="this kernel can't sandbox a process",
            cure="Read the workspace on another machine",
        ) from None
    work()


def _end_with(work: Callable[[], int]) -> NoReturn:
    """Run work and exit this process with its exit code."""
    code = 1
    try:
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
