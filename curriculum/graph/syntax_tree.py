"""What stands where in a source file: functions and classes as whole lines, doc comments and bodies as bytes.

Only the shell of the tree is walked – files, namespaces, `extern "C"`, #if branches, classes – never
the inside of a function, and never recursively: a hostile file nests a million deep.
"""

import functools
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import tree_sitter
import tree_sitter_c
import tree_sitter_cpp

from curriculum.graph.blank import blank, dead_branches, directives, long_opaque
from curriculum.graph.facts import Range
from curriculum.graph.line_groups import (
    Offsets,
    blank_lines,
    group_borders,
    group_lines,
    line_starts,
)
from curriculum.graph.macros import macros
from schemas.corpus import Language

ItemKind = Literal["function", "class", "preamble", "comment", "other"]

LARGEST_PARSED = 2_000_000
"""Bytes; a larger file is grouped by its blank lines."""
LARGEST_CLASS = 8_192
"""Bytes; the members of a larger class are items of their own."""
_GOOD_ENOUGH = 500
"""Bytes for each of which one may stand in an error before another variant is parsed."""
_CHECKS_PER_BYTE = 0.03
_SPARE_CHECKS = 1_000
"""The parser reports after each 100 of its steps: at most 0.017 times a byte in real code.

Steps, not seconds, are limited, so that a file gives the same items on every machine.
"""

