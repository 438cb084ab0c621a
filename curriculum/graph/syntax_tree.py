"""Syntax trees of C and C++ files, parsed from the variant with the fewest errors, and tables of their nodes.

A NodeTable lists a tree's nodes in preorder: parents come before children, and of the nodes that contain a
byte, deeper ones come later. It is built without recursion, whatever the tree's depth.
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
    comments_and_literals,
    dead_branches,
    directives,
    unclosed,
)
from curriculum.graph.facts import Range
from curriculum.graph.heads import heads, leading_calls, untyped_functions
from curriculum.graph.macros import macros
from schemas.corpus import Language
from schemas.structure import NO_NODE, node_type

_PACKAGES = {"cpp": tree_sitter_cpp, "c": tree_sitter_c}


@functools.cache
def grammar(language: Language) -> tree_sitter.Language:
    """Return the grammar of C or C++."""
    return tree_sitter.Language(_PACKAGES[language].language())


@functools.cache
def grammar_versions() -> Mapping[str, str]:
    """Return the versions of those installed packages that determine syntax trees."""
    packages = ("tree-sitter", "tree-sitter-c", "tree-sitter-cpp")
    return {package: importlib.metadata.version(package) for package in packages}


@dataclass(frozen=True, kw_only=True, slots=True)
class Kinds:
    """Numbers that a grammar gives to node kinds and fields; 0 for kinds and fields that it lacks.

    An integer attribute has the name of its node kind or field.
    """

    shells: Mapping[str, int]
    """Kinds of nodes that are or contain definitions, by name."""
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
    """Kinds of nodes for callees that are written with scopes or template arguments."""
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
    """Return the numbers that the grammar of a language gives to node kinds and fields."""
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
_MAX_DEPTH = 10_000
"""Maximum nesting of captured nodes. Beyond 2^15, the cursor loses matches that are not yet complete; and
time grows with the depth.
"""


@functools.cache
def _query(language: Language) -> tree_sitter.Query:
    patterns = _SHARED if language == "c" else _SHARED + _CPP
    return tree_sitter.Query(grammar(language), "\n".join(patterns))


def captures_of(tree: tree_sitter.Tree, language: Language) -> Mapping[str, Nodes]:
    """Return the nodes that the query captures, by capture name, unordered.

    Takes two fifths of the time of the parse.
    """
    cursor = tree_sitter.QueryCursor(_query(language))
    cursor.set_max_start_depth(_MAX_DEPTH)
    return cursor.captures(tree.root_node)


MAX_PARSED_BYTES = 2_000_000
"""Maximum bytes of a file that is parsed."""
_GOOD_ENOUGH = 500
"""A variant is accepted without trying further ones if it has at most one byte in errors per this many bytes.
"""
_MAX_TANGLE = 30_000**2
"""Maximum sum, over all ERROR nodes, of the squared number of children: queries take quadratic time in these
numbers.
"""
_CHECKS_PER_BYTE = 0.03
_SPARE_CHECKS = 1_000
"""Number of progress callbacks that the parser may make in addition to _CHECKS_PER_BYTE; one comes every 100
steps.

Real code needs at most 0.017 callbacks per byte. The limit counts steps instead of seconds, so that a file
gives the same result on every machine.
"""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Parsed:
    """Syntax tree of a file, with its source and its errors."""

    data: bytes
    source: bytes
    """Text that was parsed: the file, in which text that the grammar can't parse is replaced by spaces.
    Offsets stay the same.
    """
    tree: tree_sitter.Tree
    error_bytes: int
    """Number of bytes inside ERROR nodes."""
    hidden: list[Range]
    """Comments and literals, sorted and disjoint."""
    dead: list[Range]
    """Branches excluded by #if, and the conditional directives; sorted and disjoint."""


