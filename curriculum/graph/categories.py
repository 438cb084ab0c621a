"""Structure codes of the nodes of a syntax tree, STRUCTURE_CODES; the innermost one wins.

other         what nothing below claims: variables, macros, using-directives
preamble      #include, #pragma and their like outside of functions and classes
func_sig      a function up to its body, with `template <…>`; a declaration outside of classes
func_body     a function's braces and what is in them, its member initialisers, a lambda's braces
class_decl    a class or enum up to its opening brace, and the closing one
class_member  what stands between them: members, declarations of methods, access labels, enumerators
comment       wherever it stands
typedef       typedef, and using as an alias
namespace     the line and the braces of a namespace or of extern "C"
"""

from dataclasses import dataclass

import numpy as np

from curriculum.graph.nodes import Bytes, Flags, Ints, Nodes, follow
from schemas.structure import BUCKETS, NODE_TYPES, STRUCTURE_CODES, TOKEN_TYPES

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
"""Nodes that are nothing by themselves but hold declarations."""
IS_WRAPPER = _of(
    "template_declaration",
    "declaration",
    "field_declaration",
    "type_definition",
    "friend_declaration",
    "linkage_specification",
    "template_instantiation",
)
"""Nodes that a class, or a function, begins with and ends with."""
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


def categories(nodes: Nodes) -> Categories:
    """The category of each node; a few gathers over all nodes, whatever the tree's depth."""
    own = _fixed(nodes)
    _settle_loose(nodes, own, _inherited(nodes, own))
    _join_template(nodes, own)
    has_block = np.zeros(len(own), dtype=bool)
    has_block[nodes.parent[_IS_BLOCK[nodes.kind]]] = True
    return Categories(of=_inherited(nodes, own), own=own, has_block=has_block)


def _inherited(nodes: Nodes, own: Bytes) -> Bytes:
    place = np.arange(len(own), dtype=np.int32)
    found = own[follow(np.where(own > 0, place, nodes.parent))]
    return np.where(found > 0, found, OTHER).astype(np.uint8)


def _fixed(nodes: Nodes) -> Bytes:
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


def _settle_loose(nodes: Nodes, own: Bytes, around: Bytes) -> None:
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


def _declares_function(nodes: Nodes) -> Flags:
    """Declarations of a function, not of a pointer to one."""
    found = _IS_FUNCTION_DECLARATOR[nodes.kind]
    found[nodes.parent[_IS_PARENTHESIS[nodes.kind]]] = False
    place = np.arange(len(found), dtype=np.int32)
    above = follow(np.where(_IS_DECLARATOR[nodes.kind], nodes.parent, place))[nodes.parent[found]]
    declares = np.zeros(len(found), dtype=bool)
    declares[above] = True
    return declares & IS_DECLARATION[nodes.kind]


def _join_template(nodes: Nodes, own: Bytes) -> None:
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


def things(nodes: Nodes, found: Categories) -> Things:
    """Return the chunks' nodes: functions, classes, enums and, outside of both, whatever else has a name."""
    kind = _outermost(nodes, found)
    place = np.arange(len(kind), dtype=np.int32)
    is_function = (kind == FUNC_BODY) | (kind == FUNC_SIG)
    function = follow(np.where(is_function, place, nodes.parent))[nodes.parent]
    kind[is_function[function] & (place > 0)] = 0
    node = np.flatnonzero(kind).astype(np.int32)
    around = follow(np.where(kind > 0, place, nodes.parent))[nodes.parent[node]]
    number = np.full(len(kind), -1, dtype=np.int32)
    number[node] = np.arange(len(node), dtype=np.int32)
    return Things(node=node, parent=number[around], kind=kind[node])


def _outermost(nodes: Nodes, found: Categories) -> Bytes:
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
