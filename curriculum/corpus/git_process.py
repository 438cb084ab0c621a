"""A long-running git process that answers requests over pipes."""

import contextlib
import io
import select
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from curriculum.corpus import git

MAX_SILENCE_S = 120.0
"""Maximum time in seconds without output while a git process answers a request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GitProcess:
    """A running git process with pipes to its stdin and stdout, and a file for its stderr."""

    verb: str
    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]

    @staticmethod
    def start(repository: Path, verb: str, *options: str) -> "GitProcess":
        """Start a git process; the caller must close it."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        process = subprocess.Popen(
            git.limited_command(verb, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=git.environment(repository),
            cwd="/",
        )
        return GitProcess(verb=verb, process=process, errors=errors)

    @property
    def output(self) -> io.BufferedReader:
        """Stdout of the process; reads from it have no timeout."""
        assert isinstance(self.process.stdout, io.BufferedReader)
        return self.process.stdout

    def send(self, request: bytes) -> None:
        """Write requests to the stdin of the process.

        Raises:
            CorpusError: if the process has exited.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.exit_error() from None

    def read_answer(self) -> bytes:
        """Return the next bytes of the output, after waiting for them for at most MAX_SILENCE_S seconds.

        Raises:
            CorpusError: if the process has exited or the wait timed out.
        """
        if not select.select([self.output], [], [], MAX_SILENCE_S)[0]:
            raise git.limit_error(self.verb, f"more than {MAX_SILENCE_S:g} s")
        return self.read_bytes()

    def read_bytes(self) -> bytes:
        """Return the next bytes of the output, without a timeout.

        Raises:
            CorpusError: if the process has exited.
        """
        found = self.output.read1(git.CHUNK_BYTES)
        if not found:
            raise self.exit_error()
        return found

    def exit_error(self) -> git.GitError:
        """Return the error for a process that has exited."""
        code = self.process.wait()
        self.errors.seek(0)
        return git.exit_error(self.verb, code, self.errors.read())

    def close(self) -> None:
        """Kill the process and discard its pending requests and unread output."""
        self.process.kill()
        for stream in (self.process.stdin, self.output, self.errors):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self.process.wait()
