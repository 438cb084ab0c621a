"""Structure of one contiguous piece of code: values for each byte, and chunks.

Each byte has a category, a depth, a sibling index and a node type. Comments are comments everywhere, also
inside functions. Bytes in an ERROR node, bytes that were blanked before parsing, and backslashes at line ends
belong to no node: their type, depth and sibling index are 0, and their category is that of the surrounding
code. Of the STRUCTURE_CODES, the innermost one applies:

other         everything else: variables, macros, using-directives
preamble      #include, #pragma and similar directives outside of functions and classes
func_sig      a function up to its body, with `template <…>`; a declaration outside of classes
func_body     a function's braces and their contents, its member initialisers, a lambda's braces
class_decl    a class or enum up to its opening brace, and the closing one
class_member  between these braces: members, method declarations, access labels, enumerators
comment       any comment
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


def _kind_flags(*kinds: str) -> Flags:
    """Return a table [256] over node types that is True for these kinds of nodes."""
    table = np.zeros(BUCKETS, dtype=bool)
    table[[NODE_TYPES[kind] for kind in kinds]] = True
    return table


IS_NODE = _kind_flags(*NODE_TYPES)
IS_CLASS = _kind_flags("class_specifier", "struct_specifier", "union_specifier", "enum_specifier")
IS_FUNCTION = _kind_flags("function_definition")
IS_DECLARATION = _kind_flags("declaration")
IS_ALIAS = _kind_flags("alias_declaration", "type_definition")
IS_NAMED_OTHER = _kind_flags(
    "declaration", "preproc_def", "preproc_function_def", "concept_definition"
)
IS_SHELL = _kind_flags("translation_unit", "declaration_list", "field_declaration_list")
"""Kinds of nodes that only contain declarations."""
IS_WRAPPER = _kind_flags(
    "template_declaration",
    "declaration",
    "field_declaration",
    "type_definition",
    "friend_declaration",
    "linkage_specification",
    "template_instantiation",
)
"""Kinds of nodes that may enclose a class or function and begin and end with it."""
_IS_LEAD = _kind_flags("template_declaration", "template_instantiation", "linkage_specification")
"""Kinds of nodes that introduce a declaration and are part of it."""
_IS_BRANCH = _kind_flags(
    "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef"
)
_IS_MEMBERS = _kind_flags("field_declaration_list", "enumerator_list")
_IS_BODY = _kind_flags("compound_statement", "try_statement", "field_initializer_list")
_IS_BLOCK = _kind_flags("compound_statement", "try_statement")
_IS_LAMBDA = _kind_flags("lambda_expression")
_IS_NOT_WRITTEN = _kind_flags(
    "default_method_clause", "delete_method_clause", "pure_virtual_clause"
)
_IS_PREAMBLE = _kind_flags("preproc_include", "preproc_call")
_IS_LIST = _kind_flags("declaration_list")
_IS_COMMENT = _kind_flags("comment")
_IS_DECLARATOR = _kind_flags("pointer_declarator", "reference_declarator", "attributed_declarator")
_IS_FUNCTION_DECLARATOR = _kind_flags("function_declarator", "operator_cast")
_IS_PARENTHESIS = _kind_flags("parenthesized_declarator")
_IS_BRACE = np.zeros(BUCKETS, dtype=bool)
_IS_BRACE[[TOKEN_TYPES["{"], TOKEN_TYPES["}"]]] = True
_SEMICOLON = TOKEN_TYPES[";"]

_ALWAYS = np.zeros(BUCKETS, dtype=np.uint8)
"""Category of each kind of node whose category doesn't depend on its context; 0 for other kinds."""
for _kinds, _category in (
    (_kind_flags("translation_unit", "declaration_list"), OTHER),
    (IS_FUNCTION, FUNC_SIG),
    (_IS_MEMBERS, CLASS_MEMBER),
    (_IS_COMMENT, COMMENT),
    (IS_ALIAS, TYPEDEF),
    (_kind_flags("namespace_definition", "namespace_alias_definition"), NAMESPACE),
):
    _ALWAYS[_kinds] = _category


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Categories:
    """Categories of all nodes of a tree; each array has the shape [n]."""

    category: Bytes
    """Category of each node."""
    own_category: Bytes
    """Category that a node sets for itself and the nodes inside it; 0 if the node has its parent's category.
    """
    has_block: Flags
    """True for functions with a body, not for `= default`."""


