"""Building of documents: text is appended from top to bottom, and offsets are computed.

Headers are comments with facts about a change. Text from outside, such as a commit's subject, can't end these
comments. `ChangeText` holds the hunks of a change of a file: removed lines as comments, added lines as code.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from operator import itemgetter
from typing import Literal

from curriculum.corpus.licences import licence_of
from curriculum.graph.outline import Outline
from schemas.change import Blob, CommitChange, FileChange, Hunk, TreeFile
from schemas.corpus import Language
from schemas.document import (
    SPAN_KINDS,
    Chunk,
    Document,
    Edge,
    LeftOut,
    Part,
    PartKind,
    Provenance,
    Span,
    SpanKind,
)
from schemas.spdx import joined

GENERATED = -1
Range = tuple[int, int]
"""Bytes `[start, end)`."""


@dataclass(kw_only=True, slots=True)
class DocumentBuilder:
    """Parts, spans and provenance of one document; `size` is the number of bytes added so far."""

    size: int = 0
    texts: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    provenance: list[Provenance] = field(default_factory=list)

    def head(self, header: "Header") -> None:
        """Add the header."""
        start = self.size
        self.add("header", header.text)
        self.mark("unscored", header.unscored, offset=start)

    def add(
        self, kind: PartKind, text: str, *, source: int = GENERATED, rank: int | None = None
    ) -> None:
        """Add `text`, which ends with a line end, as one part.

        A part with a rank may be left out when a document is cropped; a part without a rank is never left
        out.
        """
        self.texts.append(text)
        start, self.size = self.size, self.size + len(text.encode())
        self._part(kind, start, self.size, source, rank)

    def _part(self, kind: PartKind, start: int, end: int, source: int, rank: int | None) -> None:
        self.parts.append(
            Part(
                kind=kind,
                start=start,
                end=end,
                rank=rank or 0,
                elidable=rank is not None,
                source=source,
            )
        )

    def file(self, blob: Blob, outline: Outline, source: int, ranks: Sequence[int | None]) -> None:
        """Add a whole file, one part per item of its outline; an item without a rank is never left out.

        The parts cover the range of their source in order, without gaps, which determines each part's bytes
        in the blob.
        """
        offset = self.size
        self.texts.append(blob.text)
        for item, rank in zip(outline.items, ranks, strict=True):
            self._part("code", offset + item.start, offset + item.end, source, rank)
        for kind, ranges in outline.marks():
            self.mark(kind, ranges, offset=offset)
        self.size += int(outline.starts[-1])

    def excerpt(
        self, data: bytes, outline: Outline, lines: Range, source: int, rank: int | None
    ) -> None:
        """Add the bytes `lines` of a file as one part, with the spans of the outline that lie inside them.

        A declaration gets no span if its documentation isn't among the lines, since it would be paired with
        another declaration's documentation.
        """
        start, end = lines
        comments = outline.documentation[bisect_left(outline.documentation, (start, start)) :]
        documented = comments[0].start if comments else end
        for kind, ranges in outline.marks():
            begin = documented if kind == "declaration" else start
            first, last = (bisect_left(ranges, place, key=itemgetter(0)) for place in (begin, end))
            self.mark(
                kind,
                (marked for marked in ranges[first:last] if marked[1] <= end),
                offset=self.size - start,
            )
        self.add("code", data[start:end].decode(), source=source, rank=rank)

    def mark(self, kind: SpanKind, ranges: Iterable[Range], *, offset: int = 0) -> None:
        """Add spans of one kind; the sorted, disjoint `ranges` are relative to `offset`."""
        self.spans.extend(
            Span(kind=kind, start=start + offset, end=end + offset) for start, end in ranges
        )

    def cite(
        self,
        change: FileChange | CommitChange,
        path: str,
        blob: Blob,
        span: Range,
        *,
        lineage: str,
    ) -> int:
        """Add the bytes `span` of a blob as a source of the document; return the index of the source."""
        files = change.licence_files
        if isinstance(change, FileChange) and blob is change.before:
            files = change.old_licence_files
        licence = licence_of(blob.text, path, files, change.licence)
        self.provenance.append(
            Provenance(
                repository=change.repository,
                commit=change.commit,
                path=path,
                blob=blob.blob_id,
                start=span[0],
                end=span[1],
                lineage=lineage,
                licence=licence.name,
                licence_evidence=licence.evidence,
                holder=licence.holder,
            )
        )
        return len(self.provenance) - 1

    def document(
        self,
        family: str,
        change: FileChange | CommitChange,
        *,
        file: FileChange | TreeFile,
        chunks: tuple[Chunk, ...] = (),
        edges: tuple[Edge, ...] = (),
        left_out: tuple[LeftOut, ...] = (),
    ) -> Document:
        """Return the document of all parts added so far. Its language and lineage are those of `file`."""
        spans = sorted(self.spans, key=lambda span: (SPAN_KINDS.index(span.kind), span.start))
        return Document(
            text="".join(self.texts),
            family=family,
            language=file.language,
            licence=joined([source.licence for source in self.provenance if source.licence]),
            timestamp=change.timestamp,
            parts=tuple(self.parts),
            spans=tuple(spans),
            provenance=tuple(self.provenance),
            lineage=file.lineage,
            chunks=chunks,
            edges=edges,
            left_out=left_out,
        )


Mark = Literal["//", "#"]

_UNPRINTABLE = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_SPLICES = ("\\", "??/")


def line_mark(language: Language) -> Mark:
    """Return the characters that begin a line comment in a language."""
    return "//" if language in ("cpp", "c") else "#"


def one_line(text: str) -> str:
    r"""Return untrusted text as one line that neither opens nor closes a comment.

    >>> one_line("end it */ int x;\n#define Y")
    'end it * / int x; #define Y'
    """
    line = _UNPRINTABLE.sub(" ", text).strip()
    return line.replace("*/", "* /").replace("/*", "/ *")


def without_line_splice(line: str, mark: Mark) -> str:
    r"""Return `line`, a comment line, changed so that it can't continue on the next line.

    A backslash or its trigraph at the end of a line, even before white space, would make the next line a part
    of the comment; therefore, the comment mark is appended. Neither `line` nor the result includes a line
    end.

    >>> without_line_splice("// - #define SUM \\", "//")
    '// - #define SUM \\ //'
    """
    return f"{line} {mark}" if line.rstrip(" \t\f\v\0").endswith(_SPLICES) else line


Style = Literal["simple", "doxygen"]
Side = Literal["before", "after", "change"]
Fact = tuple[str, str]

MAX_SUBJECT_LENGTH = 200
"""Maximum number of characters of a subject; a longer subject is cut and ends with an ellipsis."""
COMMIT_DIGITS = 12
_LAST_SECOND = 253_402_300_799
"""End of the year 9999, in seconds since 1970."""
_COMMAND = re.compile(r"\\|(?<!\w)@")
_SUBJECT = "Subject"
_TAGS = {"File": "@file", "Date": "@date", "Commit": "@version"}
"""Doxygen commands for facts. A subject isn't a @brief, because it describes a commit and not the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """Generated comment at the top of a document, in which only the line with the subject is scored."""

    text: str
    unscored: tuple[Range, ...]

    @staticmethod
    def from_lines(lines: Sequence[str], *, blank: bool, scored: int | None = None) -> "Header":
        """Return a header of these lines; with `blank`, a blank line follows.

        `scored` is the index of the line with the subject.
        """
        ends = list(accumulate((len(line.encode()) + 1 for line in lines), initial=0))
        whole = (0, ends[-1])
        around = [whole] if scored is None else [(0, ends[scored]), (ends[scored + 1], ends[-1])]
        return Header(
            text="".join(f"{line}\n" for line in lines) + "\n" * blank,
            unscored=tuple((start, end) for start, end in around if start < end),
        )


