"""Compilation databases (compile_commands.json), as translation units that can be parsed in any folder.

The arguments of a translation unit contain three placeholders instead of absolute paths, so that equal builds
are equal in any folder: @ROOT@ is the tree, @ORIGINAL@ the work tree that was built, and @BUILD@ its build
folder.

A database may come from its repository, so it is untrusted. In @ORIGINAL@ and @BUILD@ only headers are read,
and only if they lie in the work tree or next to the database after symbolic links are resolved.
"""

import contextlib
import hashlib
import json
import os
import posixpath
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import groupby
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from schemas import regular_files
from schemas.errors import CorpusError
from schemas.json_text import parse_json
from schemas.regular_files import IrregularFileError
from schemas.reports import DatabaseReport

CodeLanguage = Literal["c", "c++"]


class KeptFlag(NamedTuple):
    """Flag, its value, and whether the value is a path."""

    flag: str
    value: str
    is_path: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerFlags:
    """Those flags of a compile command that a parser needs."""

    language: CodeLanguage | None
    """None for languages other than C and C++."""
    standard: str | None
    kept: tuple[KeptFlag, ...]


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
"""Flags with a path, which follows directly or as the next word. Flags are matched in this order."""
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
"""-march= is left out, since it may say `native`, whose meaning depends on the machine."""
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
    """Return the flags of `words`, a command line without its compiler.

    Args:
        words: the command line.
        path: the source file. Its ending determines the language, unless `-x` does.
        is_cpp: True if the compiler treats `.c` files as C++.

    >>> read_flags(["-Iinclude", "-O2", "-D", "A=1", "-c", "a.c"], "a.c", is_cpp=False).kept
    (KeptFlag(flag='-I', value='include', is_path=True), KeptFlag(flag='-D', value='A=1', is_path=False))
    """
    language = _SUFFIXES.get(posixpath.splitext(path)[1])
    language = "c++" if language and is_cpp else language
    standard: str | None = None
    kept: list[KeptFlag] = []
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


def _selected(word: str) -> KeptFlag | None:
    if _is_switch(word):
        return KeptFlag(word, "", is_path=False)
    if word.startswith("--sysroot="):
        return KeptFlag("--sysroot", word.partition("=")[2], is_path=True)
    for flag in _PATHS:
        if word.startswith(flag) and not word.startswith("-include-"):
            return KeptFlag(flag, word[len(flag) :], is_path=True)
    for flag in _WORDS:
        if word.startswith(flag):
            return KeptFlag(flag, word[len(flag) :], is_path=False)
    return None


def _is_switch(word: str) -> bool:
    return word in _SWITCHES or word.startswith(_PREFIXES)


def is_pair(word: str) -> bool:
    """Return True if `word` is a flag whose path is the next word in `Unit.arguments`."""
    return word in _PATHS


def path_below(path: str, folder: str) -> str | None:
    """Return `path` relative to `folder`; None if it lies outside.

    For the folder /src, /src/db/impl.cc becomes `db/impl.cc` and /src itself becomes `.`.
    """
    if path == folder:
        return "."
    start = folder if folder.endswith("/") else f"{folder}/"
    return path[len(start) :] if path.startswith(start) else None


def foreign_root(files: Iterable[str], paths: frozenset[str], original: Path | None) -> str | None:
    """Return the folder that the database uses as the root of the tree; None if no file fits the tree.

    Each of the database's `files` votes for the folders below which its path is one of the tree's `paths`:
    /src/db/impl.cc votes for /src if the tree has db/impl.cc. The folder with the most votes is chosen, and
    the shortest one of several; `original` is chosen if any file votes for it.
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
    return min(votes, key=lambda folder: (-votes[folder], len(folder), folder), default=None)


def build_folder(directories: Iterable[str], foreign: str | None) -> str | None:
    """Return the common parent of all build `directories` outside of the root `foreign`.

    None if there is no such directory, or if the common parent is `/` or a folder directly below `/`.
    """
    outside = {
        directory
        for directory in directories
        if foreign is None or path_below(directory, foreign) is None
    }
    shared = posixpath.commonpath(outside) if outside else "/"
    return shared if shared.count("/") > 1 else None


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Return all folders that contain files, except the root."""
    folders = {PurePosixPath(path).parent for path in paths}
    return frozenset(str(parent) for folder in folders for parent in (folder, *folder.parents)) - {
        "."
    }


