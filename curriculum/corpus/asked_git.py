"""A git that stays open, and answers what it is asked."""

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
"""Seconds without a byte from a git that answers one question at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedGit:
    """A git with pipes for questions and answers, and the file of its errors."""

    verb: str
    process: "subprocess.Popen[bytes]"
    errors: IO[bytes]

    @staticmethod
    def start(repository: Path, verb: str, *options: str) -> "AskedGit":
        """Start a git that the caller closes."""
        errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close)
        process = subprocess.Popen(
            git.limited(verb, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=git.environment(repository),
            cwd="/",
        )
        return AskedGit(verb=verb, process=process, errors=errors)

    @property
    def output(self) -> io.BufferedReader:
        """The answers, without a limit of time."""
        assert isinstance(self.process.stdout, io.BufferedReader)
        return self.process.stdout

    def ask(self, question: bytes) -> None:
        """Ask one question, or several.

        Raises:
            CorpusError: if git has ended.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(question)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.death() from None

    def heard(self) -> bytes:
        """Return the next bytes of an answer.

        Raises:
            CorpusError: if git has ended, or says nothing for MAX_SILENCE_S.
        """
        if not select.select([self.output], [], [], MAX_SILENCE_S)[0]:
            raise git.over_limit(self.verb, f"more than {MAX_SILENCE_S:g} s")
        return self.next_bytes()

    def next_bytes(self) -> bytes:
        """Return the next bytes of an answer, however long they take.

        Raises:
            CorpusError: if git has ended.
        """
        found = self.output.read1(git.CHUNK)
        if not found:
            raise self.death()
        return found

    def death(self) -> git.GitError:
        """Return the error of a git that has ended."""
        code = self.process.wait()
        self.errors.seek(0)
        return git.failure(self.verb, code, self.errors.read())

    def close(self) -> None:
        """End git; questions that it didn't get, and what it was still saying, no longer matter."""
        self.process.kill()
        for stream in (self.process.stdin, self.output, self.errors):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self.process.wait()
