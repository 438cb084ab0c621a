"""Queries to libclang that an index needs: the places of cursors in the tree, and the callees of calls.

A callee is the function that libclang resolves before templates are instantiated.
"""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from clang import cindex
from clang.cindex import CursorKind as Kind

from curriculum.graph.clang.libclang import (
    Cursor,
    SourcePlace,
    children,
    library,
    native,
    place,
    place_of,
)
from curriculum.graph.clang.union import Chain, NamedReference
from curriculum.graph.facts import Range
from schemas.document import EdgeLabel


def extent_of(cursor: Cursor) -> tuple[SourcePlace, SourcePlace]:
    """Return the places at which a cursor's text begins and ends."""
    extent = library().clang_getCursorExtent(cursor)
    return (
        place(library().clang_getRangeStart(extent)),
        place(library().clang_getRangeEnd(extent)),
    )


def file_name(handle: int) -> str:
    """Return the name under which the frontend opened a file."""
    return str(cindex.File(ctypes.cast(handle, cindex.c_object_p)).name or "")


def templates_of(cursor: Cursor) -> list[Cursor]:
    """Return the cursor, then the template that it specialises, then that template's template, and so on."""
    found = [cursor]
    while len(found) < 8:
        cursor = library().clang_getSpecializedCursorTemplate(cursor)
        if cursor is None:
            break
        found.append(cursor)
    return found


def overloads_of(cursor: Cursor) -> list[Cursor]:
    """Return the candidates of an overloaded name."""
    number = library().clang_getNumOverloadedDecls(cursor)
    return [library().clang_getOverloadedDecl(cursor, at) for at in range(number)]


_CURSORS = ctypes.POINTER(cindex.Cursor)


def overridden_by(cursor: Cursor) -> list[Cursor]:
    """Return the base-class methods that a method overrides directly."""
    kinds = (cindex.Cursor, ctypes.POINTER(_CURSORS), ctypes.POINTER(ctypes.c_uint))
    first, number = _CURSORS(), ctypes.c_uint()
    get = native("clang_getOverriddenCursors", None, *kinds)
    get(cursor, ctypes.byref(first), ctypes.byref(number))
    found = [cindex.Cursor.from_buffer_copy(first[at]) for at in range(number.value)]
    for method in found:
        method._tu = cursor._tu
    if first:
        native("clang_disposeOverriddenCursors", None, _CURSORS)(first)
    return found


