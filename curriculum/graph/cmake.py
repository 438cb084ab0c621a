"""The build targets of a repository's CMake files, what they link and what they compile.

Commands are read by the grammar of cmake-language(7), and nothing is evaluated: only literal names count,
and the others are counted. The branches of an if() are taken side by side, as they are in the text.
Neither a hostile file nor a broken one raises: what can't be read is left out and counted.
"""

import functools
import posixpath
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from typing import NamedTuple

from curriculum.graph.facts import Range, RepositoryGraph
from curriculum.graph.line_ranges import line_starts


class Argument(NamedTuple):
    """An argument as the command receives it, but for variables, which stay as they are written."""

    text: str
    is_literal: bool
    """Without variable references, generator expressions and escapes: the text is the value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command invocation; parentheses among its arguments are left out."""

    name: str
    """Name in lower case, as CMake ignores case."""
    arguments: tuple[Argument, ...]
    lines: Range
    """The bytes of its lines: from the start of the first to the end of the last, line end included."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Commands:
    """Commands of a file, in the order of the text."""

    commands: tuple[Command, ...]
    is_complete: bool
    """True if all text was commands, comments and blanks, as CMake demands."""


_BLANKS = re.compile(rb"[ \t\r\n]+")
_NAME = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)[ \t]*\(")
_OPENING = re.compile(rb"\[(=*)\[")
_LINE_END = re.compile(rb"[^\n]*")
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_PIECE = rb'\$\([A-Za-z0-9_]*\)|[^\s()#"\\]|\\.'
_UNQUOTED = re.compile(b"(?:" + _PIECE + b")(?:" + _PIECE + rb'|"(?:[^"\\\n]|\\.)*+")*+', re.DOTALL)
_CONTINUATION = re.compile(r"\\\n")
_EVALUATED = re.compile(r"[$\\]|@\w+@")


@functools.lru_cache(maxsize=512)
def commands_of(text: str) -> Commands:
    """The commands of a file; never fails, and costs time linear in the text.

    Without a closing parenthesis, quote or bracket the file says nothing more from there on; other
    text that is no command is passed over to the end of its line.
    """
    scanner = _Scanner(text.encode())
    return Commands(commands=tuple(scanner.commands()), is_complete=scanner.is_complete)


class _Scanner:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.starts: list[int] = line_starts(data).tolist()
        self.at = 0
        self.is_complete = True

    def commands(self) -> Iterator[Command]:
        while self._next_element():
            start = self.at
            name = _NAME.match(self.data, start)
            if name is None:
                self.is_complete = False
                self._pass(_LINE_END)
                continue
            self.at = name.end()
            arguments = self._arguments()
            if arguments is None:
                self.is_complete = False
                return
            yield Command(
                name=name[1].decode().lower(),
                arguments=tuple(arguments),
                lines=self._lines(start, self.at),
            )

    def _next_element(self) -> bool:
        """Step over blanks and comments; whether something follows."""
        while self.at < len(self.data):
            if self._pass(_BLANKS):
                continue
            if self.data[self.at] != ord("#"):
                return True
            if not self._comment():
                self.is_complete = False
                return False
        return False

    def _arguments(self) -> list[Argument] | None:
        """The arguments up to the closing parenthesis; None without one."""
        found: list[Argument] = []
        depth = 1
        while depth:
            if not self._next_element():
                return None
            if self.data[self.at] in b"()":
                depth += 1 if self.data[self.at] == ord("(") else -1
                self.at += 1
            elif not self._argument(found):
                return None
        return found

    def _argument(self, found: list[Argument]) -> bool:
        """Add the argument, or the arguments, that stand here; False if its end is missing."""
        if _OPENING.match(self.data, self.at):
            bracket = self._bracket()
            if bracket is None:
                return False
            found.append(Argument(bracket, is_literal=True))
        elif (quoted := self._pass(_QUOTED)) is not None:
            found.append(_evaluated(_CONTINUATION.sub("", quoted[1].decode())))
        elif (unquoted := self._pass(_UNQUOTED)) is not None:
            found.extend(map(_evaluated, filter(None, unquoted[0].decode().split(";"))))
        else:
            return False
        return True

    def _comment(self) -> bool:
        """Step over a comment; False if a bracket comment has no end."""
        self.at += 1
        if _OPENING.match(self.data, self.at):
            return self._bracket() is not None
        self._pass(_LINE_END)
        return True

    def _bracket(self) -> str | None:
        """The content of the bracket argument that begins here; None if it has no end."""
        opening = _OPENING.match(self.data, self.at)
        assert opening is not None
        closing = b"]" + opening[1] + b"]"
        end = self.data.find(closing, opening.end())
        if end < 0:
            return None
        self.at = end + len(closing)
        return self.data[opening.end() : end].decode().removeprefix("\n")

    def _pass(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Step over what matches here."""
        found = pattern.match(self.data, self.at)
        if found:
            self.at = found.end()
        return found

    def _lines(self, start: int, end: int) -> Range:
        first = bisect_right(self.starts, start) - 1
        last = bisect_left(self.starts, end)
        return Range(self.starts[first], self.starts[last])


