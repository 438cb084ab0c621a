"""What is looked for in a syntax tree, as one query: a single pass over the tree finds all of it."""

import functools
from collections.abc import Mapping, Sequence

import tree_sitter

from curriculum.graph.grammars import SHELLS, SHELLS_CPP, grammar
from schemas.corpus import Language

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
