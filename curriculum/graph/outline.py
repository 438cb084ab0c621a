"""Outline of a source file: functions and classes as whole lines, doc comments and bodies as byte ranges.

The walk visits only files, namespaces, `extern "C"`, #if branches and classes. The insides of functions are
read by a query. Nothing is recursive, since a hostile file may be nested a million levels deep.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import tree_sitter

from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import (
    Offsets,
    group_lines,
    line_starts,
)
from curriculum.graph.syntax_tree import Parsed, grammar, parse, visit
from schemas.corpus import Language
from schemas.document import SpanKind

ItemKind = Literal["function", "class", "preamble", "comment", "other"]

MAX_CLASS_BYTES = 8_192
"""Maximum bytes of a class that is one item; the members of a larger class become items of their own."""
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
SPACING_BYTES = 256
"""Length of a stretch of bytes in which at most one range of each kind begins, so that spans don't dominate a
document's size.
"""
_PATTERNS = (
    "(function_definition body: (compound_statement (_) @statement))"
    "(call_expression arguments: (argument_list) @arguments)"
)


class Item(NamedTuple):
    """Part of a file with one kind of content: the lines `[first, last)`, counted from 0, and their bytes."""

    kind: ItemKind
    first: int
    last: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Outline:
    """Items of a file, which cover each of its lines once, and byte ranges by kind.

    Items and the ranges of each kind are sorted and disjoint.
    """

    starts: Offsets
    """Offset at which each line begins, followed by the number of bytes, [lines + 1]."""
    items: tuple[Item, ...]
    documentation: tuple[Range, ...]
    """Comment blocks that end on the line above a declaration or definition."""
    bodies: tuple[Range, ...]
    """Function bodies with their braces."""
    statements: tuple[Range, ...] = ()
    """Top-level statements of function bodies, at most one per SPACING_BYTES."""
    arguments: tuple[Range, ...] = ()
    """Texts between the parentheses of calls, at most one per SPACING_BYTES."""
    declarations: tuple[Range, ...] = ()
    """Documented declarations that contain no other documented declaration. A function ends before its body.
    """

    def marks(self) -> Iterator[tuple[SpanKind, tuple[Range, ...]]]:
        """Yield the byte ranges of each kind, under the kind that their spans have in documents."""
        yield "documentation", self.documentation
        yield "declaration", self.declarations
        yield "body", self.bodies
        yield "statement", self.statements
        yield "arguments", self.arguments


@dataclass(kw_only=True, slots=True)
class _Marks:
    """Definitions and comments that the walk found, in the order of the text."""

    units: list[Item] = field(default_factory=list)
    comments: list[Item] = field(default_factory=list)
    declared: dict[int, Range] = field(default_factory=dict)
    """First declaration or definition on each line, up to its body, by line number."""
    bodies: list[Range] = field(default_factory=list)
    _wrapper: tree_sitter.Node | None = None

    def note(self, node: tree_sitter.Node) -> bool:
        """Record a node; return True if its children must be visited, too."""
        kind = node.type
        wrapper = self._wrapper
        outer = wrapper if wrapper and node.end_byte <= wrapper.end_byte else node
        if kind == "comment":
            self.comments.append(_lines("comment", node))
        elif kind in _WRAPPERS:
            self._wrapper = outer
        elif kind in _CLASSES:
            self._wrapper = None
        if kind in _DOCUMENTED:
            whole = Range(outer.start_byte, outer.end_byte)
            self.declared.setdefault(outer.start_point.row, whole)
        if kind == "function_definition":
            self._note_function(node, outer)
        if kind in _CLASSES:
            has_members = node.child_by_field_name("body") is not None
            if has_members and outer.end_byte - outer.start_byte <= MAX_CLASS_BYTES:
                self.units.append(_lines("class", outer))
            return has_members
        return kind in _SHELLS

    def _note_function(self, node: tree_sitter.Node, outer: tree_sitter.Node) -> None:
        self.units.append(_lines("function", outer))
        body = node.child_by_field_name("body")
        if body is not None:
            self.bodies.append(Range(body.start_byte, body.end_byte))
            if self.declared[outer.start_point.row].start == outer.start_byte:
                self.declared[outer.start_point.row] = Range(outer.start_byte, body.start_byte)


CACHED_OUTLINES = 128
"""Number of cached outlines. They are needed again: a file before a commit is mostly the file after an
earlier commit.

