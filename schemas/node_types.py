"""ast_node_type: 256 buckets for the kinds of syntax tree nodes, pinned for good in node_types.txt."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

NO_NODE = 0
"""No node, an ERROR, or bytes that were blanked before parsing."""
OTHER = 1
"""A kind that the table doesn't have."""
BUCKETS = 256


class Bucket(NamedTuple):
    """One line of the table: a node has a name in its grammar, a token is a literal one."""

    number: int
    what: str
    name: str
    kinds: tuple[str, ...]


def _read() -> tuple[Bucket, ...]:
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return tuple(Bucket(int(row[0]), row[1], row[2], tuple(row[3:] or row[2:])) for row in rows)


TABLE: tuple[Bucket, ...] = _read()
"""Kinds by number; numbers from the last one's on are free."""
BUCKET_NAMES: Mapping[int, str] = {bucket.number: bucket.name for bucket in TABLE}
NODE_TYPES: Mapping[str, int] = {
    kind: bucket.number for bucket in TABLE if bucket.what == "node" for kind in bucket.kinds
}
"""The bucket of each named node."""
TOKEN_TYPES: Mapping[str, int] = {
    kind.replace(r"\n", "\n"): bucket.number
    for bucket in TABLE
    if bucket.what == "token"
    for kind in bucket.kinds
}
"""The bucket of each anonymous token."""


def node_type(kind: str, *, is_named: bool) -> int:
    """The bucket of a kind of node; OTHER if the table doesn't have it.

    >>> node_type("ERROR", is_named=True), node_type("{", is_named=False)
    (0, 2)
    """
    return (NODE_TYPES if is_named else TOKEN_TYPES).get(kind, OTHER)
