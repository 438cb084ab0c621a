"""Build targets of a repository's CMake files, with their linked targets and compiled sources.

Commands are parsed by the grammar of cmake-language(7). Nothing is evaluated: only literal names are used,
and other names are counted as unresolved. All branches of an if() are read, in the order of the text. Broken
or hostile files never raise an error; unreadable parts are skipped.
"""

import functools
import posixpath
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from curriculum.graph.facts import Range, RepositoryGraph, shared_folders
from curriculum.graph.line_ranges import line_starts


class Argument(NamedTuple):
    """Argument of a command after CMake's unquoting; references such as `${NAME}` are kept as text."""

    text: str
    is_literal: bool
    """True if the text has no variable reference, generator expression or escape, so that the text is the
    value.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """Command invocation; nested parentheses among its arguments are left out."""

    name: str
    """Name in lower case, since CMake ignores case."""
    arguments: tuple[Argument, ...]
    lines: Range
    """Byte range of whole lines, including the end of the last line."""


_NAME = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)[ \t]*\(")
_GAP = re.compile(
    rb"(?:[ \t\r\n]++|#\[(?P<level>=*)\[.*?\](?P=level)\]|#(?!\[=*\[)[^\n]*+)*+", re.DOTALL
)
"""White space and comments; a bracket comment without an end doesn't match."""
_PIECE = rb'\$\([A-Za-z0-9_]*\)|[^\s()#"\\]|\\.'
_ARGUMENT = re.compile(
    rb"(?P<parenthesis>[()])"
    rb"|\[(?P<level>=*)\[\n?(?P<bracket>.*?)\](?P=level)\]"
    rb'|"(?P<quoted>(?:[^"\\]|\\.)*+)"'
    rb"|(?!\[=*\[)(?P<unquoted>(?:" + _PIECE + b")(?:" + _PIECE + rb'|"(?:[^"\\\n]|\\.)*+")*+)',
    re.DOTALL,
)
_CONTINUATION = re.compile(r"\\\n")
_EVALUATED = re.compile(r"[$\\]|@\w+@")


@functools.lru_cache(maxsize=512)
def commands_of(text: str) -> tuple[Command, ...]:
    """Return the commands of a file in the order of the text. Never raises; takes time linear in the text.

    Reading stops at a command whose parenthesis, quote or bracket is not closed. Other text that is no
    command is skipped to the end of its line.
    """
    data = text.encode()
    starts = line_starts(data).tolist()
    found: list[Command] = []
    at = _after_gap(data, 0)
    while at < len(data) and not data.startswith(b"#", at):
        name = _NAME.match(data, at)
        end = at
        if name is not None:
            arguments, end = _arguments_at(data, name.end())
            if end < 0:
                break
            lines = Range(starts[bisect_right(starts, at) - 1], starts[bisect_left(starts, end)])
            found.append(Command(name=name[1].decode().lower(), arguments=arguments, lines=lines))
        else:
            line_end = data.find(b"\n", at)
            end = line_end if line_end >= 0 else len(data)
        at = _after_gap(data, end)
    return tuple(found)


def _after_gap(data: bytes, at: int) -> int:
    gap = _GAP.match(data, at)
    return gap.end() if gap else at


def _arguments_at(data: bytes, at: int) -> tuple[tuple[Argument, ...], int]:
    """Return a command's arguments, and the offset after its closing parenthesis.

    The offset is -1 if the parenthesis isn't closed.
    """
    found: list[Argument] = []
    depth = 1
    while depth:
        match = _ARGUMENT.match(data, _after_gap(data, at))
        if match is None:
            return (), -1
        at = match.end()
        if match["parenthesis"]:
            depth += 1 if match["parenthesis"] == b"(" else -1
        elif match["bracket"] is not None:
            found.append(Argument(match["bracket"].decode(), is_literal=True))
        elif match["quoted"] is not None:
            found.append(_evaluated(_CONTINUATION.sub("", match["quoted"].decode())))
        else:
            found += map(_evaluated, filter(None, match["unquoted"].decode().split(";")))
    return tuple(found), at


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
    """Identity of a build target: its name, and the path of the file that defines it first."""

    path: str
    name: str


class CommandBlock(NamedTuple):
    """Lines of a file with commands about one target, including the comments right above them."""

    path: str
    lines: Range
    """Byte range of the lines. Only blank lines are between the block's commands."""


class TargetLink(NamedTuple):
    """Target that another target links or depends on."""

    target: TargetId
    confidence: float
    """1 if the same file defines the target; else 1 divided by the number of targets in the tree that have
    its name.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildTarget:
    """Library or executable: its commands, linked targets and compiled sources."""

    id: TargetId
    blocks: tuple[CommandBlock, ...]
    """Sorted, and disjoint from the blocks of all other targets."""
    links: tuple[TargetLink, ...]
    """Linked targets of the tree without duplicates, in the order of the commands."""
    sources: tuple[str, ...]
    """Paths of compiled files in the tree without duplicates, in the order of the commands."""
    num_unresolved: int
    """Number of links and sources that can't be resolved: they aren't literal names, or their names aren't in
    the tree.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildGraph:
    """All build targets of one commit's tree, sorted."""

    targets: Mapping[TargetId, BuildTarget]

    def touched(self, path: str, ranges: Sequence[Range]) -> list[TargetId]:
        """Return the sorted targets that have a command in one of the `ranges` of the file `path`."""
        return [
            target.id
            for target in self.targets.values()
            if any(
                block.path == path and span.start < block.lines.end and block.lines.start < span.end
                for block in target.blocks
                for span in ranges
            )
        ]


