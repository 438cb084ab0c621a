"""Which flags of a compiler decide what its sources mean; all others are left out."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

CodeLanguage = Literal["c", "c++"]


class Kept(NamedTuple):
    """A flag, what follows it, and whether that is a path."""

    flag: str
    value: str
    is_path: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerFlags:
    """What a command says to a parser."""

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
            found = _kept(word)
            if found is not None and not found.value and found.flag in (*_PATHS, *_WORDS):
                found = found._replace(value=next(rest, ""))
            kept += [found] if found is not None and (found.value or _is_switch(word)) else []
    if standard is not None and ("++" in standard) != (language == "c++"):
        standard = None
    return CompilerFlags(language=language, standard=standard, kept=tuple(kept))


def _kept(word: str) -> Kept | None:
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
    """Whether an argument of a unit is a flag whose path is the next argument."""
    return word in _PATHS
