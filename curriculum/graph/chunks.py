"""The chunks of one piece of code: what its things own of it, cut where one holds another."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from curriculum.graph.categories import CLASS_DECL, COMMENT, FUNC_BODY, FUNC_SIG, OTHER, PREAMBLE
from curriculum.graph.categories import TYPEDEF as ALIAS
from curriculum.graph.facts import Symbol, SymbolKind
from curriculum.graph.nodes import Bytes, Flags, Ints

_UNOWNED = -1
_COMMENTS = -2
_PREAMBLE = -3
_KINDS: dict[int, frozenset[SymbolKind]] = {
    FUNC_BODY: frozenset({"function"}),
    FUNC_SIG: frozenset({"function"}),
    CLASS_DECL: frozenset({"class", "enum", "alias"}),
    ALIAS: frozenset({"alias"}),
    OTHER: frozenset({"variable", "macro"}),
}
"""The symbols that may name a chunk: a method that a nameless class declares doesn't name the class."""


class CodeChunk(NamedTuple):
    """Bytes `[start, end)`, which begin and end with something other than white space.

    Of a function FUNC_BODY: from `template <…>` or its type to its closing brace; FUNC_SIG if it is
    only declared. CLASS_DECL of a class or enum: the pieces around the methods and classes that are
    defined in it, which have chunks of their own. TYPEDEF, and OTHER of a variable, macro or concept.
    COMMENT and PREAMBLE: what stands alone on its lines outside of these, up to a blank line for
    comments. What is left, such as the lines of namespaces, is in no chunk.
    """

    start: int
    end: int
    kind: int
    name: str
    """Qualified as far as the piece tells; "" for what has none."""


def chunks_of(
    data: Bytes, ids: Bytes, owner: Ints, kinds: Bytes, names: Sequence[str]
) -> tuple[CodeChunk, ...]:
    """Sorted and disjoint; `owner` [bytes] is the thing that each byte belongs to, -1 for none."""
    place = np.flatnonzero(is_solid(data))
    label = owner[place]
    label[(label == _UNOWNED) & (ids[place] == COMMENT)] = _COMMENTS
    label[(label == _UNOWNED) & (ids[place] == PREAMBLE)] = _PREAMBLE
    # The semicolon after a class is a sibling of the class.
    late = np.flatnonzero((label == _UNOWNED) & (ids[place] == CLASS_DECL))
    label[late] = label[late - 1]
    lines = np.cumsum(data == ord("\n"), dtype=np.int32)[place]
    # A comment beside an #include belongs to it.
    beside = (label == _COMMENTS) & np.isin(lines, lines[label == _PREAMBLE])
    label[beside] = _PREAMBLE
    cuts = np.flatnonzero(
        (label[1:] != label[:-1]) | ((label[1:] == _COMMENTS) & (lines[1:] > lines[:-1] + 1))
    )
    first, last = np.append(0, cuts + 1), np.append(cuts, len(place) - 1)
    if not len(place):
        return ()
    kept = (label[first] >= 0) | (label[first] == _PREAMBLE)
    kept |= (label[first] == _COMMENTS) & _alone(lines, first, last)
    first, last = first[kept], last[kept]
    spans = zip(place[first].tolist(), place[last].tolist(), label[first].tolist(), strict=True)
    return tuple(_chunk(start, end + 1, whose, kinds, names) for start, end, whose in spans)


def _chunk(start: int, end: int, whose: int, kinds: Bytes, names: Sequence[str]) -> CodeChunk:
    if whose >= 0:
        return CodeChunk(start, end, int(kinds[whose]), names[whose])
    return CodeChunk(start, end, COMMENT if whose == _COMMENTS else PREAMBLE, "")


def is_solid(data: Bytes) -> Flags:
    """[bytes] whether each is more than white space."""
    solid: Flags = (data > ord(" ")) | (
        (data < ord("\t")) | ((data > ord("\r")) & (data < ord(" ")))
    )
    return solid


def _alone(lines: Ints, first: Ints, last: Ints) -> Flags:
    """Whether nothing solid stands on the lines from `first` to `last` beside what is between."""
    before = np.append(-1, lines)[first]
    after = np.append(lines, lines[-1] + 1)[last + 1]
    alone: Flags = (before < lines[first]) & (lines[last] < after)
    return alone


def names_of(owner: Ints, kinds: Bytes, symbols: Sequence[Symbol]) -> list[str]:
    """The qualified name of each thing: of the first symbol whose name is its own."""
    names = [""] * len(kinds)
    for symbol in symbols:
        whose = int(owner[symbol.name_start]) if symbol.name_start < len(owner) else _UNOWNED
        if whose >= 0 and not names[whose] and symbol.kind in _KINDS[int(kinds[whose])]:
            names[whose] = symbol.qualified
    return names