class _Statement(NamedTuple):
    """Command about a target, with the path of its file."""

    path: str
    command: Command
    target: TargetId


@dataclass(kw_only=True, slots=True)
class _Names:
    """Lookup of targets by their names and aliases."""

    defined: dict[str, list[TargetId]] = field(default_factory=lambda: defaultdict(list))
    aliases: dict[str, str] = field(default_factory=dict)

    def find(self, name: str, path: str) -> TargetLink | None:
        """Return the target that the file `path` calls `name`; None if no target has this name.

        A target that the file itself defines is preferred, then one from the nearest folder.
        """
        found = self.defined.get(self.aliases.get(name, name), ())
        if not found:
            return None
        best = min(
            found,
            key=lambda target: (target.path != path, -shared_folders(target.path, path), target),
        )
        return TargetLink(best, 1.0 if best.path == path else 1.0 / len(found))


def build_graph(graph: RepositoryGraph) -> BuildGraph:
    """Return the build targets of the graph's current tree; costs time for the commands of all CMake files.

    Parsed commands are cached by the file's text. Source paths in a CMake file are relative to the folder of
    a CMakeLists.txt: of the file itself if it is one, else of the closest one above the file.
    """
    files = frozenset(graph.paths())
    sources = (graph.source(path).file for path in sorted(files))
    written = {
        file.path: commands_of(file.blob.text) for file in sources if file.language == "cmake"
    }
    names = _names(written)
    about: dict[TargetId, list[_Statement]] = defaultdict(list)
    for path, commands in written.items():
        for command in commands:
            if target := _subject(command, path, names):
                about[target].append(_Statement(path, command, target))
    statements = [statement for group in about.values() for statement in group]
    statements.sort(key=lambda statement: (statement.path, statement.command.lines))
    blocks: dict[TargetId, list[CommandBlock]] = defaultdict(list)
    for path, group in groupby(statements, lambda statement: statement.path):
        data = graph.source(path).file.blob.text.encode()
        for target, lines in _joined(data, group):
            blocks[target].append(CommandBlock(path, lines))
    targets = {
        target: _target(target, about[target], blocks[target], names, files)
        for target in sorted(about)
    }
    return BuildGraph(targets=targets)


def _names(written: Mapping[str, Sequence[Command]]) -> _Names:
    """Return the targets that the commands define; a definition without a literal name is skipped."""
    names = _Names()
    for path, commands in written.items():
        for command in commands:
            if command.name not in _DEFINING or not command.arguments:
                continue
            name, *rest = command.arguments
            if not name.is_literal:
                continue
            if rest and rest[0].text == "ALIAS":
                names.aliases.update((name.text, original.text) for original in rest[1:2])
            elif TargetId(path, name.text) not in names.defined[name.text]:
                names.defined[name.text].append(TargetId(path, name.text))
    return names


def _subject(command: Command, path: str, names: _Names) -> TargetId | None:
    """Return the target that `command` defines or modifies; the first target if the command names several.

    If the file `path` doesn't define the target, its name must be unique in the tree, else the result is
    None.
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
    blocks: Sequence[CommandBlock],
    names: _Names,
    files: frozenset[str],
) -> BuildTarget:
    links: dict[TargetId, TargetLink] = {}
    sources: dict[str, None] = {}
    num_unresolved = 0
    for statement in statements:
        path, command, _ = statement
        for argument in _arguments(command):
            is_read = argument.is_literal
            link = names.find(argument.text, path) if is_read and command.name in _LINKING else None
            source = (
                _listed(path, argument.text, files)
                if is_read and command.name in _LISTING
                else None
            )
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
    """Yield the arguments that name linked targets or source files."""
    if command.name in _LINKING | _LISTING and "ALIAS" not in {a.text for a in command.arguments}:
        yield from (
            argument for argument in command.arguments[1:] if argument.text not in _KEYWORDS
        )


def _listed(path: str, name: str, files: frozenset[str]) -> str | None:
    """Return the path of the file that a CMake file at `path` lists as `name`; None if it isn't in the tree.

    `name` is relative to the folder of the nearest CMakeLists.txt above.
    """
    folder = above = posixpath.dirname(path)
    while above and posixpath.join(above, "CMakeLists.txt") not in files:
        above = posixpath.dirname(above)
    folder = above if posixpath.join(above, "CMakeLists.txt") in files else folder
    found = posixpath.normpath(posixpath.join(folder, name))
    return found if found in files else None


def _joined(data: bytes, statements: Iterable[_Statement]) -> list[tuple[TargetId, Range]]:
    """Return (target, lines) of one file's commands; adjacent commands about the same target are joined.

    A line that several commands share belongs to the first command's target.
    """
    found: list[tuple[TargetId, Range]] = []
    for statement in statements:
        owner, last = found[-1] if found else (None, Range(0, 0))
        lines = statement.command.lines
        start = _comment_above(data, lines.start, last.end)
        is_next = owner == statement.target and not data[last.end : start].strip()
        if owner is not None and (is_next or lines.start < last.end):
            found[-1] = (owner, Range(last.start, max(last.end, lines.end)))
        else:
            found.append((statement.target, Range(start, lines.end)))
    return found


def _comment_above(data: bytes, start: int, floor: int) -> int:
    """Return the start of the comment lines directly above `start`; lines before `floor` are not searched."""
    while start > floor:
        above = data.rfind(b"\n", floor, start - 1) + 1 or floor
        if not data[above:start].lstrip().startswith(b"#"):
            break
        start = above
    return start