def header(change: FileChange, *, side: Side, style: Style) -> Header:
    """Return a header with the known facts of a change, followed by a blank line.

    The text of a path or subject can't end the comment, begin another one, or act as a Doxygen command.
    """
    mark = line_mark(change.language)
    facts: list[Fact] = [("File", change.old_path if side == "before" else change.path)]
    subject = subject_of(change)
    if subject:
        facts.append((_SUBJECT, f"Before: {subject}" if side == "before" else subject))
    if side != "before" and change.old_path != change.path:
        facts.append(("Renamed from", change.old_path))
    facts += _place_and_time(change, "before " if side == "before" else "")
    known = [(name, value) for name, text in facts if (value := one_line(text))]
    names = [name for name, _ in known]
    at = names.index(_SUBJECT) if _SUBJECT in names else None
    if style == "simple":
        lines = [without_line_splice(f"{mark} {name}: {value}", mark) for name, value in known]
        return Header.from_lines(lines, blank=True, scored=at)
    opening, margin, closing = ("/**", " *", " */") if mark == "//" else ("##", "#", None)
    lines = [opening]
    for name, value in known:
        tag = _TAGS.get(name, f"@remark {name}:")
        # Doxygen's own escape: the character is doubled.
        escaped = _COMMAND.sub(lambda command: command[0] * 2, value)
        lines.append(without_line_splice(f"{margin} {tag} {escaped}", mark))
    lines += [closing] if closing else []
    return Header.from_lines(lines, blank=True, scored=None if at is None else at + 1)


