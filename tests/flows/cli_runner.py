"""The command line in this process: the exit code and the output that a process of its own would have.

A process takes seconds to import what this one has imported. What concerns signals, imports, terminals or
Prefect's settings, which are read once, needs a process nevertheless.
"""

import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import BinaryIO

import pytest
import typer.main

from flows import cli
from tests.flows.every_command import GROUP

PROGRAM = str(Path(sys.executable).with_name("curriculum"))
STDOUT, STDERR = 1, 2


def curriculum(
    *words: str,
    home: Path | None = None,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> CompletedProcess[str]:
    """Call the entry point of `curriculum` without a terminal; `home` is given as $CURRICULUM_HOME.

    The environment, the current directory and the umask are restored. An uncaught exception is a traceback
    in stderr and exit code 1.
    """
    given = {"CURRICULUM_HOME": str(home)} if home else {}
    environment, mask = dict(os.environ), os.umask(0o077)
    os.umask(mask)
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", [PROGRAM, *words])
        # Typer makes its commands anew for each call otherwise, which takes longer than most calls.
        patch.setattr(typer.main, "get_command", lambda _: GROUP)
        if cwd:
            patch.chdir(cwd)
        try:
            os.environ.update({"NO_COLOR": "1", **given, **(variables or {})})
            with _redirected("stdout", STDOUT, out), _redirected("stderr", STDERR, err):
                code = _code()
        finally:
            os.environ.clear()
            os.environ.update(environment)
            os.umask(mask)
        return CompletedProcess([PROGRAM, *words], code, _text(out), _text(err))


def _code() -> int:
    """The exit code of the entry point."""
    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@contextlib.contextmanager
def _redirected(name: str, descriptor: int, file: BinaryIO) -> Iterator[None]:
    """Let a stream of this process, and of the processes that it starts, be a file."""
    kept = os.dup(descriptor)
    os.dup2(file.fileno(), descriptor)
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            open(descriptor, "w", encoding="utf-8", closefd=False) as stream,
        ):
            patch.setattr(sys, name, stream)
            yield
    finally:
        os.dup2(kept, descriptor)
        os.close(kept)


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode("utf-8", errors="surrogateescape")
