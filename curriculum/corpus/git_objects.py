"""Types and sizes of git objects, which are requested first so that oversized objects are never inflated."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from curriculum.corpus import git


class ObjectHead(NamedTuple):
    """Type and size of an object; a missing object has type `missing` and 0 bytes."""

    kind: str
    size: int


def parse_head(line: bytes) -> ObjectHead | None:
    r"""Parse a line of output of `git cat-file`; return None if the line is incomplete.

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
    """Return the type and size of each object.

    Raises:
        CorpusError: if git fails or answers for too few objects.
    """
    asked = "".join(f"{name}\n" for name in names).encode()
    output = git.run(repository, "cat-file", "--batch-check", stdin=asked)
    heads = [head for line in output.splitlines(keepends=True) if (head := parse_head(line))]
    if len(heads) != len(names):
        raise git.exit_error("cat-file", 0, output[:100])
    return heads