def is_dynamic_call(cursor: Cursor) -> bool:
    """Return True if the object's type decides at run time which function is called."""
    return bool(native("clang_Cursor_isDynamicCall", ctypes.c_int, cindex.Cursor)(cursor))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """Files below a folder, as one translation unit sees them.

    A tree serves one translation unit only, because the frontend reuses file handles in the next one.
    """

    root: Path
    """Path without symbolic links."""
    paths: dict[int, str | None] = field(default_factory=dict)
    """Path of each file in the tree, by the frontend's file handle; None for a file outside of the tree."""
    contents: dict[str, bytes] = field(default_factory=dict)

    def path(self, handle: int) -> str | None:
        """Return the path in the tree of the file with this `handle`; None for a file outside of the tree."""
        if handle not in self.paths:
            self.paths[handle] = self.relative(file_name(handle)) if handle else None
        return self.paths[handle]

    def relative(self, name: str) -> str | None:
        """Return the file `name` as a path in the tree; None for a file outside of the tree.

        `<root>/include/../src/./a.h` becomes `src/a.h`.
        """
        file = Path(name).resolve()
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else None

    def contains(self, cursor: Cursor) -> bool:
        """Return True if the declaration at `cursor` is in a file of the tree."""
        return self.path(place_of(cursor).file) is not None

    def name_place(self, cursor: Cursor) -> tuple[str, int] | None:
        """Return the path and the offset of a cursor's name; None if the name is outside of the tree."""
        at = place_of(cursor)
        path = self.path(at.file)
        return None if path is None else (path, at.offset)

    def extent(self, cursor: Cursor) -> Range | None:
        """Return the byte range of a cursor's text; None if it begins and ends in different files."""
        start, end = extent_of(cursor)
        if start.file != end.file or start.offset > end.offset:
            return None
        return Range(start.offset, end.offset)

    def bytes_of(self, path: str) -> bytes:
        """Return the bytes of a file of the tree."""
        if path not in self.contents:
            self.contents[path] = (self.root / path).read_bytes()
        return self.contents[path]

    def usr(self, cursor: Cursor) -> str:
        """Return the USR of a declaration without the tree's location.

        A USR is libclang's name for a declaration, which is the same in all translation units.
        """
        return self.without_root(str(cursor.get_usr()))

    def chain(self, cursor: Cursor) -> Chain:
        """Return a declaration's USR, then the USRs of the templates that it specialises."""
        return tuple(self.usr(template) for template in templates_of(cursor))

    def without_root(self, text: str) -> str:
        """Return `text`, which the frontend wrote, without the tree's location."""
        return text.replace(f"{self.root}/", "")


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
_NO_CLASSES = (
    *(Kind.TEMPLATE_TYPE_PARAMETER, Kind.TEMPLATE_TEMPLATE_PARAMETER, Kind.NO_DECL_FOUND),
)
_LAST_NAME = re.compile(rb"(?:(?<!\w)[0-9]*+|(?=~))(~?[A-Za-z_]\w*+)\s*+$")


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedCall:
    """Kind of callee that a call has, and the references that the call adds to its caller."""

    callee: Callee
    mentions: tuple[NamedReference, ...] = ()
    is_copy: bool = False
    """True for a copy or move constructor. The constructor call directly below may then be the one that was
    written.
    """


def is_elided(call: Cursor, within: Sequence[Cursor]) -> bool:
    """Return True if `call` is a copy of a temporary that the frontend adds and later removes.

    `within` holds the call's children.
    """
    if len(within) != 1 or within[0].kind != Kind.UNEXPOSED_EXPR or call.referenced is not None:
        return False
    # A call through a pointer differs: its callee has the pointer's type.
    made, copied = (part.type.get_canonical().spelling for part in (call, within[0]))
    return str(made).removeprefix("const ") == str(copied).removeprefix("const ")


def callee_of(
    call: Cursor, within: Sequence[Cursor], tree: Tree, *, in_template: bool, is_made: bool
) -> ResolvedCall | None:
    """Return the callee of a call; None for a constructor call that isn't written in the code.

    Args:
        call: the call's cursor.
        within: the call's children.
        tree: the files to which references are recorded.
        in_template: True if unresolved names may depend on template parameters.
        is_made: True if the call's parent shows that a constructor call was written there.
    """
    target = call.referenced
    if target is None:
        return _unresolved(call, within, tree, in_template=in_template)
    if target.kind not in _RESOLVED:
        return ResolvedCall(callee="dependent" if in_template else "unknown")
    if target.kind == Kind.CONSTRUCTOR:
        if not (is_made or (within and within[0].kind in _NAMES)):
            return None
        return _construction(target, tree)
    if not tree.contains(target):
        return ResolvedCall(callee="outside")
    label: EdgeLabel = "overridden" if is_dynamic_call(call) else "resolved"
    return ResolvedCall(
        callee="inside", mentions=(NamedReference("calls", label, (tree.chain(target),), 1),)
    )


def _construction(target: Cursor, tree: Tree) -> ResolvedCall:
    is_copy = target.is_copy_constructor() or target.is_move_constructor()
    made = target.semantic_parent
    if made is None or not tree.contains(made):
        return ResolvedCall(callee="outside", is_copy=is_copy)
    return ResolvedCall(
        callee="inside",
        mentions=(
            NamedReference("calls", "resolved", (tree.chain(target),), 1),
            NamedReference("constructs", "resolved", (tree.chain(made),), 1),
        ),
        is_copy=is_copy,
    )


