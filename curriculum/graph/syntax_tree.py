"""Syntax trees of C and C++ files, of the variant of a file that the grammar reads best; and their arrays.

A NodeTable has a tree's nodes in preorder, without recursion, however deep it is: a node's parent is before
it, and deeper nodes of one byte are later.
"""

import functools
import importlib.metadata
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import tree_sitter
import tree_sitter_c
import tree_sitter_cpp

from curriculum.graph.blank import (
    attribute_runs,
    blank,
    dead_branches,
    directives,
    opaque,
    unclosed,
)
from curriculum.graph.facts import Range
from curriculum.graph.heads import heads, leading_calls, untyped
from curriculum.graph.macros import macros
from schemas.corpus import Language
from schemas.structure import NO_NODE, node_type

_PACKAGES = {"cpp": tree_sitter_cpp, "c": tree_sitter_c}


@functools.cache
def grammar(language: Language) -> tree_sitter.Language:
    """The grammar of a language that has one."""
    return tree_sitter.Language(_PACKAGES[language].language())


@functools.cache
def grammar_versions() -> Mapping[str, str]:
    """The installed versions that decide what a tree is."""
    packages = ("tree-sitter", "tree-sitter-c", "tree-sitter-cpp")
    return {package: importlib.metadata.version(package) for package in packages}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinds:
    """The grammar's numbers; 0 for missing ones. An attribute with one is named as the node or field."""

    shells: Mapping[str, int]
    """Kinds that hold or are definitions, by name."""
    around_classes: frozenset[int]
    around_declarators: frozenset[int]
    bodies: frozenset[int]
    function_declarator: int
    operator_cast: int
    parenthesized_declarator: int
    parenthesized_expression: int
    attributed_declarator: int
    qualified_identifier: int
    init_declarator: int
    identifier: int
    comment: int
    field_expression: int
    written_names: frozenset[int]
    """Kinds of callees that are names with scopes or template arguments."""
    name: int
    body: int
    type: int
    declarator: int
    parameters: int
    field: int
    value: int
    arguments: int
    function: int


SHELLS = (
    "function_definition",
    "declaration",
    "field_declaration",
    "struct_specifier",
    "union_specifier",
    "enum_specifier",
    "type_definition",
)
SHELLS_CPP = (
    "class_specifier",
    "namespace_definition",
    "template_declaration",
    "friend_declaration",
    "alias_declaration",
    "concept_definition",
)


@functools.cache
def kinds(language: Language) -> Kinds:
    """The numbers of a grammar."""
    own = grammar(language)

    def kind(name: str) -> int:
        return own.id_for_node_kind(name, True) or 0

    def some(*names: str) -> frozenset[int]:
        return frozenset(map(kind, names)) - {0}

    shells = SHELLS + (SHELLS_CPP if language == "cpp" else ())
    return Kinds(
        shells={name: kind(name) for name in shells},
        around_classes=some("translation_unit", "declaration_list", "template_declaration"),
        around_declarators=some(
            "pointer_declarator",
            "reference_declarator",
            "array_declarator",
            "qualified_identifier",
        ),
        bodies=some("compound_statement", "try_statement"),
        written_names=some("qualified_identifier", "template_function"),
        **{
            field.name: kind(field.name) or own.field_id_for_name(field.name) or 0
            for field in fields(Kinds)
            if field.type is int
        },
    )


_SHARED = (
    *(f"({kind}) @shell" for kind in SHELLS),
    "(parameter_declaration) @typed",
    "(type_identifier) @mention",
    "(call_expression) @call",
    "(compound_literal_expression) @literal",
    "(comment) @remark",
)
_CPP = (
    "(declaration type: (_) @made"
    " declarator: (init_declarator"
    "  declarator: [(identifier) (qualified_identifier) (array_declarator)]"
    "  value: [(argument_list) (initializer_list)] @value))",
    *(f"({kind}) @shell" for kind in SHELLS_CPP),
    "(optional_parameter_declaration) @typed",
    "(for_range_loop) @typed",
    "(using_declaration) @using",
    "(new_expression) @new",
    "(field_initializer) @initialiser",
    "(cast_expression type: (type_descriptor type: (qualified_identifier) !declarator)"
    " value: (parenthesized_expression)) @cast",
)
Nodes = Sequence[tree_sitter.Node]
_DEEPEST = 10_000
"""Nodes around one another; past 2^15 the cursor loses what it has begun, and time grows with depth."""


