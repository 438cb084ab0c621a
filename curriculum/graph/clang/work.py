"""What a worker is asked: importing this needs no libclang, answering does."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from curriculum.graph.clang.database import Unit
from curriculum.graph.clang.seen import UnitResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """A unit and where its places lie on this machine."""

    unit: Unit
    root: Path
    places: Mapping[str, str]


def index_unit(work: Work) -> UnitResult:
    """All that a unit shows of the tree; the standard with the fewest errors is taken."""
    # Here, so that only a worker loads the frontend.
    from curriculum.graph.clang.unit import index

    return index(work)


def probe(_: int) -> str:
    """The standard library that the frontend finds, as versions of its headers."""
    from curriculum.graph.clang.frontend import standard_library

    return standard_library()