Memory: some 50 MB for the files of re2.
"""


@functools.lru_cache(maxsize=CACHED_OUTLINES)
def outline(text: str, language: Language) -> Outline:
    """Return the outline of a file; never raises, and costs the time of `parse` for C and C++.

    The comment directly above a function or class belongs to its item; blank lines below belong to the item
    above. If there is no syntax tree (other languages, damaged code, files beyond the limits), items are
    groups of lines between blank lines.
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
        visit(parsed.tree, marks.note)
        statements, arguments = statements_and_arguments(parsed, language)
    # Comments alone on their lines; comments on consecutive lines form one block.
    comments: list[Item] = []
    blocks: dict[int, Item] = {}
    for comment in marks.comments:
        lead = data[starts[comment.first] : comment.start]
        rest = data[comment.end : starts[comment.last]]
        if not lead.strip() and not rest.strip():
            comments.append(comment)
            above = blocks.get(comment.first, comment)
            blocks[comment.last] = comment._replace(first=above.first, start=above.start)

    def block_above(line: int) -> Item | None:
        """Return the comment block directly above `line`; blanked macros and directives may be between."""
        while line and line not in blocks:
            start, end = starts[line - 1], starts[line]
            if data[start:end].isspace() or not source[start:end].isspace():
                return None
            line -= 1
        return blocks.get(line)

    units: list[Item] = []
    for unit in marks.units:
        if units and unit.first < units[-1].last:
            units[-1] = units[-1]._replace(last=max(units[-1].last, unit.last))
        else:
            units.append(unit._replace(first=(block_above(unit.first) or unit).first))
    documented = {
        block: declared
        for line, declared in marks.declared.items()
        if (block := block_above(line)) is not None
    }
    return Outline(
        starts=starts,
        items=tuple(_tile(data, starts, units, comments)),
        documentation=tuple(sorted(Range(block.start, block.end) for block in documented)),
        bodies=tuple(marks.bodies),
        statements=statements,
        arguments=arguments,
        declarations=innermost(documented.values()),
    )


def innermost(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return those of the `ranges` that contain no other range, sorted; any two are nested or disjoint.

    >>> innermost([Range(0, 9), Range(5, 7), Range(1, 3), Range(9, 12)])
    (Range(start=1, end=3), Range(start=5, end=7), Range(start=9, end=12))
    """
    found = sorted(set(ranges), key=lambda span: (span.start, -span.end))
    after = [span.start for span in found[1:]] + [found[-1].end] if found else []
    return tuple(span for span, start in zip(found, after, strict=True) if start >= span.end)


def _lines(kind: ItemKind, node: tree_sitter.Node) -> Item:
    end = node.end_point
    last = end.row + 1 if end.column else end.row
    return Item(kind, node.start_point.row, last, node.start_byte, node.end_byte)


def _tile(
    data: bytes, starts: Offsets, units: Sequence[Item], comments: Sequence[Item]
) -> Iterator[Item]:
    """Yield the `units` and, between them, groups of the other lines; each line is in one item.

    Blank lines below a unit belong to the unit.
    """
    blank = np.diff(starts) == 1
    idle = blank.copy()
    for comment in comments:
        blank[comment.first : comment.last] = False
        idle[comment.first : comment.last] = True
    busy = np.concatenate(([0], np.cumsum(~idle)))
    found: list[tuple[ItemKind, int, int]] = []
    line = 0
    for unit in (*units, None):
        for first, last in group_lines(starts, blank, line, unit.first if unit else len(blank)):
            kind: ItemKind = "other"
            if busy[first] == busy[last]:
                kind = "comment"
            elif data.find(b"#include", starts[first], starts[last]) >= 0:
                kind = "preamble"
            found.append((kind, first, last))
        if unit is not None:
            line = unit.last
            while line < len(blank) and blank[line]:
                line += 1
            found.append((unit.kind, unit.first, line))
    for kind, first, last in found:
        yield Item(kind, first, last, int(starts[first]), int(starts[last]))


@functools.cache
def _statement_query(language: Language) -> tree_sitter.Query:
    return tree_sitter.Query(grammar(language), _PATTERNS)


def statements_and_arguments(
    parsed: Parsed, language: Language
) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """Return the top-level statements of function bodies, and the texts between the parentheses of calls.

    Comments and empty arguments are left out. Both results are sorted, disjoint and passed through
    `thin_out`. Costs a sixth of the parse.
    """
    found = tree_sitter.QueryCursor(_statement_query(language)).captures(parsed.tree.root_node)
    statements = (
        Range(node.start_byte, node.end_byte)
        for node in found.get("statement", ())
        if node.type != "comment"
    )
    calls = (Range(node.start_byte, node.end_byte) for node in found.get("arguments", ()))
    data = parsed.data
    arguments = (
        Range(call.start + 1, call.end - 1)
        for call in calls
        if data[call.start : call.start + 1] == b"(" and data[call.end - 1 : call.end] == b")"
    )
    written = (argument for argument in arguments if data[argument.start : argument.end].strip())
    return thin_out(statements), thin_out(written)


def thin_out(ranges: Iterable[Range], spacing: int = SPACING_BYTES) -> tuple[Range, ...]:
    """Return a subset of `ranges` that is disjoint, with at most one range that begins per `spacing` bytes.

    It is the first range that doesn't overlap an earlier one. Of ranges with the same start, the outermost is
    kept.

    >>> thin_out([Range(1, 4), Range(5, 6), Range(11, 25), Range(22, 24), Range(26, 27)], 10)
    (Range(start=1, end=4), Range(start=11, end=25), Range(start=26, end=27))
    """
    kept: list[Range] = []
    for span in sorted(set(ranges), key=lambda found: (found.start, -found.end)):
        last = kept[-1] if kept else Range(-spacing, 0)
        is_clear = last.end <= span.start < span.end
        if is_clear and span.start // spacing > last.start // spacing:
            kept.append(span)
    return tuple(kept)