def _unresolved(
    call: Cursor, within: Sequence[Cursor], tree: Tree, *, in_template: bool
) -> ResolvedCall | None:
    """Return the result of a call without a single callee.

    Such a call has several candidates, only a name, or neither.
    """
    callee = _unwrapped(within[0]) if within else call
    named = callee.referenced
    arity = max(len(within) - 1, 0)
    if callee.kind in (Kind.TYPE_REF, Kind.TEMPLATE_REF):
        mention = _constructed(named, tree)
    elif callee.kind not in (Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR):
        return ResolvedCall(callee="dependent" if in_template else "unknown")
    elif named is not None and named.kind == Kind.OVERLOADED_DECL_REF:
        mention = _overloaded(named, arity, tree)
    elif named is None and in_template:
        mention = _by_name(callee, arity, tree)
    else:
        return ResolvedCall(callee="dependent" if in_template else "unknown")
    return ResolvedCall(callee="dependent", mentions=(mention,) if mention else ())


def _unwrapped(cursor: Cursor) -> Cursor:
    while cursor.kind in _WRAPPERS and (inner := children(cursor)):
        cursor = inner[0]
    return cursor


def _constructed(made: Cursor | None, tree: Tree) -> NamedReference | None:
    if made is None or made.kind == Kind.TEMPLATE_TYPE_PARAMETER or not tree.contains(made):
        return None
    return NamedReference("constructs", "dependent", (tree.chain(made),), 1)


def _overloaded(named: Cursor, arity: int, tree: Tree) -> NamedReference | None:
    candidates = overloads_of(named)
    chains = tuple(
        sorted({tree.chain(candidate) for candidate in candidates if tree.contains(candidate)})
    )
    outside = sum(not tree.contains(candidate) for candidate in candidates)
    total = len(chains) + outside
    return NamedReference("calls", "dependent", chains, total, arity=arity) if chains else None


def _by_name(callee: Cursor, arity: int, tree: Tree) -> NamedReference | None:
    """Return a reference to a method by its name, since the object's type depends on a template parameter."""
    path, extent = tree.path(place_of(callee).file), tree.extent(callee)
    if path is None or extent is None:
        return None
    name = last_name(tree.bytes_of(path)[extent.start : extent.end])
    within = _class_of(callee, tree)
    if not name or within is None:
        return None
    return NamedReference("calls", "dependent", (), 0, name=name, arity=arity, within=within)


def last_name(text: bytes) -> str:
    """Return the name at the end of an expression without template arguments; "" if there is none.

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
    return found[1].decode() if found else ""


def _class_of(callee: Cursor, tree: Tree) -> Chain | None:
    """Return the class of the object on which a dependent method is called.

    () if the class is unknown, None if it belongs to a library.
    """
    inside = children(callee)
    if not inside:
        return ()
    first = _unwrapped(inside[0])
    if first.kind == Kind.CXX_THIS_EXPR:
        return _class(first.type.get_pointee().get_declaration(), tree)
    if first.kind in (Kind.DECL_REF_EXPR, Kind.MEMBER_REF_EXPR):
        declared = first.referenced
        if declared is None or declared.kind not in _OBJECTS:
            return ()
        types = [child for child in children(declared) if child.kind in _NAMES]
        types = [reference for reference in types if reference.kind != Kind.NAMESPACE_REF]
        if not types:
            return ()
        first = types[0]
    return _named_class(first, tree)


def _named_class(reference: Cursor, tree: Tree) -> Chain | None:
    if reference.kind not in (Kind.TYPE_REF, Kind.TEMPLATE_REF):
        return ()
    return _class(reference.referenced, tree)


def _class(found: Cursor | None, tree: Tree) -> Chain | None:
    if found is None or found.kind in _NO_CLASSES:
        return ()
    return tree.chain(found) if tree.contains(found) else None