ROOT, ORIGINAL, BUILD = "@ROOT@", "@ORIGINAL@", "@BUILD@"
_PLACEHOLDER = "/@ROOT@"
"""Absolute path that doesn't exist. It replaces the text @ROOT@ where a database itself contains it."""
_MAX_RESPONSE_DEPTH = 8
_MAX_RESPONSE_BYTES, _MAX_RESPONSES = 1 << 20, 64
"""Maximum bytes of a response file, and maximum number of response files per translation unit.

The number is limited because a file that names itself twice doubles at each level.
"""
_MAX_HEADER_BYTES = 64 << 20
MAX_GENERATED_BYTES, MAX_GENERATED = 2 << 30, 100_000
"""Maximum bytes and maximum number of headers outside of the tree.

Without a limit, symbolic links and sparse files could turn kilobytes into gigabytes.
"""
_HEADERS = frozenset((".h", ".hh", ".hpp", ".hxx", ".h++", ".inc", ".inl", ".ipp", ".def", ".tcc"))

_COMPILER = re.compile(
    r"(?:^|-)(?:gcc|cc|clang|icc|icx|emcc|mpicc|c99|(?P<cpp>g\+\+|c\+\+|clang\+\+|icpc|icpx|em\+\+|mpicxx|mpic\+\+))"
    r"(?:-[\d.]+)?(?:\.exe)?$"
)
_LAUNCHERS = frozenset(("ccache", "sccache", "distcc", "icecc", "gomacc", "buildcache"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Translation unit: a file of the tree, and how one entry of the database compiles it."""

    path: str
    language: Literal["c", "c++"]
    standard: str | None
    """Language standard: `c++17` for the flag `-std=c++17`."""
    arguments: tuple[str, ...]
    """Arguments without the language, the standard and the file. Their paths begin with a placeholder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitFile:
    """File of the tree with its translation units, and the paths of the placeholders on this machine."""

    units: tuple[Unit, ...]
    """Translation units of the file in the order of their entries; the one with the fewest errors is used.

    If a worker is lost while it tries them, each translation unit is tried on its own.
    """
    root: Path
    places: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Database:
    """Translation units of a tree, and counts over all entries of the database."""

    units: tuple[Unit, ...]
    """Sorted by path, then in the order of their entries, without duplicates."""
    count: DatabaseReport
    places: Mapping[str, str]
    """Paths of @ORIGINAL@ and @BUILD@ on this machine, if they exist."""
    reach: tuple[Path, ...]
    """Folders, as paths without symbolic links. Files for the placeholders are read only if they are inside.
    """

    def files(self) -> Iterator[tuple[Unit, ...]]:
        """Yield the translation units of each file as one group per file."""
        for _, units in groupby(self.units, attrgetter("path")):
            yield tuple(units)

    def fingerprint(self, paths: Collection[str]) -> str:
        """Return a digest (64 hex digits) of everything that determines an index, except the tree.

        The digest covers the translation units and the generated headers. Include folders in the work tree
        and the build count only by the headers that they add. Costs a walk through the include folders
        outside of the tree.

        Args:
            paths: the tree's files.

        Raises:
            CorpusError: if there are more than MAX_GENERATED headers or MAX_GENERATED_BYTES.
        """
        settings = [
            [unit.path, unit.language, unit.standard, *_own_arguments(unit)] for unit in self.units
        ]
        files = {
            name: hashlib.file_digest(file, "sha256").hexdigest()
            for name, file in self._generated(frozenset(paths))
        }
        text = json.dumps([settings, sorted(files.items())])
        return hashlib.sha256(text.encode()).hexdigest()

    def copy_headers(self, paths: Collection[str], folder: Path) -> dict[str, str]:
        """Copy the headers outside of the tree that translation units can include; return their folders.

        The result maps each placeholder to the folder of its copies.

        Args:
            paths: the tree's files.
            folder: an existing, empty folder.
        """
        for name, file in self._generated(frozenset(paths)):
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("wb") as written:
                written.write(file.read(_MAX_HEADER_BYTES))
        return {place: str(folder / place) for place in self.places}

    def _generated(self, paths: frozenset[str]) -> Iterator[tuple[str, BufferedReader]]:
        """Yield (name, open file) for each header outside of the tree that translation units can include.

        These headers are in the work tree or the build folder. Symbolic links are resolved once more when a
        header is opened; a header that then lies outside of both folders is skipped.
        """
        words = {word for unit in self.units for word in unit.arguments}
        number = size = 0
        for word in sorted(words):
            place = word.partition("/")[0]
            if place not in self.places:
                continue
            at, known = Path(self.places[place]), paths if place == ORIGINAL else frozenset()
            for file in _headers(Path(resolve_placeholder(word, self.places))):
                if (name := file.relative_to(at).as_posix()) in known:
                    continue
                with contextlib.suppress(IrregularFileError, NotADirectoryError, FileNotFoundError):
                    handle = regular_files.opened_inside(file, self.reach)
                    with os.fdopen(handle, "rb") as opened:
                        number, size = number + 1, size + os.fstat(handle).st_size
                        _require_few(at, number, size)
                        yield f"{place}/{name}", opened


def _require_few(folder: Path, number: int, size: int) -> None:
    if number > MAX_GENERATED or size > MAX_GENERATED_BYTES:
        raise CorpusError(
            f"headers in {folder}",
            f"{number:,} files, {size:,} bytes",
            cause=f"headers outside of the tree exceed the limit of {MAX_GENERATED:,} files or "
            f"{MAX_GENERATED_BYTES:,} bytes",
            cure="Remove the folder from the compilation database, or clear the folder",
        )


def _own_arguments(unit: Unit) -> Iterator[str]:
    """Yield the arguments of a translation unit without its include folders outside of the tree."""
    words = iter(unit.arguments)
    for word in words:
        value = next(words) if is_pair(word) else ""
        if value.partition("/")[0] not in (ORIGINAL, BUILD):
            yield from (word, value)


def resolve_placeholder(word: str, places: Mapping[str, str]) -> str:
    """Return the argument `word` with its placeholder replaced by its path in `places`.

    `@ROOT@/include` becomes `/tmp/tree/include` if the tree is in /tmp/tree.
    """
    place, slash, rest = word.partition("/")
    return places[place] + slash + rest if place in places else word


def read_database(file: Path, paths: Collection[str], *, original: Path | None) -> Database:
    """Return the translation units of a tree that a compilation database describes.

    Args:
        file: compile_commands.json, as a path without links.
        paths: the tree's files.
        original: the work tree that was built. By default it is inferred from the database's own paths: the
            folder below which most of its files have the same names as in the tree.

    Raises:
        CorpusError: if the file can't be read, isn't JSON, or isn't a list of commands.
    """
    entries = [_entry(file, at, value) for at, value in enumerate(_values(file))]
    reader = _Reader.from_entries(file, entries, frozenset(paths), original)
    found = [unit for entry in entries if (unit := reader.unit(entry)) is not None]
    matched = len({unit.path for unit in found})
    tally = reader.tally
    return Database(
        units=tuple(sorted(dict.fromkeys(found), key=attrgetter("path"))),
        count=DatabaseReport(
            entries=len(entries),
            matched=matched,
            duplicates=len(found) - matched,
            missing=tally["missing"],
            not_understood=tally["not_understood"],
            missing_response_files=tally["missing_response_files"],
        ),
        places=reader.places,
        reach=reader.reach,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Entry:
    directory: str
    file: str
    arguments: tuple[str, ...] | None
    """None if the quotes in the command don't match."""


def _values(file: Path) -> list[Any]:
    try:
        value = parse_json(regular_files.read_inside(file, (file.parent,)))
    except OSError as error:
        raise CorpusError(
            str(file),
            cause=f"the file can't be read: {error.strerror}",
            cure="Set compile_commands to another path",
        ) from error
    except ValueError as error:
        raise CorpusError(
            str(file),
            cause=f"the file isn't valid JSON: {error}",
            cure="Generate the database again",
        ) from error
    if not isinstance(value, list):
        raise CorpusError(
            str(file),
            type(value).__name__,
            cause="a compilation database must be a list",
            cure="Generate it again, for example with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        )
    return value


def _entry(file: Path, at: int, value: object) -> _Entry:
    if not isinstance(value, dict) or not isinstance(value.get("file"), str):
        raise _broken(file, at, "an entry must have `file`, a string")
    directory, arguments, command = (
        value.get(name) for name in ("directory", "arguments", "command")
    )
    if not isinstance(directory, str):
        raise _broken(file, at, "an entry must have `directory`, a string")
    base = _mask_placeholder(
        posixpath.join(file.absolute().parent.as_posix(), _mask_placeholder(directory))
    )
    source = posixpath.normpath(posixpath.join(base, _mask_placeholder(value["file"])))
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        words: tuple[str, ...] | None = tuple(_mask_placeholder(argument) for argument in arguments)
    elif isinstance(command, str):
        words = _split(_mask_placeholder(command))
    else:
        raise _broken(
            file, at, "an entry must have `arguments`, a list of strings, or `command`, a string"
        )
    return _Entry(directory=posixpath.normpath(base), file=source, arguments=words)


def _broken(file: Path, at: int, cause: str) -> CorpusError:
    return CorpusError(f"{file}: entry {at}", cause=cause, cure="Generate the database again")


def _mask_placeholder(text: str) -> str:
    return text.replace(ROOT, _PLACEHOLDER)


def _split(command: str) -> tuple[str, ...] | None:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reader:
    """Converter of database entries into the translation units of one tree."""

    paths: frozenset[str]
    folders: frozenset[str]
    foreign: str | None
    """Path that the database uses for the root of the tree."""
    build: str | None
    """Build folder, if it is outside of the root."""
    places: dict[str, str]
    reach: tuple[Path, ...]
    """Folders, as paths without symbolic links. Files of @ORIGINAL@ and @BUILD@ are read only if they are
    inside.
    """
    tally: Counter[str] = field(default_factory=Counter)

    @classmethod
    def from_entries(
        cls, file: Path, entries: Sequence[_Entry], paths: frozenset[str], original: Path | None
    ) -> "_Reader":
        foreign = foreign_root([entry.file for entry in entries], paths, original)
        build = build_folder([entry.directory for entry in entries], foreign)
        places: dict[str, str] = {}
        if original is not None:
            places[ORIGINAL] = str(original.absolute())
        elif foreign is not None and _is_folder(Path(foreign)):
            places[ORIGINAL] = foreign
        if build is not None and _is_folder(Path(build)):
            places[BUILD] = build
        return cls(
            paths=paths,
            folders=folders_of(paths),
            foreign=foreign,
            build=build,
            places=places,
            reach=(file.parent,) if original is None else (original.resolve(), file.parent),
        )

    def unit(self, entry: _Entry) -> Unit | None:
        """Return the translation unit of `entry`, or None if it has none; entries without one are counted."""
        path = self._inside(entry.file)
        if path is None or path not in self.paths:
            self.tally["missing"] += 1
            return None
        flags = self._flags(entry, path)
        if flags is None:
            self.tally["not_understood"] += 1
            return None
        arguments = [
            word
            for flag, value, is_path in flags.kept
            for word in (self._placed(flag, value, entry) if is_path else (flag + value,))
        ]
        assert flags.language is not None
        return Unit(
            path=path,
            language=flags.language,
            standard=flags.standard,
            arguments=tuple(arguments),
        )

    def _flags(self, entry: _Entry, path: str) -> CompilerFlags | None:
        words = entry.arguments or ()
        while words and posixpath.basename(words[0]) in _LAUNCHERS:
            words = words[1:]
        compiler = _COMPILER.search(posixpath.basename(words[0])) if words else None
        if compiler is None:
            return None
        left = iter(range(_MAX_RESPONSES))
        expanded = self._expand(words[1:], entry.directory, _MAX_RESPONSE_DEPTH, left)
        flags = read_flags(list(expanded), path, is_cpp=compiler["cpp"] is not None)
        return None if flags.language is None else flags

    def _expand(
        self, words: Sequence[str], directory: str, depth: int, left: Iterator[int]
    ) -> Iterator[str]:
        """Yield the words, with each response file (`@file`) replaced by its contents."""
        for word in words:
            if not word.startswith("@") or len(word) == 1:
                yield word
                continue
            is_read = depth and next(left, None) is not None
            text = self._response(posixpath.join(directory, word[1:])) if is_read else None
            inner = None if text is None else _split(_mask_placeholder(text))
            if inner is None:
                self.tally["missing_response_files"] += 1
            else:
                yield from self._expand(inner, directory, depth - 1, left)

    def _response(self, path: str) -> str | None:
        file = Path(
            resolve_placeholder(
                self._as_placeholder(posixpath.normpath(path), ORIGINAL), self.places
            )
        )
        try:
            return regular_files.read_inside(file, self.reach, most=_MAX_RESPONSE_BYTES).decode()
        except (OSError, ValueError):
            return None

    def _placed(self, flag: str, value: str, entry: _Entry) -> Iterator[str]:
        """Yield `flag` with its path in the tree, and again with its original path if this machine has it."""
        path = posixpath.normpath(posixpath.join(entry.directory, value))
        inside = self._inside(path)
        is_file = flag in ("-include", "-imacros")
        known = self.paths if is_file else self.folders
        found = inside is not None and (inside in known or (inside == "." and not is_file))
        if found:
            yield from (flag, posixpath.normpath(f"{ROOT}/{inside}"))
        was = self._as_placeholder(path, ORIGINAL)
        place = Path(resolve_placeholder(was, self.places))
        # The parser would read a file given as an include folder as a header map.
        exists = _exists(place) if is_file else _is_folder(place)
        exists = exists and (was == path or self._reaches(place))
        if exists and not (found and is_file):
            yield from (flag, was)
        elif is_file and not found:
            # The compiler searches its include folders for the file.
            yield from (flag, value)

    def _reaches(self, path: Path) -> bool:
        try:
            real = path.resolve()
        except (OSError, ValueError, RuntimeError):
            return False  # A loop of links, or an invalid name.
        return any(real.is_relative_to(folder) for folder in self.reach)

    def _inside(self, path: str) -> str | None:
        return None if self.foreign is None else path_below(path, self.foreign)

    def _as_placeholder(self, path: str, place: str) -> str:
        for folder, name in ((self.foreign, place), (self.build, BUILD)):
            rest = None if folder is None else path_below(path, folder)
            if rest is not None:
                return posixpath.normpath(f"{name}/{rest}")
        return path


def _is_folder(path: Path) -> bool:
    """Return True for a folder; False for invalid names."""
    return _exists(path) and path.is_dir()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False  # The folder isn't accessible, so the parser can't read it either.


def _headers(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield from [place] if _is_header(place) else []
        return
    folders = [place]
    while folders:
        try:
            within = sorted(folders.pop().iterdir())
        except OSError:
            continue
        for file in within:
            if file.is_symlink() or file.name.startswith("."):
                continue
            if file.is_dir():
                folders.append(file)
            elif _is_header(file):
                yield file


def _is_header(file: Path) -> bool:
    status = regular_files.status(file.resolve())
    is_small = status is not None and status.st_size <= _MAX_HEADER_BYTES
    return is_small and file.suffix in _HEADERS and not file.name.startswith(".")
