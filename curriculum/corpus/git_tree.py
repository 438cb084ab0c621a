"""Entries of a commit's tree, and differences between the trees of two commits."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, NamedTuple

from curriculum.corpus import git
from schemas.errors import CorpusError

ARGUMENTS = (
    "diff-tree",
    "--stdin",
    "-r",
    "-z",
    "--raw",
    "--no-abbrev",
    "--no-commit-id",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
)
END = b"end\n"
"""Line by which git marks the end, since it is no id."""
CHUNK = 1 << 18


class TreeEntry(NamedTuple):
    """Entry at a path of a tree; an absent one has mode and id of zeros."""

    path: bytes
    mode: str
    blob_id: str


def listed(repository: Path, commit: str) -> Iterator[TreeEntry]:
    """All files of a commit's tree."""
    for line in git.run(repository, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        head, _, path = line.partition(b"\t")
        mode, _, blob_id = head.decode().split(" ")
        yield TreeEntry(path, mode, blob_id)


def contents(repository: Path, entries: Sequence[TreeEntry]) -> Iterator[tuple[bytes, bytes]]:
    """Path and bytes of every entry whose blob can be read; all bytes are held at once.

    A damaged blob ends its git without a word about the rest, so halves are tried until it is alone.
    """
    asked = "".join(f"{entry.blob_id}\n" for entry in entries).encode()
    try:
        said = git.run(repository, "cat-file", "--batch", stdin=asked)
    except CorpusError:
        half = len(entries) // 2
        for part in (entries[:half], entries[half:]) if half else ():
            yield from contents(repository, part)
        return
    at = 0
    for entry in entries:
        end = said.index(b"\n", at)
        head, at = said[at:end].split(), end + 1
        if head[1] == b"blob":
            size = int(head[2])
            yield entry.path, said[at : at + size]
            at += size + 1


@contextmanager
def comparing(repository: Path) -> Iterator["Comparison"]:
    """A comparison of the repository's trees; its git ends with the block."""
    with tempfile.TemporaryFile() as errors:
        process = Popen(
            git.command(*ARGUMENTS),
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            bufsize=0,
            env=git.environment(repository),
            cwd="/",
        )
        try:
            yield Comparison(process=process, errors=errors)
        finally:
            process.kill()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
            process.wait()


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One git that compares as many trees as it is asked to."""

    process: Popen[bytes]
    errors: IO[bytes]

    def entries(self, before: str, after: str) -> Iterator[TreeEntry]:
        """Yield the entries of the tree of `after` at the paths that differ from `before`.

        git takes commits behind the first for its parents, whatever the history says.

        Raises:
            CorpusError: if git fails.
        """
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(f"{after} {before}\n".encode() + END)
        except BrokenPipeError:
            raise self._death() from None
        tokens = self._tokens()
        for meta in tokens:
            if meta == END:
                return
            _, mode, _, blob_id, _ = meta.decode().split(" ")
            yield TreeEntry(next(tokens), mode, blob_id)

    def _tokens(self) -> Iterator[bytes]:
        """Yield the texts between NULs, up to END where an entry would begin."""
        assert self.process.stdout is not None
        rest, number = b"", 0
        while number % 2 or rest != END:
            chunk = self.process.stdout.read(CHUNK)
            if not chunk:
                raise self._death()
            *whole, rest = (rest + chunk).split(b"\0")
            number += len(whole)
            yield from whole
        yield END

    def _death(self) -> Exception:
        code = self.process.wait()
        self.errors.seek(0)
        return git.failure("diff-tree", code, self.errors.read())
