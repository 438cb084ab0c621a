"""Callees of a call, as far as the frontend knows before templates are instantiated."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clang.cindex import CursorKind as Kind

from curriculum.graph.clang import frontend
from curriculum.graph.clang.frontend import Cursor, Tree, children
from curriculum.graph.clang.seen import Chain, Reference
from schemas.document import EdgeLabel

Callee = Literal["inside", "outside", "dependent", "unknown"]
_RESOLVED = frozenset(
    (
        *(Kind.FUNCTION_DECL, Kind.FUNCTION_TEMPLATE, Kind.CXX_METHOD, Kind.CONSTRUCTOR),
        *(Kind.DESTRUCTOR, Kind.CONVERSION_FUNCTION),
    )
)
_NAMES = (Kind.TYPE_REF, Kind.TEMPLATE_REF, Kind.NAMESPACE_REF)
_WRAPPERS = (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR)
_OBJECTS = frozenset((Kind.VAR_DECL, Kind.PARM_DECL, Kind.FIELD_DECL))
_LAST_NAME = re.compile(rb"~?[A-Za-z_]\w*\s*$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """Callee of a call, and the edge that follows for the caller."""

    callee: Callee
    mentions: tuple[Reference, ...] = ()
    is_copy: bool = False
    """A constructor that copies or moves: the constructor below it may be the written one."""


def is_elided(call: Cursor, within: Sequence[Cursor]) -> bool:
    """Return True if a call is a copy that the frontend writes around a temporary, and then leaves out."""
    if len(within) != 1 or within[0].kind != Kind.UNEXPOSED_EXPR or call.referenced is not None:
        return False
    # The callee of a call through a pointer has the pointer's type.
    made, copied = (each.type.get_canonical().spelling for each in (call, within[0]))
    return str(made).removeprefix("const ") == str(copied).removeprefix("const ")


def callee_of(
    call: Cursor, within: Sequence[Cursor], tree: Tree, *, in_template: bool, is_made: bool
) -> Call | None:
    """The callee of a call; None for a constructor call that nobody wrote."""
    target = call.referenced
    if target is None:
        return _unresolved(call, within, tree, in_template=in_template)
    if target.kind not in _RESOLVED:
        return Call(callee="dependent" if in_template else "unknown")
    if target.kind == Kind.CONSTRUCTOR:
        if not (is_made or (within and within[0].kind in _NAMES)):
            return None
        return _construction(target, tree)
    if not tree.has(target):
        return Call(callee="outside")
    label: EdgeLabel = "overridden" if frontend.is_dynamic_call(call) else "resolved"
    return Call(callee="inside", mentions=(Reference("calls", label, (tree.chain(target),), 1),))


def _construction(target: Cursor, tree: Tree) -> Call:
    is_copy = target.is_copy_constructor() or target.is_move_constructor()
    made = target.semantic_parent
    if made is None or not tree.has(made):
        return Call(callee="outside", is_copy=is_copy)
    return Call(
        callee="inside",
        mentions=(
            Reference("calls", "resolved", (tree.chain(target),), 1),
            Reference("constructs", "resolved", (tree.chain(made),), 1),
        ),
        is_copy=is_copy,
    )


def _unresolved(
    call: Cursor, within: Sequence[Cursor], tree: Tree, *, in_template: bool
) -> Call | None:
    """A call that has candidates, a name or nothing at all."""
    if not within:
        return Call(callee="dependent" if in_template else "unknown")
    callee = within[0]
    while callee.kind in _WRAPPERS and (inner := children(callee)):
        callee = inner[0]
    if callee.kind in (Kind.TYPE_REF, Kind.TEMPLATE_REF):
        return _dependent_construction(callee, tree)
    if callee.kind not in (Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR):
        return Call(callee="dependent" if in_template else "unknown")
    named = callee.referenced
    arity = max(len(within) - 1, 0)
    if named is not None and named.kind == Kind.OVERLOADED_DECL_REF:
        return _overloaded(named, arity, tree)
    if named is None and in_template:
        return _by_name(callee, arity, tree)
    return Call(callee="dependent" if in_template else "unknown")


def _dependent_construction(named: Cursor, tree: Tree) -> Call:
    made = named.referenced
    if made is None or made.kind == Kind.TEMPLATE_TYPE_PARAMETER or not tree.has(made):
        return Call(callee="dependent")
    return Call(
        callee="dependent",
        mentions=(Reference("constructs", "dependent", (tree.chain(made),), 1),),
    )


def _overloaded(named: Cursor, arity: int, tree: Tree) -> Call:
    candidates = frontend.overloads_of(named)
    chains = tuple(sorted({tree.chain(each) for each in candidates if tree.has(each)}))
    if not chains:
        return Call(callee="dependent")
    outside = sum(not tree.has(each) for each in candidates)
    total = len(chains) + outside
    mention = Reference("calls", "dependent", chains, total, arity=arity)
    return Call(callee="dependent", mentions=(mention,))


def _by_name(callee: Cursor, arity: int, tree: Tree) -> Call:
    """A method of an object whose type a template decides."""
    at, extent = frontend.place_of(callee), tree.extent(callee)
    path = tree.path(at.file)
    if path is None or extent is None:
        return Call(callee="dependent")
    name = last_name(tree.bytes_of(path)[extent.start : extent.end])
    within = _class_of(callee, tree)
    if not name or within is None:
        return Call(callee="dependent")
    mention = Reference("calls", "dependent", (), 0, name=name, arity=arity, within=within)
    return Call(callee="dependent", mentions=(mention,))


def last_name(text: bytes) -> str:
    """The name that an expression ends with, its template arguments left out; "" where there is none.

    >>> last_name(b"a.b<c>::template d<e, f<g>>")
    'd'
    """
    end, depth = len(text.rstrip()), 0
    if text[:end].endswith(b">"):
        for at in range(end - 1, -1, -1):
            depth += text[at : at + 1] == b">"
            depth -= text[at : at + 1] == b"<"
            if depth == 0:
                end = at
                break
    found = _LAST_NAME.search(text, 0, end)
    return found[0].decode().strip() if found else ""


def _class_of(callee: Cursor, tree: Tree) -> Chain | None:
    """The class of the object that a dependent name belongs to; () if unknown, None if a library's."""
    inside = children(callee)
    if not inside:
        return ()
    first = inside[0]
    while first.kind in _WRAPPERS and (inner := children(first)):
        first = inner[0]
    if first.kind == Kind.CXX_THIS_EXPR:
        return _class_around(first, tree)
    if first.kind in (Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR):
        declared = first.referenced
        if declared is None or declared.kind not in _OBJECTS:
            return ()
        types = [each for each in children(declared) if each.kind in _NAMES]
        types = [each for each in types if each.kind != Kind.NAMESPACE_REF]
        if not types:
            return ()
        first = types[0]
    return _named_class(first, tree)


def _named_class(reference: Cursor, tree: Tree) -> Chain | None:
    if reference.kind not in (Kind.TYPE_REF, Kind.TEMPLATE_REF):
        return ()
    target = reference.referenced
    if target is None or target.kind in (
        Kind.TEMPLATE_TYPE_PARAMETER,
        Kind.TEMPLATE_TEMPLATE_PARAMETER,
    ):
        return ()
    return tree.chain(target) if tree.has(target) else None


def _class_around(this: Cursor, tree: Tree) -> Chain | None:
    kind = this.type.get_pointee().get_declaration()
    if kind is None or kind.kind == Kind.NO_DECL_FOUND:
        return ()
    return tree.chain(kind) if tree.has(kind) else None
