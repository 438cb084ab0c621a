"""compile_commands.json as units that libclang can parse in another place than where they were compiled.

A unit's arguments name three places instead of paths, so that equal builds are equal wherever they are:
@ROOT@ is the tree, @ORIGINAL@ the work tree that was built, @BUILD@ the folder it was built in.

A database may come with its repository: of @ORIGINAL@ and @BUILD@ it reaches what lies in the work tree or
beside the database, links followed, and of that headers alone.
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
    return min(votes, key=lambda folder: (-votes[folder], len(folder), folder), default=None)


def build_folder(directories: Iterable[str], foreign: str | None) -> str | None:
    """Return the folder around all build folders outside of the root; None if it would be all or nothing."""
    outside = {
        directory
        for directory in directories
        if foreign is None or below(directory, foreign) is None
    }
    shared = posixpath.commonpath(outside) if outside else "/"
    return shared if shared.count("/") > 1 else None


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """The folders that files lie in, without the root."""
    folders = {PurePosixPath(path).parent for path in paths}
    return frozenset(str(each) for folder in folders for each in (folder, *folder.parents)) - {"."}


ROOT, ORIGINAL, BUILD = "@ROOT@", "@ORIGINAL@", "@BUILD@"
_PLACEHOLDER = "/@ROOT@"
"""Databases may name their own root so; as a path it is absolute and nowhere."""
_DEEPEST_RESPONSE = 8
_MAX_RESPONSE, _MAX_RESPONSES = 1 << 20, 64
"""Bytes of a response file, and files of a unit: one that names itself twice doubles at each level."""
_MAX_HEADER_BYTES = 64 << 20
MAX_GENERATED_BYTES, MAX_GENERATED = 2 << 30, 100_000
"""Bytes and number of the headers beside a tree: links and holes make gigabytes of a few kilobytes."""
_HEADERS = frozenset((".h", ".hh", ".hpp", ".hxx", ".h++", ".inc", ".inl", ".ipp", ".def", ".tcc"))

_COMPILER = re.compile(
    r"(?:^|-)(?:gcc|cc|clang|icc|icx|emcc|mpicc|c99|(?P<cpp>g\+\+|c\+\+|clang\+\+|icpc|icpx|em\+\+|mpicxx|mpic\+\+))"
    r"(?:-[\d.]+)?(?:\.exe)?$"
)
_LAUNCHERS = frozenset(("ccache", "sccache", "distcc", "icecc", "gomacc", "buildcache"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """One file of the tree and how an entry of a database parses it."""

    path: str
    language: Literal["c", "c++"]
    standard: str | None
    """`c++17` of `-std=c++17`."""
    arguments: tuple[str, ...]
    """Without the language, the standard and the file; paths by place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitFile:
    """A file of the tree, and where its places lie on this machine."""

    units: tuple[Unit, ...]
    """Units of the file, in the order of their entries: the one with the fewest errors counts.

    Where a worker that tries them is lost, each is tried by itself.
    """
    root: Path
    places: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Database:
    """The units of a tree, and what became of all entries."""

    units: tuple[Unit, ...]
    """Sorted by path, those of one file in the order of their entries; equal ones are one."""
    count: DatabaseReport
    places: Mapping[str, str]
    """Paths of @ORIGINAL@ and @BUILD@ on this machine, if they are there."""
    reach: tuple[Path, ...]
    """Folders without links, outside of which nothing is read for the places."""

    def files(self) -> Iterator[tuple[Unit, ...]]:
        """Yield the units of each file."""
        for _, units in groupby(self.units, attrgetter("path")):
            yield tuple(units)

    def fingerprint(self, paths: Collection[str]) -> str:
        """64 hex digits of all that decides an index beside the tree: units and generated headers.

        Folders of the work tree and the build count by what they add, not by being there. `paths` are the
        tree's files. Costs a walk through the include folders outside of the tree.

        Raises:
            CorpusError: for more headers there than MAX_GENERATED or MAX_GENERATED_BYTES.
        """
        told = [
            [unit.path, unit.language, unit.standard, *_own_arguments(unit)] for unit in self.units
        ]
        files = {
            name: hashlib.file_digest(file, "sha256").hexdigest()
            for name, file in self._generated(frozenset(paths))
        }
        text = json.dumps([told, sorted(files.items())])
        return hashlib.sha256(text.encode()).hexdigest()

    def copy_headers(self, paths: Collection[str], folder: Path) -> dict[str, str]:
        """Copy the headers that units can reach outside of the tree; the places of the copies.

        Args:
            paths: the tree's files.
            folder: exists, and is empty.
        """
        for name, file in self._generated(frozenset(paths)):
            copy = folder / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("wb") as written:
                written.write(file.read(_MAX_HEADER_BYTES))
        return {place: str(folder / place) for place in self.places}

    def _generated(self, paths: frozenset[str]) -> Iterator[tuple[str, BufferedReader]]:
        """Open the headers that units can reach in the work tree or the build, and the tree doesn't have.

        One that leads out of both by now, over a link that somebody put on the way, is left out.
        """
        words = {word for unit in self.units for word in unit.arguments}
        number = size = 0
        for word in sorted(words):
            place = word.partition("/")[0]
            if place not in self.places:
                continue
            at, known = Path(self.places[place]), paths if place == ORIGINAL else frozenset()
            for file in _headers(Path(located(word, self.places))):
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
            cause=f"more than {MAX_GENERATED:,} files or {MAX_GENERATED_BYTES:,} bytes can be included from "
            "outside of the tree",
            cure="Take the folder out of the compile database, or clear it",
        )


