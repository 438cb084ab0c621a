"""Structure of one contiguous piece of code: categories, depth, siblings, chunks, statements.

A comment is a comment everywhere, in a function as well. Bytes in an ERROR, bytes that were blanked before
parsing and backslashes that continue a line have no node: type, depth and sibling are 0, their category is
that of what is around. Of STRUCTURE_CODES the innermost one wins:

other         what nothing below claims: variables, macros, using-directives
preamble      #include, #pragma and their like outside of functions and classes
func_sig      a function up to its body, with `template <…>`; a declaration outside of classes
func_body     a function's braces and what is in them, its member initialisers, a lambda's braces
class_decl    a class or enum up to its opening brace, and the closing one
class_member  between them: members, declarations of methods, access labels, enumerators
comment       wherever it is
typedef       typedef, and using as an alias
namespace     the line and the braces of a namespace or of extern "C"
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from curriculum.graph.facts import FileFacts, Symbol, SymbolKind
from curriculum.graph.syntax_tree import (
    Bytes,
    Flags,
    Ints,
    NodeTable,
    deepest,
    follow,
    node_table,
    parse,
)
from schemas.corpus import Language
from schemas.structure import (
    BUCKETS,
    MAX_LEVEL,
    NO_NODE,
    NODE_TYPES,
    STRUCTURE_CODES,
    TOKEN_TYPES,
)

OTHER = STRUCTURE_CODES["other"]
PREAMBLE = STRUCTURE_CODES["preamble"]
FUNC_SIG = STRUCTURE_CODES["func_sig"]
FUNC_BODY = STRUCTURE_CODES["func_body"]
CLASS_DECL = STRUCTURE_CODES["class_decl"]
CLASS_MEMBER = STRUCTURE_CODES["class_member"]
COMMENT = STRUCTURE_CODES["comment"]
TYPEDEF = STRUCTURE_CODES["typedef"]
NAMESPACE = STRUCTURE_CODES["namespace"]


def _of(*kinds: str) -> Flags:
    """[256] whether a bucket is one of these kinds of nodes."""
    table = np.zeros(BUCKETS, dtype=bool)
    table[[NODE_TYPES[kind] for kind in kinds]] = True
    return table


IS_NODE = _of(*NODE_TYPES)
IS_CLASS = _of("class_specifier", "struct_specifier", "union_specifier", "enum_specifier")
IS_FUNCTION = _of("function_definition")
IS_DECLARATION = _of("declaration")
IS_ALIAS = _of("alias_declaration", "type_definition")
IS_NAMED_OTHER = _of("declaration", "preproc_def", "preproc_function_def", "concept_definition")
IS_SHELL = _of("translation_unit", "declaration_list", "field_declaration_list")
"""NodeTable that are nothing by themselves but hold declarations."""
IS_WRAPPER = _of(
    "template_declaration",
    "declaration",
    "field_declaration",
    "type_definition",
    "friend_declaration",
    "linkage_specification",
    "template_instantiation",
)
"""NodeTable that a class, or a function, begins with and ends with."""
_IS_LEAD = _of("template_declaration", "template_instantiation", "linkage_specification")
"""Kinds of nodes before a declaration that are part of it."""
_IS_BRANCH = _of("preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef")
_IS_MEMBERS = _of("field_declaration_list", "enumerator_list")
_IS_BODY = _of("compound_statement", "try_statement", "field_initializer_list")
_IS_BLOCK = _of("compound_statement", "try_statement")
_IS_LAMBDA = _of("lambda_expression")
_IS_NOT_WRITTEN = _of("default_method_clause", "delete_method_clause", "pure_virtual_clause")
_IS_PREAMBLE = _of("preproc_include", "preproc_call")
_IS_LIST = _of("declaration_list")
_IS_COMMENT = _of("comment")
_IS_DECLARATOR = _of("pointer_declarator", "reference_declarator", "attributed_declarator")
_IS_FUNCTION_DECLARATOR = _of("function_declarator", "operator_cast")
_IS_PARENTHESIS = _of("parenthesized_declarator")
_IS_BRACE = np.zeros(BUCKETS, dtype=bool)
_IS_BRACE[[TOKEN_TYPES["{"], TOKEN_TYPES["}"]]] = True
_SEMICOLON = TOKEN_TYPES[";"]

_ALWAYS = np.zeros(BUCKETS, dtype=np.uint8)
"""The category that a kind has wherever it stands."""
for _kinds, _category in (
    (_of("translation_unit", "declaration_list"), OTHER),
    (IS_FUNCTION, FUNC_SIG),
    (_IS_MEMBERS, CLASS_MEMBER),
    (_IS_COMMENT, COMMENT),
    (IS_ALIAS, TYPEDEF),
    (_of("namespace_definition", "namespace_alias_definition"), NAMESPACE),
):
    _ALWAYS[_kinds] = _category


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Categories:
    """[n] each."""

    of: Bytes
    """The category of each node."""
    own: Bytes
    """The category that begins with a node; 0 where it is that of its parent."""
    has_block: Flags
    """Functions that have a body, not `= default`."""


def categories(nodes: NodeTable) -> Categories:
    """The category of each node; a few gathers over all nodes, whatever the tree's depth."""
    own = _fixed(nodes)
    _settle_loose(nodes, own, _inherited(nodes, own))
    _join_template(nodes, own)
    has_block = np.zeros(len(own), dtype=bool)
    has_block[nodes.parent[_IS_BLOCK[nodes.kind]]] = True
    return Categories(of=_inherited(nodes, own), own=own, has_block=has_block)