def commit_header(commit: CommitChange, language: Language) -> Header:
    """Return a header with the known facts of a whole commit, without its subject."""
    mark = line_mark(language)
    facts = _place_and_time(commit)
    lines = [
        without_line_splice(f"{mark} {name}: {one_line(value)}", mark) for name, value in facts
    ]
    return Header.from_lines(lines, blank=False)


def subject_of(change: FileChange | CommitChange) -> str:
    """Return the subject of a commit as one line of at most MAX_SUBJECT_LENGTH characters; may be empty."""
    subject = one_line(change.subject)
    if len(subject) <= MAX_SUBJECT_LENGTH:
        return subject
    return subject[: MAX_SUBJECT_LENGTH - 1].rstrip() + "…"


def _place_and_time(change: FileChange | CommitChange, before: str = "") -> Iterator[Fact]:
    yield "Repository", change.repository
    if change.commit:
        yield "Commit", before + change.commit[:COMMIT_DIGITS]
    if 0 < change.timestamp <= _LAST_SECOND:
        yield "Date", datetime.fromtimestamp(change.timestamp, UTC).date().isoformat()


MAX_SIDE_BYTES = 8_192
"""Maximum bytes of the removed lines of a hunk, and maximum bytes of its added lines."""
MAX_CHANGES_BYTES = 65_536
"""Bytes of text after which no further hunk begins. The last line states how many hunks are left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeText:
    """Hunks of a change as text, and the numbers of lines and hunks that are left out."""

    blocks: tuple[str, ...]
    """One text per hunk; each of its lines is generated, a comment, or an unchanged added line."""
    shown: tuple[tuple[int, int], ...]
    """Ranges of lines of the new file that `blocks` contain unchanged, in ascending order."""
    lines_left_out: int
    hunks_left_out: int


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text without their ends; only `\n` ends a line.

    >>> lines_of("a\n\nb\n")
    ['a', '', 'b']
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def is_blank_change(before: Sequence[str], after: Sequence[str], hunks: Sequence[Hunk]) -> bool:
    """Return True if all hunks change only white space."""
    for hunk in hunks:
        removed = before[hunk.before_start : hunk.before_start + hunk.before_lines]
        added = after[hunk.after_start : hunk.after_start + hunk.after_lines]
        old, new = ("".join("".join(lines).split()) for lines in (removed, added))
        if old != new:
            return False
    return True


def is_blank(change: FileChange) -> bool:
    """Return True if a change of a file changes only white space."""
    if change.before is None or change.after is None:
        return False
    return is_blank_change(lines_of(change.before.text), lines_of(change.after.text), change.hunks)


def describe(
    before: Sequence[str], after: Sequence[str], hunks: Sequence[Hunk], mark: Mark
) -> ChangeText:
    """Return the hunks of a change as text within the limits; only whole lines are left out.

    A removed line is always a comment on a line of its own; `without_line_splice` keeps it from continuing on
    the next line. Added lines are fragments of code: if an added line opens a comment or raw string that an
    unchanged line closes, the text after the hunk is inside this comment or string.
    """
    blocks: list[str] = []
    shown: list[tuple[int, int]] = []
    size = left_out = 0
    for hunk in hunks:
        if size >= MAX_CHANGES_BYTES:
            break
        removed = before[hunk.before_start : hunk.before_start + hunk.before_lines]
        added = after[hunk.after_start : hunk.after_start + hunk.after_lines]
        block = [f"{mark} @@ line {(hunk.after_start if after else hunk.before_start) + 1}"]
        for name, lines in (("removed", removed), ("added", added)):
            ends = accumulate(len(line.encode()) + 1 for line in lines)
            fitting = bisect_right(list(ends), MAX_SIDE_BYTES)
            for line in lines[:fitting]:
                comment = f"{mark} - {line}" if line else f"{mark} -"
                block.append(without_line_splice(comment, mark) if name == "removed" else line)
            if fitting < len(lines):
                block.append(f"{mark} … {len(lines) - fitting} more {name} lines")
                left_out += len(lines) - fitting
            if name == "added" and fitting:
                shown.append((hunk.after_start, hunk.after_start + fitting))
        blocks.append("\n".join(block) + "\n")
        size += len(blocks[-1].encode())
    missing = len(hunks) - len(blocks)
    if missing:
        blocks[-1] += f"{mark} … {missing} more hunks\n"
    return ChangeText(
        blocks=tuple(blocks),
        shown=tuple(shown),
        lines_left_out=left_out,
        hunks_left_out=missing,
    )
