"""The commands of a CMake file, by the grammar of cmake-language(7); nothing is evaluated.

Neither a hostile file nor a broken one raises: what can't be read is left out, and told.
"""

import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from curriculum.graph.facts import Range
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
