"""Compiler flags and folders: which decide what sources mean, and where a moved database points."""

import posixpath
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

CodeLanguage = Literal["c", "c++"]


class Kept(NamedTuple):
    """A flag, what follows it, and whether that is a path."""

    flag: str
    value: str
    is_path: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerFlags:
    """Flags of a command for a parser."""

    language: CodeLanguage | None
    """None for what isn't C or C++."""
    standard: str | None
    kept: tuple[Kept, ...]


_PATHS = (
    "-isystem",
    "-iquote",
    "-idirafter",
    "-imacros",
    "-include",
    "-isysroot",
    "--sysroot",
    "-I",
)
"""Their path is joined or the next word; longer ones first, since `-I` begins none of them."""
_WORDS = ("-D", "-U")
_DROPPED_PAIRS = frozenset(
    (
        *("-o", "-MF", "-MT", "-MQ", "-MJ", "-L", "-l", "-u", "-z", "-T", "-arch", "-target", "-G"),
        *("-Xlinker", "-Xassembler", "-Xpreprocessor", "-include-pch", "--param", "-framework"),
        *("-mllvm", "-dumpbase", "-dumpdir", "-aux-info", "-wrapper", "-install_name"),
        *("--serialize-diagnostics", "-index-store-path", "-iframework", "-F"),
    )
)
_SWITCHES = frozenset(
    (
        *("-ansi", "-pthread", "-nostdinc", "-nostdinc++", "-undef", "-trigraphs", "-m32", "-m64"),
        *("-fexceptions", "-fno-exceptions", "-frtti", "-fno-rtti", "-fchar8_t", "-fno-char8_t"),
        *("-fms-extensions", "-fno-ms-extensions", "-fsigned-char", "-funsigned-char", "-fblocks"),
        *("-fshort-enums", "-fshort-wchar", "-ffreestanding", "-fno-builtin", "-fgnu89-inline"),
        *("-fno-operator-names", "-fsized-deallocation", "-faligned-allocation", "-mfma", "-maes"),
        *("-mpclmul", "-mpopcnt", "-mlzcnt", "-mf16c", "-mcrc32", "-mbmi", "-mbmi2"),
    )
)
_PREFIXES = ("-ftemplate-depth=", "-fconstexpr-depth=", "-fconstexpr-steps=", "-msse", "-mavx")
"""No -march=, which may say `native`: the same command would mean something else on each machine."""
_LANGUAGES: dict[str, CodeLanguage] = {
    "c": "c",
    "c-header": "c",
    "c++": "c++",
    "c++-header": "c++",
}
_SUFFIXES: dict[str, CodeLanguage] = {
    ".c": "c",
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".c++", ".cp", ".CPP", ".C", ".cppm", ".ixx"), "c++"),
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".h++", ".ipp", ".inl", ".tcc"), "c++"),
}


def read_flags(words: Sequence[str], path: str, *, is_cpp: bool) -> CompilerFlags:
    """The flags of a command without its compiler; `is_cpp` if that takes a `.c` for C++.

    >>> read_flags(["-Iinclude", "-O2", "-D", "A=1", "-c", "a.c"], "a.c", is_cpp=False).kept
    (Kept(flag='-I', value='include', is_path=True), Kept(flag='-D', value='A=1', is_path=False))
    """
    language = _SUFFIXES.get(posixpath.splitext(path)[1])
    language = "c++" if language and is_cpp else language
    standard: str | None = None
    kept: list[Kept] = []
    rest = iter([word for word in words if word != "-Xclang"])
    for word in rest:
        if word.startswith("-x") and word != "-xHost":
            language = _LANGUAGES.get(word[2:] or next(rest, ""))
        elif word.startswith(("-std=", "--std=")):
            standard = word.partition("=")[2]
        elif word in _DROPPED_PAIRS:
            next(rest, None)
        else:
            found = _selected(word)
            if found is not None and not found.value and found.flag in (*_PATHS, *_WORDS):
                found = found._replace(value=next(rest, ""))
            kept += [found] if found is not None and (found.value or _is_switch(word)) else []
    if standard is not None and ("++" in standard) != (language == "c++"):
        standard = None
    return CompilerFlags(language=language, standard=standard, kept=tuple(kept))


def _selected(word: str) -> Kept | None:
    if _is_switch(word):
        return Kept(word, "", is_path=False)
    if word.startswith("--sysroot="):
        return Kept("--sysroot", word.partition("=")[2], is_path=True)
    for flag in _PATHS:
        if word.startswith(flag) and not word.startswith("-include-"):
            return Kept(flag, word[len(flag) :], is_path=True)
    for flag in _WORDS:
        if word.startswith(flag):
            return Kept(flag, word[len(flag) :], is_path=False)
    return None


def _is_switch(word: str) -> bool:
    return word in _SWITCHES or word.startswith(_PREFIXES)


def is_pair(word: str) -> bool:
    """Return True if an argument of a unit is a flag whose path is the next argument."""
    return word in _PATHS


def below(path: str, folder: str) -> str | None:
    """`db/impl.cc` for /src/db/impl.cc in /src, `.` for /src itself; None for what isn't in it."""
    if path == folder:
        return "."
    start = folder if folder.endswith("/") else f"{folder}/"
    return path[len(start) :] if path.startswith(start) else None


def foreign_root(files: Iterable[str], paths: frozenset[str], original: Path | None) -> str | None:
    """The folder that stands for the tree's root: of those that files vote for the shortest of the best.

    /src/db/impl.cc votes for /src where the tree has db/impl.cc. `original` wins if a file votes for it.
    """
    votes: Counter[str] = Counter()
    for file in files:
        steps = file.split("/")
        for at in range(1, len(steps)):
            if "/".join(steps[at:]) in paths:
                votes["/".join(steps[:at]) or "/"] += 1
    given = [] if original is None else [str(original.absolute()), str(original.resolve())]
    for folder in given:
        if votes[folder]:
            return folder
    best = min(votes.items(), key=lambda item: (-item[1], len(item[0]), item[0]), default=None)
    return None if best is None or best[1] == 0 else best[0]


def build_folder(directories: Iterable[str], foreign: str | None) -> str | None:
    """Return the folder around all build folders outside of the root; None if it would be all or nothing."""
    outside = {each for each in directories if foreign is None or below(each, foreign) is None}
    shared = posixpath.commonpath(outside) if outside else "/"
    return shared if shared.count("/") > 1 else None


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """The folders that files lie in, without the root."""
    folders: set[str] = set()
    for path in paths:
        folder = posixpath.dirname(path)
        while folder and folder not in folders:
            folders.add(folder)
            folder = posixpath.dirname(folder)
    return frozenset(folders)
