"""Differing lines (hunks) between many pairs of texts, computed by one git process."""

import hashlib
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from curriculum.corpus import git
from curriculum.corpus.blobs import Version
from curriculum.corpus.git_process import GitProcess
from schemas.change import Hunk

ARGUMENTS = (
    "diff-tree",
    "--stdin",
    "-r",
    "-p",
    "-U0",
    "--diff-algorithm=histogram",
    "--indent-heuristic",
    "--inter-hunk-context=0",
    "--text",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
HEADER = re.compile(
    rb"^(?:diff --git a/(\d+) b/\d+|@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@)", re.MULTILINE
)
"""Pattern of file and hunk headers in a patch.

Lines of content begin with `+`, `-` or a backslash, so no file can forge a header or END.
"""
END = b"end\n"


@contextmanager
def open_differ(repository: Path) -> Iterator["BatchDiffer"]:
    """Open a differ for the `with` block that writes git objects into `repository`, which must be a view.

    At the end of the block, the git process is ended. Until then, each batch needs disk space for two trees
    and for every text that differs from its stored blob.
    """
    with closing(GitProcess.start(repository, *ARGUMENTS)) as asked:
        yield BatchDiffer(repository=repository, asked=asked)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchDiffer:
    """Differ that compares many pairs of texts at a time.

    The texts of a batch are written as two trees, whose files have the names 0000000, 0000001, …, one file
    per pair. One git process compares all pairs of trees. No path of the corpus ever passes through a diff.
    """

    repository: Path
    asked: GitProcess

    def hunks(self, pairs: Sequence[tuple[Version, Version]]) -> list[tuple[Hunk, ...]]:
        """Return the hunks of each pair (before, after); the two texts of a pair must differ.

        Line numbers refer to the decoded texts.

        Raises:
            CorpusError: if git fails or reports no hunk for a pair.
        """
        before = _tree(self.repository, [pair[0] for pair in pairs])
        after = _tree(self.repository, [pair[1] for pair in pairs])
        found: list[list[Hunk]] = [[] for _ in pairs]
        for index, hunk in _parse(self._patch(before, after)):
            found[index].append(hunk)
        if not all(found):
            raise git.GitError(
                "git diff-tree",
                f"{sum(map(bool, found))} of {len(pairs)} pairs",
                cause="it reported no difference between texts that differ",
                cure="Use another version of git",
            )
        return [tuple(hunks) for hunks in found]

    def _patch(self, before: str, after: str) -> bytes:
        """Return git's patch between two trees, which are given by their ids.

        END is sent after them. It isn't an object id, so git repeats it once the patch is complete.
        """
        self.asked.send(f"{before} {after}\n".encode() + END)
        chunks: list[bytes] = []
        tail = b"\n"
        while not tail.endswith(b"\n" + END):
            chunk = self.asked.read_bytes()
            chunks.append(chunk)
            tail = (tail + chunk)[-len(END) - 1 :]
        return b"".join(chunks)


def whole_text_hunks(text: str, *, added: bool) -> tuple[Hunk, ...]:
    """Return the single hunk that adds or removes all lines of `text`; no hunk if `text` is empty."""
    lines = count_lines(text)
    if not lines:
        return ()
    before, after = (0, lines) if added else (lines, 0)
    return (Hunk(before_start=0, before_lines=before, after_start=0, after_lines=after),)


def count_lines(text: str) -> int:
    r"""Count the lines of a text: `a\nb` and `a\nb\n` both have two lines."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _parse(patch: bytes) -> Iterator[tuple[int, Hunk]]:
    index = -1
    for header in HEADER.finditer(patch):
        name, *numbers = header.groups()
        if name is not None:
            index = int(name)
            continue
        before, before_lines, after, after_lines = (
            1 if number is None else int(number) for number in numbers
        )
        yield (
            index,
            Hunk(
                before_start=before - (before_lines > 0),
                before_lines=before_lines,
                after_start=after - (after_lines > 0),
                after_lines=after_lines,
            ),
        )


def _tree(repository: Path, versions: Sequence[Version]) -> str:
    """Write a git tree in which file number i is the text of `versions[i]`; return the tree's id."""
    entries: list[bytes] = []
    for number, version in enumerate(versions):
        blob_id = version.blob.blob_id
        if not version.as_stored:
            blob_id = _write(repository, "blob", version.blob.text.encode(), digits=len(blob_id))
        entries.append(b"100644 %07d\0" % number + bytes.fromhex(blob_id))
    return _write(repository, "tree", b"".join(entries), digits=len(versions[0].blob.blob_id))


def _write(repository: Path, kind: str, body: bytes, *, digits: int) -> str:
    """Store `body` as a loose git object and return its id."""
    stored = f"{kind} {len(body)}\0".encode() + body
    digest = hashlib.sha1(stored) if digits == git.DIGESTS["sha1"] else hashlib.sha256(stored)
    name = digest.hexdigest()
    path = repository / "objects" / name[:2] / name[2:]
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(zlib.compress(stored, 1))
    return name