def _own_arguments(unit: Unit) -> Iterator[str]:
    """A unit's arguments without the folders that aren't the tree's."""
    words = iter(unit.arguments)
    for word in words:
        value = next(words) if is_pair(word) else ""
        if value.partition("/")[0] not in (ORIGINAL, BUILD):
            yield from (word, value)


def located(word: str, places: Mapping[str, str]) -> str:
    """An argument with its place as a path of this machine: `@ROOT@/include` is `/tmp/tree/include`."""
    place, slash, rest = word.partition("/")
    return places[place] + slash + rest if place in places else word


def read_database(file: Path, paths: Collection[str], *, original: Path | None) -> Database:
    """The units of a tree that a compilation database describes.

    Args:
        file: compile_commands.json, by a path without links.
        paths: the tree's files.
        original: the work tree that was built; without it the database's own paths tell where it was: the
            folder under which most of its files have the names that they have in the tree.

    Raises:
        CorpusError: if the file can't be read, isn't JSON, or isn't a list of commands.
    """
    entries = [_entry(file, at, value) for at, value in enumerate(_values(file))]
    reader = _Reader.of(file, entries, frozenset(paths), original)
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
    """None where the command's quotes don't match."""


def _values(file: Path) -> list[Any]:
    try:
        value = parse_json(regular_files.read_inside(file, (file.parent,)))
    except OSError as error:
        raise CorpusError(
            str(file), cause=f"it can't be read: {error.strerror}", cure="Give another path"
        ) from error
    except ValueError as error:
        raise CorpusError(
            str(file),
            cause=f"it isn't JSON that is read: {error}",
            cure="Generate the database anew",
        ) from error
    if not isinstance(value, list):
        raise CorpusError(
            str(file),
            type(value).__name__,
            cause="a compilation database is a list",
            cure="Generate it anew, as with cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        )
    return value


def _entry(file: Path, at: int, value: object) -> _Entry:
    if not isinstance(value, dict) or not isinstance(value.get("file"), str):
        raise _broken(file, at, "an entry has a file, as text")
    directory, arguments, command = (
        value.get(name) for name in ("directory", "arguments", "command")
    )
    if not isinstance(directory, str):
        raise _broken(file, at, "an entry has a directory, as text")
    base = _rooted(posixpath.join(file.absolute().parent.as_posix(), _rooted(directory)))
    source = posixpath.normpath(posixpath.join(base, _rooted(value["file"])))
    if isinstance(arguments, list) and all(isinstance(each, str) for each in arguments):
        words: tuple[str, ...] | None = tuple(_rooted(argument) for argument in arguments)
    elif isinstance(command, str):
        words = _split(_rooted(command))
    else:
        raise _broken(file, at, "an entry has arguments, a list of texts, or a command, a text")
    return _Entry(directory=posixpath.normpath(base), file=source, arguments=words)


def _broken(file: Path, at: int, cause: str) -> CorpusError:
    return CorpusError(f"{file}: entry {at}", cause=cause, cure="Generate the database anew")


def _rooted(text: str) -> str:
    return text.replace(ROOT, _PLACEHOLDER)


def _split(command: str) -> tuple[str, ...] | None:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reader:
    """Turns entries into units of one tree."""

    paths: frozenset[str]
    folders: frozenset[str]
    foreign: str | None
    """The root as the database names it."""
    build: str | None
    """The folder of the build where it lies outside of the root."""
    places: dict[str, str]
    reach: tuple[Path, ...]
    """Folders without links, outside of which nothing is read for @ORIGINAL@ and @BUILD@."""
    tally: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
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
        """The unit of an entry; None, and counted, where it has none."""
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
        expanded = self._expand(words[1:], entry.directory, _DEEPEST_RESPONSE, left)
        flags = read_flags(list(expanded), path, is_cpp=compiler["cpp"] is not None)
        return None if flags.language is None else flags

    def _expand(
        self, words: Sequence[str], directory: str, depth: int, left: Iterator[int]
    ) -> Iterator[str]:
        """The words with those of response files (`@file`) in their place."""
        for word in words:
            if not word.startswith("@") or len(word) == 1:
                yield word
                continue
            is_read = depth and next(left, None) is not None
            text = self._response(posixpath.join(directory, word[1:])) if is_read else None
            inner = None if text is None else _split(_rooted(text))
            if inner is None:
                self.tally["missing_response_files"] += 1
            else:
                yield from self._expand(inner, directory, depth - 1, left)

    def _response(self, path: str) -> str | None:
        file = Path(located(self._neutral(posixpath.normpath(path), ORIGINAL), self.places))
        try:
            return regular_files.read_inside(file, self.reach, most=_MAX_RESPONSE).decode()
        except (OSError, ValueError):
            return None

    def _placed(self, flag: str, value: str, entry: _Entry) -> Iterator[str]:
        """A flag with its path in the tree, and as it was where that is something on this machine."""
        path = posixpath.normpath(posixpath.join(entry.directory, value))
        inside = self._inside(path)
        is_file = flag in ("-include", "-imacros")
        known = self.paths if is_file else self.folders
        found = inside is not None and (inside in known or (inside == "." and not is_file))
        if found:
            yield from (flag, posixpath.normpath(f"{ROOT}/{inside}"))
        was = self._neutral(path, ORIGINAL)
        place = Path(located(was, self.places))
        # A file in a folder's place would be read as a header map.
        is_there = _exists(place) if is_file else _is_folder(place)
        is_there = is_there and (was == path or self._reaches(place))
        if is_there and not (found and is_file):
            yield from (flag, was)
        elif is_file and not found:
            # The compiler looks for it along its include folders.
            yield from (flag, value)

    def _reaches(self, path: Path) -> bool:
        try:
            real = path.resolve()
        except (OSError, ValueError, RuntimeError):
            return False  # A loop of links, or a name that no file can have.
        return any(real.is_relative_to(folder) for folder in self.reach)

    def _inside(self, path: str) -> str | None:
        return None if self.foreign is None else below(path, self.foreign)

    def _neutral(self, path: str, place: str) -> str:
        for folder, name in ((self.foreign, place), (self.build, BUILD)):
            rest = None if folder is None else below(path, folder)
            if rest is not None:
                return posixpath.normpath(f"{name}/{rest}")
        return path


def _is_folder(path: Path) -> bool:
    """Return True for a file; names that no file can have give False."""
    return _exists(path) and path.is_dir()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False  # In a folder that we may not look into: the parser may not, either.


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