@functools.cache
def _query(language: Language) -> tree_sitter.Query:
    patterns = _SHARED if language == "c" else _SHARED + _CPP
    return tree_sitter.Query(grammar(language), "\n".join(patterns))


def captures_of(tree: tree_sitter.Tree, language: Language) -> Mapping[str, Nodes]:
    """The nodes by what they are looked for as, each kind in no order; costs two fifths of the parse."""
    cursor = tree_sitter.QueryCursor(_query(language))
    cursor.set_max_start_depth(_DEEPEST)
    return cursor.captures(tree.root_node)


MAX_PARSED = 2_000_000
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
    """Parsed source: the file with blanks for what the grammar can't parse, byte for byte."""
    tree: tree_sitter.Tree
    error_bytes: int
    """Bytes inside ERROR nodes."""
    hidden: list[Range]
    """Comments and literals, sorted and disjoint."""
    dead: list[Range]
    """Ranges that #if leaves out, with the directives themselves; likewise."""


@functools.lru_cache(maxsize=8)
def parse(text: str, language: Language) -> Parsed | None:
    """The syntax tree of a C or C++ file; None of others, and where it costs too many steps or is all errors.

    Dead branches and macros are blanked before it is parsed. Only where more than one byte in 500 stands
    in errors, it is parsed with more or less of it blanked, and what has the fewest such bytes is kept,
    of equals the first.
    """
    data = text.encode()
    if language not in _PACKAGES or not data or len(data) > MAX_PARSED:
        return None
    hidden = opaque(data)
    dead = dead_branches(data, hidden, language)
    best: tuple[int, bytes, tree_sitter.Tree] | None = None
    readable = blank(blank(data, unclosed(data, hidden)), attribute_runs(data, hidden))
    for source in _variants(readable, hidden, dead, language):
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


def _variants(
    data: bytes, hidden: list[Range], dead: list[Range], language: Language
) -> Iterator[bytes]:
    """Yield the texts to parse: without branches and macros; without directives either; with macros again.

    With all branches no file of five repositories had fewer errors.
    """
    live = blank(data, dead)
    lines = directives(live, hidden)
    bare = b"\n" + blank(blank(live, hidden), lines)
    calls = leading_calls(bare)
    known = heads(bare, calls, language)
    first = blank(live, _before(known))
    names = macros(first, hidden, lines)
    first = blank(first, names)
    if language == "c":
        without = blank(blank(bare, known), (Range(start + 1, end + 1) for start, end in names))
        first = blank(first, _before(untyped(without, calls)))
    second = blank(first, lines)
    yield first
    if second != first:
        yield second
    if live != first:
        yield live


