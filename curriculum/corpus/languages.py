"""The language of a file, by its path alone."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from schemas.corpus import Language

_CPP_ONLY = ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .inl .tpp .txx .tcc .ixx .cppm .cu .cuh"
CPP_ONLY = frozenset(_CPP_ONLY.split())
SUFFIXES: dict[str, Language] = {
    **dict.fromkeys(CPP_ONLY, "cpp"),
    ".c": "c",
    ".cmake": "cmake",
    ".mk": "make",
    ".mak": "make",
    ".bzl": "bazel",
    ".bazel": "bazel",
}
NAMES: dict[str, Language] = {
    "CMakeLists.txt": "cmake",
    "Makefile": "make",
    "makefile": "make",
    "GNUmakefile": "make",
    "BUILD": "bazel",
    "WORKSPACE": "bazel",
    "meson.build": "meson",
    "meson_options.txt": "meson",
    "meson.options": "meson",
}


def is_cpp_only(path: str) -> bool:
    """Return True if the suffix is one that C never has; `.C` and `.H` count, `.h` doesn't."""
    suffix = PurePosixPath(path).suffix
    return suffix in (".C", ".H") or suffix.lower() in CPP_ONLY


def header_language(paths: Iterable[str]) -> Language:
    """Return the language of `.h` among these paths: C++ as soon as one file can't be C."""
    return "cpp" if any(map(is_cpp_only, paths)) else "c"


def language_of(path: str, *, headers: Language) -> Language | None:
    """The language of a path, None for what we don't read; `headers` is the language of `.h`.

    >>> language_of("src/db.cc", headers="cpp"), language_of("README.md", headers="cpp")
    ('cpp', None)
    """
    pure = PurePosixPath(path)
    if pure.name in NAMES:
        return NAMES[pure.name]
    if is_cpp_only(path):
        return "cpp"
    if pure.suffix == ".h":
        return headers
    return SUFFIXES.get(pure.suffix.lower())
