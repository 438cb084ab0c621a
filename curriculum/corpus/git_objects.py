"""Kinds and sizes of git's objects, asked for first, so that none is inflated that is too large."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from curriculum.corpus import git


class ObjectHead(NamedTuple):
    """Kind and bytes of an object; one that isn't there is `missing` and has 0 bytes."""

    kind: str
    size: int


def parse_head(line: bytes) -> ObjectHead | None:
    r"""Return what a line of `git cat-file` says of an object; None for a line that breaks off.

    >>> parse_head(b"1f2e blob 12\n"), parse_head(b"1f2e missing\n"), parse_head(b"1f2e bl")
    (ObjectHead(kind='blob', size=12), ObjectHead(kind='missing', size=0), None)
    """
    match line.split() if line.endswith(b"\n") else []:
        case [_, kind, size]:
            return ObjectHead(kind.decode(), int(size))
        case [_, b"missing"]:
            return ObjectHead("missing", 0)
    return None


def object_heads(repository: Path, names: Sequence[str]) -> list[ObjectHead]:
    """Return kind and size of each of some objects.

    Raises:
        CorpusError: if git fails, or answers for fewer.
    """
    asked = "".join(f"{name}\n" for name in names).encode()
    output = git.run(repository, "cat-file", "--batch-check", stdin=asked)
    heads = [head for line in output.splitlines(keepends=True) if (head := parse_head(line))]
    if len(heads) != len(names):
        raise git.failure("cat-file", 0, output[:100])
    return heads