_GRAMMARS = {"cpp": tree_sitter_cpp, "c": tree_sitter_c}
_CLASSES = frozenset(("class_specifier", "struct_specifier", "union_specifier"))
_WRAPPERS = frozenset(
    ("template_declaration", "declaration", "type_definition", "field_declaration")
)
_DOCUMENTED = (
    _CLASSES
    | _WRAPPERS
    | {"function_definition", "enum_specifier", "alias_declaration", "friend_declaration"}
)
_SHELLS = _WRAPPERS | {
    "translation_unit",
    "ERROR",
    "linkage_specification",
    "namespace_definition",
    "declaration_list",
    "field_declaration_list",
    "preproc_if",
    "preproc_ifdef",
    "preproc_else",
    "preproc_elif",
    "preproc_elifdef",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """Lines `[first, last)`, counted from 0, which are the bytes `[start, end)`."""

    kind: ItemKind
    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outline:
    """The items of a file, which tile it, and byte ranges in it; each sorted and disjoint."""

    starts: Offsets
    """[lines + 1] where each line begins, and the number of bytes."""
    items: tuple[Item, ...]
    documentation: tuple[Range, ...]
    """Comment blocks that end on the line above a declaration or definition."""
    bodies: tuple[Range, ...]
    """Function bodies with their braces."""


class _Lines(NamedTuple):
    """Lines `[first, last)` that hold something of this kind, and its bytes."""

    kind: ItemKind
    first: int
    last: int
    start: int
    end: int


@dataclass(kw_only=True, slots=True)
class _Marks:
    """What the walk found, in the order of the text."""

    units: list[_Lines] = field(default_factory=list)
    comments: list[_Lines] = field(default_factory=list)
    declared: list[int] = field(default_factory=list)
    """First lines of declarations and definitions."""
    bodies: list[Range] = field(default_factory=list)


def grammar_versions() -> dict[str, str]:
    """The installed versions that decide what an outline is."""
    packages = ("tree-sitter", "tree-sitter-c", "tree-sitter-cpp")
    return {package: importlib.metadata.version(package) for package in packages}


@functools.lru_cache(maxsize=8)
def outline(text: str, language: Language) -> Outline:
    """The outline of a file; never fails, and costs a parse at 3 MB/s for C and C++.

    A comment right above a function or class belongs to its item, blank lines below to the item above.
    Where there is no tree – other languages, damaged code, a file past the limits – items are groups
    of lines between blank lines.
    """
    data = text.encode()
    starts = line_starts(data)
    marks = _Marks()
    tree = _parse(data, language)
    if tree is not None:
        _walk(tree, marks)
    comments = _alone(data, starts, marks.comments)
    blocks = _blocks(comments)
    documented = {blocks[line] for line in marks.declared if line in blocks}
    return Outline(
        starts=starts,
        items=tuple(_tile(data, starts, _disjoint(marks.units, blocks), comments)),
        documentation=tuple(sorted(Range(block.start, block.end) for block in documented)),
        bodies=tuple(marks.bodies),
    )


def top_level_items(text: str, language: Language) -> tuple[Item, ...]:
    """The items alone."""
    return outline(text, language).items


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
    """Block comments and raw strings, sorted and disjoint."""
    dead: list[Range]
    """What #if leaves out, with the directives themselves; likewise."""


@functools.lru_cache(maxsize=8)
def parse(text: str, language: Language) -> Parsed | None:
    """The syntax tree of a C or C++ file; None where there is none or it costs too many steps.

    Dead branches and macros are blanked before it is parsed. Only where more than one byte in 500 stands
    in errors, it is parsed with more or less of it blanked, and what has the fewest such bytes is kept,
    of equals the first.
    """
    if language not in _GRAMMARS or not text or len(text) > LARGEST_PARSED:
        return None
    data = text.encode()
    hidden = long_opaque(data)
    dead = dead_branches(data, hidden, language)
    best: tuple[int, bytes, tree_sitter.Tree] | None = None
    for source in _variants(data, hidden, dead):
        tree = _parse(source, language)
        if tree is None:
            continue
        errors = _error_bytes(tree)
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
    first = blank(live, macros(live, hidden))
    second = blank(first, directives(first, hidden))
    yield first
    if second != first:
        yield second
    if live != first:
        yield live


def _error_bytes(tree: tree_sitter.Tree) -> int:
    """The bytes in outermost errors; looks only at nodes that hold any."""
    cursor = tree.walk()
    found = 0
    while True:
        node = cursor.node
        assert node is not None
        if node.is_error:
            found += node.end_byte - node.start_byte
        elif node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found


def _parse(data: bytes, language: Language) -> tree_sitter.Tree | None:
    if language not in _GRAMMARS or not data or len(data) > LARGEST_PARSED:
        return None
    checks = _SPARE_CHECKS + int(len(data) * _CHECKS_PER_BYTE)

    def is_enough(_offset: int, _has_error: bool) -> bool:
        nonlocal checks
        checks -= 1
        return checks < 0

    def read(offset: int, _point: tree_sitter.Point) -> bytes:
        return data[offset : offset + 65_536]

    try:
        return tree_sitter.Parser(_grammar(language)).parse(read, progress_callback=is_enough)
    except ValueError:
        # So the binding says that the callback stopped the parse; nothing else raises it here.
        assert checks < 0
        return None


@functools.cache
def _grammar(language: Language) -> tree_sitter.Language:
    return tree_sitter.Language(_GRAMMARS[language].language())


def _walk(tree: tree_sitter.Tree, marks: _Marks) -> None:
    cursor = tree.walk()
    wrapper: tree_sitter.Node | None = None
    while True:
        node = cursor.node
        assert node is not None
        kind = node.type
        outer = wrapper if wrapper and node.end_byte <= wrapper.end_byte else node
        if kind in _WRAPPERS:
            wrapper = outer
        elif kind in _CLASSES:
            wrapper = None
        if _note(node, kind, outer, marks) and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _note(node: tree_sitter.Node, kind: str, outer: tree_sitter.Node, marks: _Marks) -> bool:
    """Note a node, which `outer` wraps (as `template <…>` does); whether to look inside it."""
    if kind == "comment":
        marks.comments.append(_lines("comment", node))
        return False
    if kind in _DOCUMENTED:
        marks.declared.append(outer.start_point.row)
    if kind == "function_definition":
        marks.units.append(_lines("function", outer))
        body = node.child_by_field_name("body")
        if body is not None:
            marks.bodies.append(Range(body.start_byte, body.end_byte))
        return False
    if kind in _CLASSES:
        has_members = node.child_by_field_name("body") is not None
        if has_members and outer.end_byte - outer.start_byte <= LARGEST_CLASS:
            marks.units.append(_lines("class", outer))
        return has_members
    return kind in _SHELLS


def _lines(kind: ItemKind, node: tree_sitter.Node) -> _Lines:
    end = node.end_point
    last = end.row + 1 if end.column else end.row
    return _Lines(kind, node.start_point.row, last, node.start_byte, node.end_byte)


def _alone(data: bytes, starts: Offsets, comments: list[_Lines]) -> list[_Lines]:
    """The comments that have their lines to themselves."""
    return [
        comment
        for comment in comments
        if not data[starts[comment.first] : comment.start].strip()
        and not data[comment.end : starts[comment.last]].strip()
    ]


def _blocks(comments: list[_Lines]) -> dict[int, _Lines]:
    """Comments without a line between them as one, by the line below."""
    blocks: dict[int, _Lines] = {}
    for comment in comments:
        above = blocks.get(comment.first, comment)
        blocks[comment.last] = comment._replace(first=above.first, start=above.start)
    return blocks


def _disjoint(found: list[_Lines], blocks: dict[int, _Lines]) -> list[_Lines]:
    """Units that share no line, each with the comments above it."""
    units: list[_Lines] = []
    for unit in found:
        if units and unit.first < units[-1].last:
            units[-1] = units[-1]._replace(last=max(units[-1].last, unit.last))
        else:
            block = blocks.get(unit.first, unit)
            units.append(unit._replace(first=block.first))
    return units


def _tile(
    data: bytes, starts: Offsets, units: list[_Lines], comments: list[_Lines]
) -> Iterator[Item]:
    blank = blank_lines(starts)
    idle = blank.copy()
    for comment in comments:
        blank[comment.first : comment.last] = False
        idle[comment.first : comment.last] = True
    borders = group_borders(blank)
    busy = np.concatenate(([0], np.cumsum(~idle)))

    def gap(first: int, last: int) -> Iterator[Item]:
        for begin, end in group_lines(starts, borders, first, last):
            kind: ItemKind = "other"
            if busy[begin] == busy[end]:
                kind = "comment"
            elif data.find(b"#include", starts[begin], starts[end]) >= 0:
                kind = "preamble"
            yield _item(kind, begin, end, starts)

    line = 0
    for unit in units:
        yield from gap(line, unit.first)
        line = unit.last
        while line < len(blank) and blank[line]:
            line += 1
        yield _item(unit.kind, unit.first, line, starts)
    yield from gap(line, len(blank))


def _item(kind: ItemKind, first: int, last: int, starts: Offsets) -> Item:
    return Item(kind=kind, first=first, last=last, start=int(starts[first]), end=int(starts[last]))