def _evaluated(text: str) -> Argument:
    return Argument(text, is_literal=not _EVALUATED.search(text))


_DEFINING = frozenset(("add_library", "add_executable"))
_LINKING = frozenset(("target_link_libraries", "add_dependencies"))
_LISTING = frozenset(("add_library", "add_executable", "target_sources"))
_ABOUT = _LINKING | {"set_target_properties"}
_WORDS = """
STATIC SHARED MODULE OBJECT UNKNOWN INTERFACE PUBLIC PRIVATE IMPORTED GLOBAL ALIAS WIN32 EXCLUDE_FROM_ALL
MACOSX_BUNDLE FILE_SET TYPE BASE_DIRS FILES HEADERS CXX_MODULES LINK_PUBLIC LINK_PRIVATE
LINK_INTERFACE_LIBRARIES debug optimized general
"""
_KEYWORDS = frozenset(_WORDS.split())


class TargetId(NamedTuple):
    """A build target: the file that defines it first, and its name."""

    path: str
    name: str


class Block(NamedTuple):
    """Lines of a file with commands about one target, and the comments right above them."""

    path: str
    lines: Range
    """Byte range; nothing but blank lines is between its commands."""


class Link(NamedTuple):
    """A target that another one links or depends on."""

    target: TargetId
    confidence: float
    """1 / the number of targets in the tree that have the name; 1 where the same file defines it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildTarget:
    """A library or an executable: its commands, what it links and what it compiles."""

    id: TargetId
    blocks: tuple[Block, ...]
    """Sorted, and disjoint from those of all other targets."""
    links: tuple[Link, ...]
    """Each target of the tree once, in the order of the commands."""
    sources: tuple[str, ...]
    """Files of the tree, each once, in the order of the commands."""
    num_unresolved: int
    """Links and sources that are no literal name, or name nothing in the tree."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildGraph:
    """All targets of one commit's tree, sorted."""

    targets: Mapping[TargetId, BuildTarget]
    num_unnamed: int
    """Definitions whose name is no literal."""

    def touched(self, path: str, ranges: Sequence[Range]) -> list[TargetId]:
        """The targets of whose commands in that file one of the ranges has a byte, sorted."""
        return [
            target.id
            for target in self.targets.values()
            if any(block.path == path and _meets(block.lines, ranges) for block in target.blocks)
        ]


@dataclass(frozen=True, slots=True)
class _Statement:
    """A command about a target, where it stands."""

    path: str
    command: Command
    target: TargetId


@dataclass(kw_only=True, slots=True)
class _Names:
    """Targets by name."""

    defined: dict[str, list[TargetId]] = field(default_factory=lambda: defaultdict(list))
    aliases: dict[str, str] = field(default_factory=dict)

    def find(self, name: str, path: str) -> Link | None:
        """The target that a name means in a file: its own, else the one in the nearest folder."""
        found = self.defined.get(self.aliases.get(name, name), ())
        if not found:
            return None
        best = min(found, key=lambda each: (each.path != path, -_shared(each.path, path), each))
        return Link(best, 1.0 if best.path == path else 1.0 / len(found))


def build_graph(graph: RepositoryGraph) -> BuildGraph:
    """The targets of the tree that the graph holds now; costs a look at each CMake file's commands.

    A file's commands are cached by its text. Sources are found from the folder of the CMakeLists.txt
    that a file is, or that stands nearest above it.
    """
    files = frozenset(graph.paths())
    written = {path: _commands(graph, path) for path in sorted(files) if _is_cmake(graph, path)}
    names, num_unnamed = _names(written)
    about: dict[TargetId, list[_Statement]] = defaultdict(list)
    for path, commands in written.items():
        for command in commands:
            if target := _subject(command, path, names):
                about[target].append(_Statement(path, command, target))
    blocks = _blocks(graph, [each for statements in about.values() for each in statements])
    targets = {
        target: _target(target, about[target], blocks[target], names, files)
        for target in sorted(about)
    }
    return BuildGraph(targets=targets, num_unnamed=num_unnamed)


def _is_cmake(graph: RepositoryGraph, path: str) -> bool:
    return graph.source(path).file.language == "cmake"


def _commands(graph: RepositoryGraph, path: str) -> tuple[Command, ...]:
    return commands_of(graph.source(path).file.blob.text).commands