@functools.lru_cache(maxsize=8)
def parse(text: str, language: Language) -> Parsed | None:
    """Return the syntax tree of a C or C++ file; None if it exceeds the limits, and for other languages.

    Dead branches and macros are blanked before parsing. If more than one byte in 500 is in errors, variants
    of the text with more or with fewer bytes blanked are parsed as well. The variant with the fewest bytes in
    errors is kept, the first of several.
    """
    data = text.encode()
    if language not in _PACKAGES or not data or len(data) > MAX_PARSED_BYTES:
        return None
    hidden = comments_and_literals(data)
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
    """Yield the variants of the text to parse; dead branches are blanked in all of them.

    In the first variant macros are blanked, in the second macros and directives, in the third neither.
    Parsing with dead branches never gave fewer errors in five repositories.
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
        first = blank(first, _before(untyped_functions(without, calls)))
    second = blank(first, lines)
    yield first
    if second != first:
        yield second
    if live != first:
        yield live


def _before(ranges: Iterable[Range]) -> Iterator[Range]:
    """Yield the ranges moved one byte to the left.

    The ranges refer to a text with a newline added in front; the results refer to the text without it.
    """
    return (Range(max(start - 1, 0), end - 1) for start, end in ranges)


def visit(tree: tree_sitter.Tree, enter: Callable[[tree_sitter.Node], bool]) -> None:
    """Call `enter` on the root and on the children of each node for which it returned True.

    Not recursive, whatever the tree's depth.
    """
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
    """Return the number of bytes in outermost ERROR nodes; None if _MAX_TANGLE is exceeded.

    Nodes without errors are not visited.
    """
    found = tangle = 0

    def enter(node: tree_sitter.Node) -> bool:
        nonlocal found, tangle
        if node.is_error:
            found += node.end_byte - node.start_byte
            tangle += node.child_count**2
        return node.has_error and not node.is_error

    visit(tree, enter)
    return None if tangle > _MAX_TANGLE else found


def tree_of(data: bytes, language: Language) -> tree_sitter.Tree | None:
    """Return the syntax tree of `data`; None if the parser needs too many steps."""
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
        # The binding raises ValueError when the callback stops the parse, and in no other case here.
        assert checks < 0
        return None


Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class NodeTable:
    """Nodes of a tree as int32 arrays of shape [n]. Node 0 is the root, which is its own parent."""

    kind: Bytes
    """Bucket of the node's kind, as in schemas.structure; NO_NODE for an ERROR."""
    start: Ints
    end: Ints
    depth: Ints
    parent: Ints
    sibling: Ints
    """Number of preceding siblings."""
    before: Ints
    """Index of the preceding sibling; -1 for none."""


def node_table(tree: tree_sitter.Tree) -> NodeTable:
    """Return the table of all nodes of a tree; takes a second per 3 million nodes."""
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
    """Return the bucket of each kind id of a grammar, then the bucket of ERROR, whose id is out of range."""
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
    """Return, for each node in preorder, the last preceding node that is one level higher: its parent.

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
    """Return, for each node, the end of the chain of links that begins there; an end links to itself.

    Takes log2(longest chain) array operations.

    >>> follow(np.array([0, 0, 1, 3, 2], dtype=np.int32)).tolist()
    [0, 0, 0, 3, 0]
    """
    while True:
        further = links[links]
        if np.array_equal(further, links):
            return links
        links = further


def deepest(start: Ints, end: Ints, parent: Ints, size: int) -> Ints:
    """Return, for each of `size` bytes, the last of the nested ranges that contains it; -1 for none.

    `start` and `end` are the ranges, outer ones before inner ones. `parent` is the index of the range around
    each range; -1 for a top-level range.

    >>> ranges = np.array([[0, 4], [1, 3], [2, 3]], dtype=np.int32)
    >>> deepest(ranges[:, 0], ranges[:, 1], np.array([-1, 0, 1], dtype=np.int32), 5).tolist()
    [0, 1, 2, 0, -1]
    """
    unset = -2
    at = np.full(size + 1, unset, dtype=np.int32)
    at[0] = -1
    solid = np.flatnonzero(start < end)
    # Write the outermost of several ranges with the same end last, so that the text around all of them wins,
    # and the innermost of several ranges with the same start last.
    at[end[solid[::-1]]] = parent[solid[::-1]]
    at[start[solid]] = solid
    place = np.arange(size + 1, dtype=np.int32)
    return at[np.maximum.accumulate(np.where(at != unset, place, 0))[:size]]
