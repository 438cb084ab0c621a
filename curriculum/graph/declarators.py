"""Detection of declarators that declare functions, including functions that return pointers or arrays.

The text directly around the name decides: `(*pick(int code))(int)` is a function that returns a pointer to a
function, `(*handler)(int)` is a variable, and `(lua_gettop)(lua_State *L)` is a function.
"""

import re
from typing import NamedTuple

import tree_sitter

from curriculum.graph.syntax_tree import Kinds

Node = tree_sitter.Node

_MAX_DEPTH = 64
"""Maximum number of pointers, references, arrays and parentheses around a name."""
_MACRO = re.compile(r"[A-Z][A-Z0-9_]{2,}\s*\Z")


class FunctionDeclarator(NamedTuple):
    """Name of a declared function as a byte range `[start, end)`, and its parameter list."""

    start: int
    end: int
    parameters: Node | None
    """None for a conversion operator, whose name ends with a type."""


def function_declarator(top: Node, kinds: Kinds, text: str) -> FunctionDeclarator | None:
    """Return the function that a declarator declares; None if it declares a variable."""
    node: Node | None = top
    around: Node | None = None
    for _ in range(_MAX_DEPTH):
        if node is None:
            return None
        kind = node.kind_id
        if kind == kinds.function_declarator:
            around, node = node, node.child_by_field_id(kinds.declarator)
            if not text.startswith("(", around.start_byte):
                return _plain(node, around, kinds, text)
        elif kind == kinds.parenthesized_declarator:
            node = node.child(node.child_count - 2)
        elif kind == kinds.attributed_declarator:
            node = node.child(0)
        elif kind == kinds.operator_cast:
            close = text.rfind("(", top.start_byte, node.end_byte)
            return FunctionDeclarator(top.start_byte, close, None)
        elif kind in kinds.around_declarators and not (
            around and kind == kinds.qualified_identifier
        ):
            inner = node.child_by_field_id(kinds.declarator)
            around, node = None, inner or node.child(node.child_count - 1)
        else:
            listed = around and around.child_by_field_id(kinds.parameters)
            return listed and FunctionDeclarator(node.start_byte, node.end_byte, listed)
    return None


def _plain(inner: Node | None, around: Node, kinds: Kinds, text: str) -> FunctionDeclarator | None:
    """Return the function that `name(…)` or `T (name)(…)` declares.

    The grammar takes the `T` of the second form for the name.
    """
    listed = around.child_by_field_id(kinds.parameters)
    if inner is None or listed is None:
        return None
    start, end = around.start_byte, inner.end_byte
    if inner.kind_id == kinds.attributed_declarator:
        end = text.index("[[", start, end)
    elif inner.kind_id == kinds.function_declarator:
        name = inner.child_by_field_id(kinds.parameters)
        if name is not None and _MACRO.match(text, start, name.start_byte):
            end = name.start_byte
        elif name is not None and name.named_child_count == 1:
            start, end = name.start_byte + 1, name.end_byte - 1
    return FunctionDeclarator(start, end, listed)
