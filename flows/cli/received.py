"""Looks at workspaces that aren't trusted: from within a sandbox.

A command that looks runs in a process of its own then, which reads the workspace, what else was named and the
code of this installation; it writes what was named as its output and temporary files of its own, opens no
socket, and starts no program but git and this Python, which are confined with it.
Before that the names in the workspace are looked through once: a link, a device, a pipe or a socket is
refused.
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
"""Bytes of memory of a look."""
CPU_SECONDS = 6 * 3600
"""Processor time of a look."""
_FILE_BYTES = 1 << 40
_MACHINE = ("/usr/share/zoneinfo", "/usr/include", "/usr/local/include")
"""Time zones, and the standard library that indexes of calls depend on."""


def look(
    home: Path,
    work: Callable[[Path | None], None],
    ending: Callable[[Callable[[], None]], int],
    *,
    named: Iterable[str | Path] = (),
    output: Path | None = None,
    folder: Callable[[Path], Path] | None = None,
) -> int:
    """Do work that reads a workspace, and return its exit code: in a sandbox where it isn't trusted.

    `work` is called with the path to write to: a draft of `output`, or where the workspace isn't trusted what
    `folder` makes for that workspace. `ending` does work as a command, and returns the exit code.

    Raises:
        StoreError: for what is no plain file or folder in a workspace that isn't trusted, and where
            the kernel can't confine a process.
    """
    named = [*named]
    foreign = trust.untrusted(home, named)
    if not foreign:
        with _drafted(output) as draft:
            work(draft)
        return 0
    there = [*filter(Path.exists, foreign)]
    for each in there:
        require_plain(each)
    if not landlock():
        raise StoreError(
            str(foreign[0]),
            cause="you haven't trusted this workspace, and this kernel has no Landlock to look at it safely",
            cure="Look at it where Linux 5.13 or newer runs with Landlock; or, if what it says may run as "
            f"you: curriculum trust {shlex.quote(str(foreign[0]))}",
        )
    paths = (expanded(word) for word in named)
    given = (path.resolve() for path in paths if trust.is_there(path))
    # What wasn't there isn't read: others could have made it meanwhile.
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
        return _done_apart(lambda: ending(lambda: _within(sandbox, scratch, lambda: work(place))))


def _drafted(output: Path | None) -> contextlib.AbstractContextManager[Path | None]:
    return contextlib.nullcontext() if output is None else drafted(output)


def _done_apart(work: Callable[[], int]) -> int:
    """Carry work out in a process of its own within a sandbox, and return its exit code.

    A forked process has one thread, and the sandbox holds for that and all that it starts.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _end_with(work)
    try:
        ended = os.waitpid(child, 0)[1]
    except BaseException:
        # A signal can come between the end of the child and the next line.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    code = os.waitstatus_to_exitcode(ended)
    if code < 0:
        raise StoreError(
            "the workspace",
            f"signal {signal.Signals(-code).name}",
            cause="the process that looked at it in a sandbox was ended",
            cure=f"It may use {MEMORY >> 30} GiB of memory and {CPU_SECONDS // 3600} hours of processor "
            "time; curriculum check names a file that is damaged",
        )
    return code


def _programs() -> tuple[str, ...]:
    """Return the files of this Python, and of git with the shell that limits it, where git is installed."""
    try:
        libraries = subprocess.check_output(["git", "--exec-path"], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        libraries = ""
    programs = [shutil.which("git") or "", "/bin/sh", sys.executable]
    real = [str(Path(program).resolve()) for program in programs if program]
    return (*programs, *real, libraries, *SYSTEM_CODE)


def _within(sandbox: Sandbox, scratch: str, work: Callable[[], None]) -> None:
    """Do work after this process has entered its sandbox, with an environment that holds no secret."""
    settings.leave_no_secrets(scratch)
    tempfile.tempdir = scratch
    try:
        require_one_thread()
        sandbox.enter()
    except SandboxError as refused:
        raise StoreError(
            "Landlock",
            refused,
            cause="this kernel can't confine a process",
            cure="Look at the workspace on another machine",
        ) from None
    work()


def _end_with(work: Callable[[], int]) -> NoReturn:
    """Do work as all that this process does, and end with the exit code that it returns."""
    code = 1
    try:
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
