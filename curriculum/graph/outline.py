"""Outline of a source file: functions and classes as whole lines, doc comments and bodies as bytes.

Only the shell of the tree is walked – files, namespaces, `extern "C"`, #if branches, classes – never
the inside of a function, which a query looks into, and never recursively: a hostile file nests a million
deep.
"""

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import tree_sitter

from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import (
    Offsets,
    blank_lines,
    group_borders,
    group_lines,
    line_starts,
)
from curriculum.graph.structure import statements_and_arguments
from curriculum.graph.syntax_tree import parse
from schemas.corpus import Language

ItemKind = Literal["function", "class", "preamble", "comment", "other"]

LARGEST_CLASS = 8_192
"""Bytes; the members of a larger class are items of their own."""
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
    statements: tuple[Range, ...] = ()
    """Right in a function's body, one here and there."""
    arguments: tuple[Range, ...] = ()
    """Between the parentheses of calls, likewise."""
    declarations: tuple[Range, ...] = ()
    """Declarations under documentation: a function up to its body, else to its end. One that holds others
    is left out."""


class _Lines(NamedTuple):
    """Lines `[first, last)` that hold something of this kind, and its bytes."""

    kind: ItemKind
    first: int
    last: int
    start: int
    end: int


@dataclass(kw_only=True, slots=True)
class _Marks:
    """Findings of the walk, in the order of the text."""

    units: list[_Lines] = field(default_factory=list)
    comments: list[_Lines] = field(default_factory=list)
    declared: dict[int, Range] = field(default_factory=dict)
    """First declaration or definition there, up to its body, by its first line."""
    bodies: list[Range] = field(default_factory=list)


@functools.lru_cache(maxsize=8)
def outline(text: str, language: Language) -> Outline:
    """The outline of a file; never fails, and costs what `parse` costs for C and C++.

    A comment right above a function or class belongs to its item, blank lines below to the item above.
    Where there is no tree – other languages, damaged code, a file past the limits – items are groups
    of lines between blank lines.
    """
    data = text.encode()
    starts = line_starts(data)
    marks = _Marks()
    parsed = parse(text, language)
    statements: tuple[Range, ...] = ()
    arguments: tuple[Range, ...] = ()
    source = data
    if parsed is not None:
        source = parsed.source
        _walk(parsed.tree, marks)
        statements, arguments = statements_and_arguments(parsed, language)
    comments = _alone(data, starts, marks.comments)
    blocks = _Blocks(blocks=_blocks(comments), data=data, source=source, starts=starts)
    documented = {
        block: declared
        for line, declared in marks.declared.items()
        if (block := blocks.above(line)) is not None
    }
    return Outline(
        starts=starts,
        items=tuple(_tile(data, starts, _disjoint(marks.units, blocks), comments)),
        documentation=tuple(sorted(Range(block.start, block.end) for block in documented)),
        bodies=tuple(marks.bodies),
        statements=statements,
        arguments=arguments,
        declarations=innermost(documented.values()),
    )


def innermost(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges, nested or disjoint, that hold none of the others; sorted.

    >>> innermost([Range(0, 9), Range(5, 7), Range(1, 3), Range(9, 12)])
    (Range(start=1, end=3), Range(start=5, end=7), Range(start=9, end=12))
    """
    found = sorted(set(ranges), key=lambda each: (each.start, -each.end))
    after = [each.start for each in found[1:]] + [found[-1].end] if found else []
    return tuple(each for each, start in zip(found, after, strict=True) if start >= each.end)


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
        marks.declared.setdefault(outer.start_point.row, Range(outer.start_byte, outer.end_byte))
    if kind == "function_definition":
        marks.units.append(_lines("function", outer))
        body = node.child_by_field_name("body")
        if body is not None:
            marks.bodies.append(Range(body.start_byte, body.end_byte))
            if marks.declared[outer.start_point.row].start == outer.start_byte:
                marks.declared[outer.start_point.row] = Range(outer.start_byte, body.start_byte)
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Blocks:
    """Blocks of comments by the line below, in a file and its blanked copy."""

    blocks: dict[int, _Lines]
    data: bytes
    source: bytes
    starts: Offsets

    def above(self, line: int) -> _Lines | None:
        """The block that ends above a line, or above macros and directives there, which were blanked."""
        while line and line not in self.blocks and self._is_blanked(line - 1):
            line -= 1
        return self.blocks.get(line)

    def _is_blanked(self, line: int) -> bool:
        start, end = self.starts[line], self.starts[line + 1]
        return self.source[start:end].isspace() and not self.data[start:end].isspace()


def _disjoint(found: list[_Lines], blocks: _Blocks) -> list[_Lines]:
    """Units that share no line, each with the comments above it."""
    units: list[_Lines] = []
    for unit in found:
        if units and unit.first < units[-1].last:
            units[-1] = units[-1]._replace(last=max(units[-1].last, unit.last))
        else:
            block = blocks.above(unit.first) or unit
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
