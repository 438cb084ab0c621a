"""A unit as a worker receives it, and its content as a worker sends it: values without a cursor.

A chain is how the frontend names one thing: its USR, then those of the templates that it came from. USRs tell
overloads, namespaces and files of static functions apart and are the same in every unit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from curriculum.graph.clang.database import Unit
from curriculum.graph.clang.snapshot import (
    CallCount,
    IndexedClass,
    IndexedFunction,
    IndexedInclude,
    Outcome,
)
from schemas.document import EdgeKind, EdgeLabel

Chain = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A unit and where its places lie on this machine."""

    unit: Unit
    root: Path
    places: Mapping[str, str]


class Reference(NamedTuple):
    """A definition says something about others: the candidates are `chains`, or whatever has `name`."""

    kind: EdgeKind
    label: EdgeLabel
    chains: tuple[Chain, ...]
    total: int
    """Candidates, those outside of the tree included."""
    name: str = ""
    """Name of a method that depends on its object's type."""
    arity: int = -1
    """Arguments of a dependent call."""
    within: Chain = ()
    """The class of that object, where it is known up to its template arguments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """A definition or declaration with what it says; `is_partial` of its value isn't decided yet."""

    usr: str
    value: IndexedFunction | IndexedClass
    is_declaration: bool
    owner: Chain
    """The class that it is a member of; () for none."""
    mentions: frozenset[Reference]
    calls: CallCount


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitResult:
    """Facts of one unit, with the outcome of its indexing."""

    outcome: Outcome
    reason: str = ""
    seen: tuple[Definition, ...] = ()
    includes: frozenset[IndexedInclude] = frozenset()
