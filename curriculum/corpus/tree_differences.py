"""Differences between the trees of two commits, computed by a long-running git process."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from curriculum.corpus.git_process import GitProcess
from curriculum.corpus.git_tree import TreeEntry

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
"""Line that git repeats after an answer, because it isn't an object id."""


@contextmanager
def open_comparison(repository: Path) -> Iterator["Comparison"]:
    """Open a comparison of a repository's trees for the `with` block, at whose end its git process ends."""
    with closing(GitProcess.start(repository, *ARGUMENTS)) as asked:
        yield Comparison(asked=asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A git process that compares pairs of trees, one after another."""

    asked: GitProcess

    def entries(self, before: str, after: str) -> Iterator[TreeEntry]:
        """Yield the entries in the tree of `after` for all paths that differ from the tree of `before`.

        The two commits need not be parent and child.

        Raises:
            CorpusError: if git fails.
        """
        self.asked.send(f"{after} {before}\n".encode() + END)
        tokens = self._tokens()
        for meta in tokens:
            if meta == END:
                return
            _, mode, _, blob_id, _ = meta.decode().split(" ")
            yield TreeEntry(next(tokens), mode, blob_id)

    def _tokens(self) -> Iterator[bytes]:
        """Yield the texts between NULs in git's output, until END comes in place of an entry."""
        rest, number = bytearray(), 0
        while number % 2 or rest != END:
            first, *others = self.asked.read_answer().split(b"\0")
            rest += first
            for token in others:
                yield bytes(rest)
                number += 1
                rest = bytearray(token)
        yield END