def _inherited(nodes: NodeTable, own: Bytes) -> Bytes:
    found = own[_nearest(nodes, own > 0)]
    return np.where(found > 0, found, OTHER).astype(np.uint8)


def _nearest(nodes: NodeTable, chosen: Flags) -> Ints:
    """[n] the innermost chosen node around each, be it itself; the root where there is none."""
    place = np.arange(len(chosen), dtype=np.int32)
    return follow(np.where(chosen, place, nodes.parent))


def _fixed(nodes: NodeTable) -> Bytes:
    """Return the code of each node by its kind and its parent's."""
    own = _ALWAYS[nodes.kind]
    above = nodes.kind[nodes.parent]
    own[nodes.parent[_IS_MEMBERS[nodes.kind] & IS_CLASS[above]]] = CLASS_DECL
    brace = _IS_BRACE[nodes.kind]
    own[brace & _IS_MEMBERS[above]] = CLASS_DECL
    own[brace & _IS_LIST[above]] = NAMESPACE
    own[nodes.parent[_IS_LIST[nodes.kind]]] = NAMESPACE
    own[_IS_BODY[nodes.kind] & (IS_FUNCTION | _IS_LAMBDA)[above]] = FUNC_BODY
    return own


def _settle_loose(nodes: NodeTable, own: Bytes, around: Bytes) -> None:
    """Set codes that nodes have only outside of functions, or only in a class."""
    loose = (around == OTHER) & (own == 0)
    own[loose & _IS_PREAMBLE[nodes.kind]] = PREAMBLE
    own[loose & _declares_function(nodes)] = FUNC_SIG
    above = nodes.kind[nodes.parent]
    stands_alone = (IS_SHELL | _IS_LEAD | _IS_BRANCH)[above]
    own[loose & IS_CLASS[nodes.kind] & stands_alone] = CLASS_DECL
    ends_class = (nodes.kind == _SEMICOLON) & loose & (nodes.before >= 0)
    own[ends_class & (own[nodes.before] == CLASS_DECL) & IS_CLASS[nodes.kind[nodes.before]]] = (
        CLASS_DECL
    )
    not_written = nodes.parent[_IS_NOT_WRITTEN[nodes.kind]]
    own[not_written[around[nodes.parent[not_written]] == CLASS_MEMBER]] = CLASS_MEMBER


def _declares_function(nodes: NodeTable) -> Flags:
    """Declarations of a function, not of a pointer to one."""
    found = _IS_FUNCTION_DECLARATOR[nodes.kind]
    found[nodes.parent[_IS_PARENTHESIS[nodes.kind]]] = False
    place = np.arange(len(found), dtype=np.int32)
    above = follow(np.where(_IS_DECLARATOR[nodes.kind], nodes.parent, place))[nodes.parent[found]]
    declares = np.zeros(len(found), dtype=bool)
    declares[above] = True
    return declares & IS_DECLARATION[nodes.kind]