def categories(nodes: NodeTable) -> Categories:
    """Return the category of each node. Takes a few array operations, whatever the depth of the tree."""
    own = _fixed(nodes)
    _set_context_codes(nodes, own, _inherited(nodes, own))
    _join_template(nodes, own)
    has_block = np.zeros(len(own), dtype=bool)
    has_block[nodes.parent[_IS_BLOCK[nodes.kind]]] = True
    return Categories(category=_inherited(nodes, own), own_category=own, has_block=has_block)


def _inherited(nodes: NodeTable, own: Bytes) -> Bytes:
    found = own[_nearest(nodes, own > 0)]
    return np.where(found > 0, found, OTHER).astype(np.uint8)


def _nearest(nodes: NodeTable, chosen: Flags) -> Ints:
    """Return, for each node, the innermost `chosen` node that contains it (or is the node itself), [n].

    It is the root if no such node is chosen.
    """
    place = np.arange(len(chosen), dtype=np.int32)
    return follow(np.where(chosen, place, nodes.parent))


def _fixed(nodes: NodeTable) -> Bytes:
    """Return the category that follows from each node's kind and its parent's kind, or 0."""
    own = _ALWAYS[nodes.kind]
    above = nodes.kind[nodes.parent]
    own[nodes.parent[_IS_MEMBERS[nodes.kind] & IS_CLASS[above]]] = CLASS_DECL
    brace = _IS_BRACE[nodes.kind]
    own[brace & _IS_MEMBERS[above]] = CLASS_DECL
    own[brace & _IS_LIST[above]] = NAMESPACE
    own[nodes.parent[_IS_LIST[nodes.kind]]] = NAMESPACE
    own[_IS_BODY[nodes.kind] & (IS_FUNCTION | _IS_LAMBDA)[above]] = FUNC_BODY
    return own


def _set_context_codes(nodes: NodeTable, own: Bytes, around: Bytes) -> None:
    """Set in `own` the categories that depend on the category of the surrounding code, `around`.

    Some apply only outside of functions and classes, others only in a class.
    """
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
    """Return flags [n]: True for each declaration of a function; a pointer to a function doesn't count."""
    found = _IS_FUNCTION_DECLARATOR[nodes.kind]
    found[nodes.parent[_IS_PARENTHESIS[nodes.kind]]] = False
    place = np.arange(len(found), dtype=np.int32)
    above = follow(np.where(_IS_DECLARATOR[nodes.kind], nodes.parent, place))[nodes.parent[found]]
    declares = np.zeros(len(found), dtype=bool)
    declares[above] = True
    return declares & IS_DECLARATION[nodes.kind]