def _names(written: Mapping[str, Sequence[Command]]) -> tuple[_Names, int]:
    """The names that the commands define, and how many definitions have none that can be read."""
    names = _Names()
    num_unnamed = 0
    for path, commands in written.items():
        for command in commands:
            if command.name not in _DEFINING or not command.arguments:
                continue
            name, *rest = command.arguments
            if not name.is_literal:
                num_unnamed += 1
            elif rest and rest[0].text == "ALIAS":
                names.aliases.update((name.text, each.text) for each in rest[1:2])
            elif TargetId(path, name.text) not in names.defined[name.text]:
                names.defined[name.text].append(TargetId(path, name.text))
    return names, num_unnamed


def _subject(command: Command, path: str, names: _Names) -> TargetId | None:
    """The target that a command defines or is about; the first, where it names several.

    In another file than the target's, only a name that no two targets have tells which is meant.
    """
    known = command.name in _DEFINING or command.name in _ABOUT
    if not command.arguments or not (known or command.name.startswith("target_")):
        return None
    first = command.arguments[0]
    link = names.find(first.text, path) if first.is_literal else None
    return link.target if link and link.confidence == 1 else None


def _target(
    target: TargetId,
    statements: Sequence[_Statement],
    blocks: Sequence[Block],
    names: _Names,
    files: frozenset[str],
) -> BuildTarget:
    links: dict[TargetId, Link] = {}
    sources: dict[str, None] = {}
    num_unresolved = 0
    for statement in statements:
        for argument in _arguments(statement.command):
            link = _linked(statement, argument, names)
            source = _listed(statement, argument, files)
            if link and link.target != target:
                links.setdefault(link.target, link)
            if source:
                sources[source] = None
            num_unresolved += not link and not source
    return BuildTarget(
        id=target,
        blocks=tuple(blocks),
        links=tuple(links.values()),
        sources=tuple(sources),
        num_unresolved=num_unresolved,
    )


def _arguments(command: Command) -> Iterator[Argument]:
    """Yield the arguments that a command links or lists."""
    if command.name in _LINKING | _LISTING and "ALIAS" not in {a.text for a in command.arguments}:
        yield from (each for each in command.arguments[1:] if each.text not in _KEYWORDS)


def _linked(statement: _Statement, argument: Argument, names: _Names) -> Link | None:
    if statement.command.name not in _LINKING or not argument.is_literal:
        return None
    return names.find(argument.text, statement.path)


def _listed(statement: _Statement, argument: Argument, files: frozenset[str]) -> str | None:
    if statement.command.name not in _LISTING or not argument.is_literal:
        return None
    folder = _folder(statement.path, files)
    path = posixpath.normpath(posixpath.join(folder, argument.text))
    return path if path in files else None


def _folder(path: str, files: frozenset[str]) -> str:
    """The folder from which a CMake file names others."""
    folder = posixpath.dirname(path)
    above = folder
    while above and posixpath.join(above, "CMakeLists.txt") not in files:
        above = posixpath.dirname(above)
    return above if posixpath.join(above, "CMakeLists.txt") in files else folder


def _blocks(
    graph: RepositoryGraph, statements: Sequence[_Statement]
) -> Mapping[TargetId, list[Block]]:
    found: dict[TargetId, list[Block]] = defaultdict(list)
    ordered = sorted(statements, key=lambda each: (each.path, each.command.lines))
    for path, group in groupby(ordered, lambda each: each.path):
        data = graph.source(path).file.blob.text.encode()
        for target, lines in _joined(data, group):
            found[target].append(Block(path, lines))
    return found


def _joined(data: bytes, statements: Iterable[_Statement]) -> list[tuple[TargetId, Range]]:
    """The lines of one file's commands; where two share a line, both belong to the first one's target."""
    found: list[tuple[TargetId, Range]] = []
    for each in statements:
        owner, last = found[-1] if found else (None, Range(0, 0))
        lines = each.command.lines
        start = _comment_above(data, lines.start, last.end)
        is_next = owner == each.target and not data[last.end : start].strip()
        if owner is not None and (is_next or lines.start < last.end):
            found[-1] = (owner, Range(last.start, max(last.end, lines.end)))
        else:
            found.append((each.target, Range(start, lines.end)))
    return found


def _comment_above(data: bytes, start: int, floor: int) -> int:
    """Return the start of the comment lines right above."""
    while start > floor:
        above = data.rfind(b"\n", floor, start - 1) + 1 or floor
        if not data[above:start].lstrip().startswith(b"#"):
            break
        start = above
    return start


def _meets(lines: Range, ranges: Sequence[Range]) -> bool:
    return any(each.start < lines.end and lines.start < each.end for each in ranges)


def _shared(path: str, other: str) -> int:
    """The number of folders that two paths have in common from the root on."""
    pairs = zip(path.split("/")[:-1], other.split("/")[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
