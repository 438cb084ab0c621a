"""Comment headers of documents: facts about a change in comments that no text from outside can end."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Literal

from schemas.change import CommitChange, FileChange
from schemas.corpus import Language

Mark = Literal["//", "#"]

_UNPRINTABLE = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_SPLICES = ("\\", "??/")


def line_mark(language: Language) -> Mark:
    """Return the mark of a comment that ends with its line."""
    return "//" if language in ("cpp", "c") else "#"


def one_line(text: str) -> str:
    r"""Text from outside as one line that neither opens nor closes a comment.

    >>> one_line("end it */ int x;\n#define Y")
    'end it * / int x; #define Y'
    """
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line.replace("*/", "* /").replace("/*", "/ *")


def unspliced(line: str, mark: Mark) -> str:
    r"""A comment's line without its end that cannot continue on the next line.

    A backslash, its trigraph, or either before blanks would glue the next line to the comment; the
    mark is set behind.

    >>> unspliced("// - #define SUM \\", "//")
    '// - #define SUM \\ //'
    """
    return f"{line} {mark}" if line.rstrip(" \t\f\v\0").endswith(_SPLICES) else line


Style = Literal["simple", "doxygen"]
Side = Literal["before", "after", "change"]
Fact = tuple[str, str]

LONGEST_SUBJECT = 200
"""Characters; the rest of a subject is left out and an ellipsis stands for it."""
COMMIT_DIGITS = 12
_LAST_SECOND = 253_402_300_799
"""The end of the year 9999."""
_COMMAND = re.compile(r"\\|(?<!\w)@")
_TAGS = {"File": "@file", "Subject": "@brief", "Date": "@date", "Commit": "@version"}


def header(change: FileChange, *, side: Side, style: Style) -> str:
    """A comment with what is known of the change and a blank line; a fact that isn't known is left out.

    It holds whatever a path or a subject contains: no text from outside ends the comment, begins
    another one, or reads as a Doxygen command.
    """
    facts = [(name, one_line(value)) for name, value in _facts(change, side)]
    known = [(name, value) for name, value in facts if value]
    lines = _plain(known, change) if style == "simple" else _doxygen(known, change)
    return "\n".join(lines) + "\n\n"


def commit_header(commit: CommitChange, language: Language) -> str:
    """Plain comment lines with what is known of a whole commit; its subject is left to the caller."""
    mark = line_mark(language)
    lines = (f"{mark} {name}: {one_line(value)}" for name, value in _place(commit))
    return "".join(f"{unspliced(line, mark)}\n" for line in lines)


def subject_of(commit: CommitChange) -> str:
    """The subject of a commit as one line that is not too long; it may be empty."""
    return _shortened(one_line(commit.subject))


def _facts(change: FileChange, side: Side) -> Iterator[Fact]:
    was = "before " if side == "before" else ""
    yield "File", change.old_path if side == "before" else change.path
    subject = _shortened(one_line(change.subject))
    if subject:
        yield "Subject", f"Before: {subject}" if was else subject
    if side != "before" and change.old_path != change.path:
        yield "Renamed from", change.old_path
    yield from _place(change, was)


def _place(change: FileChange | CommitChange, was: str = "") -> Iterator[Fact]:
    """Yield the facts of a change's place and time."""
    yield "Repository", change.repository
    if change.commit:
        yield "Commit", was + change.commit[:COMMIT_DIGITS]
    if 0 < change.timestamp <= _LAST_SECOND:
        yield "Date", datetime.fromtimestamp(change.timestamp, UTC).date().isoformat()


def _shortened(subject: str) -> str:
    if len(subject) <= LONGEST_SUBJECT:
        return subject
    return subject[: LONGEST_SUBJECT - 1].rstrip() + "…"


def _plain(facts: list[Fact], change: FileChange) -> Iterator[str]:
    mark = line_mark(change.language)
    for name, value in facts:
        yield unspliced(f"{mark} {name}: {value}", mark)


def _doxygen(facts: list[Fact], change: FileChange) -> Iterator[str]:
    mark = line_mark(change.language)
    opening, margin = ("/**", " *") if mark == "//" else ("##", "#")
    yield opening
    for name, value in facts:
        tag = _TAGS.get(name, f"@remark {name}:")
        yield unspliced(f"{margin} {tag} {_COMMAND.sub(_escaped, value)}", mark)
    if mark == "//":
        yield " */"


def _escaped(command: re.Match[str]) -> str:
    """Doxygen's own escape: the character twice."""
    return command.group() * 2
