"""Syntax trees of C and C++ files, of the variant of a file that the grammar reads best."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter

from curriculum.graph.blank import (
    attribute_runs,
    blank,
    dead_branches,
    directives,
    opaque,
    unclosed,
)
from curriculum.graph.facts import Range
from curriculum.graph.grammars import grammar, has_grammar
from curriculum.graph.macros import macros
from schemas.corpus import Language

LARGEST_PARSED = 2_000_000
"""Bytes; a larger file is grouped by its blank lines."""
_GOOD_ENOUGH = 500
"""Bytes for each of which one may stand in an error before another variant is parsed."""
_WORST_TANGLE = 30_000**2
"""Looking for something in an error takes time that grows with the square of the nodes right in it."""
_CHECKS_PER_BYTE = 0.03
_SPARE_CHECKS = 1_000
"""The parser reports after each 100 of its steps: at most 0.017 times a byte in real code.

Steps, not seconds, are limited, so that a file gives the same items on every machine.
"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Parsed:
    """The syntax tree of a file."""

    data: bytes
    source: bytes
    """What was parsed: the file with blanks for what the grammar can't know, byte for byte."""
    tree: tree_sitter.Tree
    error_bytes: int
    """Bytes inside ERROR nodes."""
    hidden: list[Range]
    """Comments and literals, sorted and disjoint."""
    dead: list[Range]
    """What #if leaves out, with the directives themselves; likewise."""


@functools.lru_cache(maxsize=8)
def parse(text: str, language: Language) -> Parsed | None:
    """The syntax tree of a C or C++ file; None of others, and where it costs too many steps or is all errors.

    Dead branches and macros are blanked before it is parsed. Only where more than one byte in 500 stands
    in errors, it is parsed with more or less of it blanked, and what has the fewest such bytes is kept,
    of equals the first.
    """
    data = text.encode()
    if not has_grammar(language) or not data or len(data) > LARGEST_PARSED:
        return None
    hidden = opaque(data)
    dead = dead_branches(data, hidden, language)
    best: tuple[int, bytes, tree_sitter.Tree] | None = None
    readable = blank(blank(data, unclosed(data, hidden)), attribute_runs(data, hidden))
    for source in _variants(readable, hidden, dead):
        tree = tree_of(source, language)
        if tree is None:
            continue
        errors = _error_bytes(tree)
        if errors is None:
            continue
        if best is None or errors < best[0]:
            best = errors, source, tree
        if errors * _GOOD_ENOUGH <= len(data):
            break
    if best is None:
        return None
    errors, source, tree = best
    return Parsed(data=data, source=source, tree=tree, error_bytes=errors, hidden=hidden, dead=dead)


def _variants(data: bytes, hidden: list[Range], dead: list[Range]) -> Iterator[bytes]:
    """What to parse: without branches and macros; without directives either; with macros again.

    With all branches no file of five repositories had fewer errors.
    """
    live = blank(data, dead)
    lines = directives(live, hidden)
    first = blank(live, macros(live, hidden, lines))
    second = blank(first, lines)
    yield first
    if second != first:
        yield second
    if live != first:
        yield live


def _error_bytes(tree: tree_sitter.Tree) -> int | None:
    """The bytes in outermost errors; looks only at nodes that hold any. None if they are a tangle."""
    cursor = tree.walk()
    found = tangle = 0
    while True:
        node = cursor.node
        assert node is not None
        if node.is_error:
            found += node.end_byte - node.start_byte
            tangle += node.child_count**2
        elif node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return None if tangle > _WORST_TANGLE else found


def tree_of(data: bytes, language: Language) -> tree_sitter.Tree | None:
    """The tree of one variant; None where it costs too many steps."""
    checks = _SPARE_CHECKS + int(len(data) * _CHECKS_PER_BYTE)

    def is_enough(_offset: int, _has_error: bool) -> bool:
        nonlocal checks
        checks -= 1
        return checks < 0

    def read(offset: int, _point: tree_sitter.Point) -> bytes:
        return data[offset : offset + 65_536]

    try:
        return tree_sitter.Parser(grammar(language)).parse(read, progress_callback=is_enough)
    except ValueError:
        # So the binding says that the callback stopped the parse; nothing else raises it here.
        assert checks < 0
        return None