def _join_template(nodes: NodeTable, own: Bytes) -> None:
    """`template <…>` is part of what it is a template of: its last node that isn't a comment."""
    place = np.arange(len(own), dtype=np.int32)
    counts = IS_NODE[nodes.kind] & ~_IS_COMMENT[nodes.kind]
    last = place.copy()
    last[nodes.parent[counts]] = place[counts]
    leads = _IS_LEAD[nodes.kind] & (own == 0)
    inner = follow(np.where(leads, last, place))
    own[leads] = own[inner[leads]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Things:
    """[k] definitions and declarations in preorder: ranges of nodes, nested, none inside a function."""

    node: Ints
    parent: Ints
    """The thing right around; -1 for none."""
    kind: Bytes
    """Code of its chunks: a function with its body is FUNC_BODY, a variable or macro OTHER."""


def things(nodes: NodeTable, found: Categories) -> Things:
    """Return the chunks' nodes: functions, classes, enums and, outside of both, whatever else has a name."""
    kind = _outermost(nodes, found)
    is_function = (kind == FUNC_BODY) | (kind == FUNC_SIG)
    function = _nearest(nodes, is_function)[nodes.parent]
    within = is_function[function]
    within[0] = False
    kind[within] = 0
    node = np.flatnonzero(kind).astype(np.int32)
    around = _nearest(nodes, kind > 0)[nodes.parent[node]]
    number = np.full(len(kind), -1, dtype=np.int32)
    number[node] = np.arange(len(node), dtype=np.int32)
    return Things(node=node, parent=number[around], kind=kind[node])


def _outermost(nodes: NodeTable, found: Categories) -> Bytes:
    """[n] the chunk kind of each thing at the outermost node that it begins with; 0 elsewhere."""
    place = np.arange(len(found.of), dtype=np.int32)
    up = follow(np.where(IS_WRAPPER[nodes.kind[nodes.parent]], nodes.parent, place))
    around = found.of[nodes.parent[up]]
    loose = (around == OTHER) | (around == NAMESPACE)
    is_function = IS_FUNCTION[nodes.kind] & (found.own == FUNC_SIG)
    kind = np.zeros(len(place), dtype=np.uint8)
    for which, category in (
        (loose & IS_NAMED_OTHER[nodes.kind], OTHER),
        (loose & IS_ALIAS[nodes.kind], TYPEDEF),
        (loose & IS_DECLARATION[nodes.kind] & (found.own == FUNC_SIG), FUNC_SIG),
        (IS_CLASS[nodes.kind] & (found.own == CLASS_DECL), CLASS_DECL),
        (is_function, FUNC_SIG),
        (is_function & found.has_block, FUNC_BODY),
    ):
        kind[up[which]] = category
    return kind


_UNOWNED = -1
_COMMENTS = -2
_PREAMBLE = -3
_KINDS: dict[int, frozenset[SymbolKind]] = {
    FUNC_BODY: frozenset({"function"}),
    FUNC_SIG: frozenset({"function"}),
    CLASS_DECL: frozenset({"class", "enum", "alias"}),
    TYPEDEF: frozenset({"alias"}),
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
    # Nothing solid stands beside a comment on its lines.
    before, after = np.append(-1, lines)[first], np.append(lines, lines[-1] + 1)[last + 1]
    kept |= (label[first] == _COMMENTS) & (before < lines[first]) & (lines[last] < after)
    first, last = first[kept], last[kept]
    spans = zip(place[first].tolist(), place[last].tolist(), label[first].tolist(), strict=True)
    unnamed = {_COMMENTS: COMMENT, _PREAMBLE: PREAMBLE}
    return tuple(
        CodeChunk(start, end + 1, int(kinds[whose]), names[whose])
        if whose >= 0
        else CodeChunk(start, end + 1, unnamed[whose], "")
        for start, end, whose in spans
    )


def is_solid(data: Bytes) -> Flags:
    """[bytes] whether each is more than white space."""
    solid: Flags = (data > ord(" ")) | (
        (data < ord("\t")) | ((data > ord("\r")) & (data < ord(" ")))
    )
    return solid


def names_of(owner: Ints, kinds: Bytes, symbols: Sequence[Symbol]) -> list[str]:
    """The qualified name of each thing: of the first symbol whose name is its own."""
    names = [""] * len(kinds)
    for symbol in symbols:
        whose = int(owner[symbol.name_start]) if symbol.name_start < len(owner) else _UNOWNED
        if whose >= 0 and not names[whose] and symbol.kind in _KINDS[int(kinds[whose])]:
            names[whose] = symbol.qualified
    return names


_PURE = NODE_TYPES["pure_virtual_clause"]
_GUARD = re.compile(rb"#[ \t]*ifndef[ \t]+(\w++)[^\n]*+\n[ \t]*+#[ \t]*define[ \t]+(\w++)[^\n]*+")
_GUARD_END = re.compile(rb"[ \t]*#[ \t]*endif\b")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CodeStructure:
    """uint8 [bytes] each; without a tree all is `other`, and there are no chunks."""

    structure_ids: Bytes
    ast_depth: Bytes
    sibling_index: Bytes
    ast_node_type: Bytes
    chunks: tuple[CodeChunk, ...]
    """Sorted and disjoint."""


def code_structure(text: str, language: Language, facts: FileFacts) -> CodeStructure:
    """The structure of a piece whose facts are known; never fails, at about 2 MB/s with the parse."""
    raw = text.encode()
    parsed = parse(text, language)
    if parsed is None:
        nothing = np.zeros(len(raw), dtype=np.uint8)
        return CodeStructure(
            structure_ids=nothing + OTHER,
            ast_depth=nothing,
            sibling_index=nothing,
            ast_node_type=nothing,
            chunks=(),
        )
    return _of_nodes(raw, node_table(parsed.tree), facts)


def _of_nodes(raw: bytes, nodes: NodeTable, facts: FileFacts) -> CodeStructure:
    data = np.frombuffer(raw, dtype=np.uint8)
    found = categories(nodes)
    own = things(nodes, found)
    around = np.append(np.int32(-1), nodes.parent[1:])
    node = deepest(nodes.start, nodes.end, around, len(data))
    owner = deepest(nodes.start[own.node], nodes.end[own.node], own.parent, len(data))
    ids = np.where(node >= 0, found.of[node], OTHER).astype(np.uint8)
    blanked = is_solid(data) & ~((node >= 0) & is_token(nodes)[node])
    _join_macro(raw, blanked & ((node < 0) | IS_SHELL[nodes.kind[node]]), ids, owner)
    _mark_guard(raw, ids, owner)
    known = (node >= 0) & ~in_error(nodes)[node] & ~blanked
    return CodeStructure(
        structure_ids=ids,
        ast_depth=_level(nodes.depth, node, known),
        sibling_index=_level(nodes.sibling, node, known),
        ast_node_type=np.where(known, nodes.kind[node], NO_NODE).astype(np.uint8),
        chunks=chunks_of(data, ids, owner, own.kind, names_of(owner, own.kind, facts.symbols)),
    )


def is_token(nodes: NodeTable) -> Flags:
    """[n] whether a node has no nodes inside: only white space and what was blanked is in none.

    The grammar keeps one token to itself, the 0 of `= 0`.
    """
    token: Flags = nodes.kind == _PURE
    childless = np.ones(len(token), dtype=bool)
    childless[nodes.parent[1:]] = False
    token |= childless
    return token


def in_error(nodes: NodeTable) -> Flags:
    """[n] whether a node is an ERROR or stands in one."""
    error: Flags = nodes.kind[_nearest(nodes, nodes.kind == NO_NODE)] == NO_NODE
    return error


def _level(values: Ints, node: Ints, known: Flags) -> Bytes:
    level = np.minimum(values + 1, MAX_LEVEL).astype(np.uint8)
    return np.where(known, level[node], 0).astype(np.uint8)


def _join_macro(raw: bytes, blanked: Flags, ids: Bytes, owner: Ints) -> None:
    """A blanked macro before a declaration on its line belongs to it."""
    data = np.frombuffer(raw, dtype=np.uint8)
    place = np.flatnonzero(is_solid(data))
    lead = np.flatnonzero(blanked[place])
    if not len(lead):
        return
    seen = np.flatnonzero(~blanked[place])
    following = np.searchsorted(seen, lead)
    lead, following = lead[following < len(seen)], following[following < len(seen)]
    target, macro = place[seen[following]], place[lead]
    lines = np.cumsum(data == ord("\n"), dtype=np.int32)
    same_line = lines[target] == lines[macro]
    ids[macro[same_line]] = ids[target[same_line]]
    owner[macro[same_line]] = owner[target[same_line]]


def _mark_guard(raw: bytes, ids: Bytes, owner: Ints) -> None:
    """An #ifndef and its #define before all else, with the #endif after all else, are preamble."""
    data = np.frombuffer(raw, dtype=np.uint8)
    place = np.flatnonzero(is_solid(data) & (ids != COMMENT))
    if not len(place):
        return
    first, last = int(place[0]), int(place[-1])
    opening = _GUARD.match(raw, first)
    closing = raw.rfind(b"\n", 0, last) + 1
    is_guard = opening is not None and opening[1].startswith(opening[2])
    if opening and is_guard and opening.end() <= closing and _GUARD_END.match(raw, closing):
        for start, end in (opening.span(), (closing, last + 1)):
            code = np.arange(start, end)[ids[start:end] != COMMENT]
            ids[code], owner[code] = PREAMBLE, -1