def _join_template(nodes: NodeTable, own: Bytes) -> None:
    """Give `template <…>` the category of the declaration that it introduces.

    The declaration is the last node inside it that isn't a comment.
    """
    place = np.arange(len(own), dtype=np.int32)
    counts = IS_NODE[nodes.kind] & ~_IS_COMMENT[nodes.kind]
    last = place.copy()
    last[nodes.parent[counts]] = place[counts]
    leads = _IS_LEAD[nodes.kind] & (own == 0)
    inner = follow(np.where(leads, last, place))
    own[leads] = own[inner[leads]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CodeDefinitions:
    """Definitions and declarations of a piece of code as arrays [k], in preorder.

    They are nodes, which may be nested; none of them is inside a function.
    """

    node: Ints
    parent: Ints
    """Index of the innermost enclosing definition; -1 for none."""
    kind: Bytes
    """Category of the definition's chunks: FUNC_BODY for a function with a body, OTHER for a variable or
    macro.
    """


def code_definitions(nodes: NodeTable, found: Categories) -> CodeDefinitions:
    """Return the nodes that have chunks of their own.

    These are functions, classes and enums, and named declarations outside of them.
    """
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
    return CodeDefinitions(node=node, parent=number[around], kind=kind[node])


def _outermost(nodes: NodeTable, found: Categories) -> Bytes:
    """Return the chunk category of each node that is the outermost node of a definition, [n].

    Other nodes have 0.
    """
    place = np.arange(len(found.category), dtype=np.int32)
    up = follow(np.where(IS_WRAPPER[nodes.kind[nodes.parent]], nodes.parent, place))
    around = found.category[nodes.parent[up]]
    loose = (around == OTHER) | (around == NAMESPACE)
    is_function = IS_FUNCTION[nodes.kind] & (found.own_category == FUNC_SIG)
    kind = np.zeros(len(place), dtype=np.uint8)
    for which, category in (
        (loose & IS_NAMED_OTHER[nodes.kind], OTHER),
        (loose & IS_ALIAS[nodes.kind], TYPEDEF),
        (loose & IS_DECLARATION[nodes.kind] & (found.own_category == FUNC_SIG), FUNC_SIG),
        (IS_CLASS[nodes.kind] & (found.own_category == CLASS_DECL), CLASS_DECL),
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
"""Kinds of symbols that may give a chunk its name. For example, a method declared in a class without a name
doesn't name the class.
"""


class CodeChunk(NamedTuple):
    """Bytes `[start, end)` of one kind; the first and the last byte are not white space.

    FUNC_BODY is a function from `template <…>` or its type to its closing brace, and FUNC_SIG a function that
    is only declared. CLASS_DECL is a part of a class or enum: its methods and nested classes have chunks of
    their own and divide it into parts. TYPEDEF is an alias, and OTHER a variable, macro or concept. COMMENT
    and PREAMBLE are text on lines of its own outside of these; a comment ends at a blank line. Remaining
    text, such as namespace lines, is in no chunk.
    """

    start: int
    end: int
    kind: int
    name: str
    """Name with its scopes, as far as the piece shows them; "" if the chunk has no name."""


def chunks_of(
    data: Bytes, ids: Bytes, owner: Ints, kinds: Bytes, names: Sequence[str]
) -> tuple[CodeChunk, ...]:
    """Return the chunks of a piece of code, sorted and disjoint.

    Args:
        data: the code's bytes.
        ids: the category of each byte.
        owner: the index of the definition to which each byte belongs; -1 for none.
        kinds: the category of each definition's chunks.
        names: the name of each definition.
    """
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
    # Keep comments only if no code is on their lines.
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
    """Return flags [bytes]: True for bytes other than white space."""
    solid: Flags = (data > ord(" ")) | (
        (data < ord("\t")) | ((data > ord("\r")) & (data < ord(" ")))
    )
    return solid


def names_of(owner: Ints, kinds: Bytes, symbols: Sequence[Symbol]) -> list[str]:
    """Return the qualified name of each definition.

    It is the name of the first symbol of a matching kind whose name lies in the definition.
    """
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
    """Structure of a piece of code as uint8 arrays [bytes].

    If there is no syntax tree, the category of all bytes is `other`.
    """

    structure_ids: Bytes
    ast_depth: Bytes
    sibling_index: Bytes
    ast_node_type: Bytes
    chunks: tuple[CodeChunk, ...]
    """Chunks, sorted and disjoint; empty without a syntax tree."""


def code_structure(text: str, language: Language, facts: FileFacts) -> CodeStructure:
    """Return the structure of a piece of code whose `facts` are known; never raises.

    Takes a second per 2 MB, parsing included.
    """
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
    own = code_definitions(nodes, found)
    around = np.append(np.int32(-1), nodes.parent[1:])
    node = deepest(nodes.start, nodes.end, around, len(data))
    owner = deepest(nodes.start[own.node], nodes.end[own.node], own.parent, len(data))
    ids = np.where(node >= 0, found.category[node], OTHER).astype(np.uint8)
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
    """Return flags [n]: True for nodes without children, which are the tokens.

    Bytes outside of tokens are white space or were blanked. The pure-virtual clause counts as a token, since
    the grammar has no node for the 0 of `= 0`.
    """
    token: Flags = nodes.kind == _PURE
    childless = np.ones(len(token), dtype=bool)
    childless[nodes.parent[1:]] = False
    token |= childless
    return token


def in_error(nodes: NodeTable) -> Flags:
    """Return flags [n]: True for ERROR nodes and the nodes inside them."""
    error: Flags = nodes.kind[_nearest(nodes, nodes.kind == NO_NODE)] == NO_NODE
    return error


def _level(values: Ints, node: Ints, known: Flags) -> Bytes:
    level = np.minimum(values + 1, MAX_LEVEL).astype(np.uint8)
    return np.where(known, level[node], 0).astype(np.uint8)


def _join_macro(raw: bytes, blanked: Flags, ids: Bytes, owner: Ints) -> None:
    """Give a blanked macro the category and the owner of the declaration after it on the same line."""
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
    """Mark an include guard around the whole file as preamble.

    Its parts are #ifndef, the #define that follows, and the final #endif.
    """
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