def _before(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield the ranges of a text that follows a line end as those of the text alone."""
    return (Range(max(start - 1, 0), end - 1) for start, end in ranges)


def visit(tree: tree_sitter.Tree, enter: Callable[[tree_sitter.Node], bool]) -> None:
    """Show nodes from the root on, and what is in those for which `enter` gives True; never recursive."""
    cursor = tree.walk()
    while True:
        node = cursor.node
        assert node is not None
        if enter(node) and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _error_bytes(tree: tree_sitter.Tree) -> int | None:
    """The bytes in outermost errors; looks only at nodes that hold any. None if they are a tangle."""
    found = tangle = 0

    def enter(node: tree_sitter.Node) -> bool:
        nonlocal found, tangle
        if node.is_error:
            found += node.end_byte - node.start_byte
            tangle += node.child_count**2
        return node.has_error and not node.is_error

    visit(tree, enter)
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


Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NodeTable:
    """[n] each, int32; the root is 0 and its own parent."""

    kind: Bytes
    """Buckets of schemas.structure; an ERROR is NO_NODE."""
    start: Ints
    end: Ints
    depth: Ints
    parent: Ints
    sibling: Ints
    """Number of siblings before it."""
    before: Ints
    """The sibling right before it; -1 for none."""


def node_table(tree: tree_sitter.Tree) -> NodeTable:
    """All nodes of a tree, at 3 million a second."""
    buckets = _buckets(tree.language)
    kind, start, end, depth = _walk(tree)
    parent = _parents(depth)
    order = np.argsort(parent[1:], kind="stable").astype(np.int32) + 1
    first = np.ones(len(order), dtype=bool)
    first[1:] = parent[order[1:]] != parent[order[:-1]]
    place = np.arange(len(order), dtype=np.int32)
    sibling, before = np.zeros(len(depth), np.int32), np.full(len(depth), -1, np.int32)
    sibling[order] = place - np.maximum.accumulate(np.where(first, place, 0))
    before[order[1:]] = np.where(first[1:], -1, order[:-1])
    known = np.where(kind < len(buckets), kind, len(buckets) - 1)
    return NodeTable(
        kind=buckets[known],
        start=start,
        end=end,
        depth=depth,
        parent=parent,
        sibling=sibling,
        before=before,
    )


@functools.cache
def _buckets(language: tree_sitter.Language) -> Bytes:
    """The bucket of each kind id of a grammar; the last one stands for ERROR, whose id is far off."""
    count = language.node_kind_count
    found = [
        node_type(language.node_kind_for_id(i) or "", is_named=language.node_kind_is_named(i))
        for i in range(count)
    ]
    return np.array([*found, NO_NODE], dtype=np.uint8)


def _walk(tree: tree_sitter.Tree) -> tuple[Ints, Ints, Ints, Ints]:
    kinds, starts, ends, depths = array("i"), array("i"), array("i"), array("i")
    cursor = tree.walk()
    depth = 0
    while True:
        node = cursor.node
        assert node is not None
        kinds.append(node.kind_id)
        starts.append(node.start_byte)
        ends.append(node.end_byte)
        depths.append(depth)
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return _ints(kinds), _ints(starts), _ints(ends), _ints(depths)
            depth -= 1


def _ints(values: "array[int]") -> Ints:
    return np.frombuffer(values, dtype=np.int32)


def _parents(depth: Ints) -> Ints:
    """The last node before each that is one less deep.

    >>> _parents(np.array([0, 1, 2, 1, 2], dtype=np.int32)).tolist()
    [0, 0, 1, 0, 3]
    """
    count = len(depth)
    place = np.arange(count, dtype=np.int64)
    by_depth = np.sort(depth.astype(np.int64) * count + place)
    above = np.searchsorted(by_depth, (depth.astype(np.int64) - 1) * count + place) - 1
    found = by_depth[np.maximum(above, 0)] % count
    return np.where(depth == 0, 0, found).astype(np.int32)


def follow(links: Ints) -> Ints:
    """Return the end of each chain of links; an end links to itself. Costs log2(the longest chain) steps.

    >>> follow(np.array([0, 0, 1, 3, 2], dtype=np.int32)).tolist()
    [0, 0, 0, 3, 0]
    """
    while True:
        further = links[links]
        if np.array_equal(further, links):
            return links
        links = further


def deepest(start: Ints, end: Ints, parent: Ints, size: int) -> Ints:
    """[size] the last of the nested ranges that covers each byte, or -1; parents are -1 at the top.

    >>> ranges = np.array([[0, 4], [1, 3], [2, 3]], dtype=np.int32)
    >>> deepest(ranges[:, 0], ranges[:, 1], np.array([-1, 0, 1], dtype=np.int32), 5).tolist()
    [0, 1, 2, 0, -1]
    """
    unset = -2
    at = np.full(size + 1, unset, dtype=np.int32)
    at[0] = -1
    solid = np.flatnonzero(start < end)
    # Of those that end together the outermost is written last, so what is around all of them wins;
    # of those that begin together, the innermost.
    at[end[solid[::-1]]] = parent[solid[::-1]]
    at[start[solid]] = solid
    place = np.arange(size + 1, dtype=np.int32)
    return at[np.maximum.accumulate(np.where(at != unset, place, 0))[:size]]
