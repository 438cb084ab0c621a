"""Context documents: what a commit changed, and before it what that stands among.

header      facts of the commit
context     chunks, the farthest first; a crop takes whole chunks from that end
=== TARGET: the commit's subject ===
target      chunks

Neighbouring chunks of one file are a run, under one line with the path of the file. That line has the rank
of the last chunk of its run, so it is left out together with the whole run and never without it. In the
context a blank line stands between two chunks of a run. The target is laid out as its files are: one line
marks what is left out between two chunks of a file, and nothing stands between two that touch.
A part that ends with its file has a line end, whether or not the file has one.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from curriculum.families.document_builder import (
    DocumentBuilder,
    commit_header,
    line_mark,
    one_line,
    subject_of,
    unspliced,
)
from curriculum.graph.facts import Range, SourceFile
from curriculum.graph.line_ranges import end_of_blanks
from curriculum.graph.outline import innermost, outline
from schemas.change import CommitChange, TreeFile
from schemas.corpus import Language
from schemas.document import (
    Chunk,
    ChunkForm,
    Document,
    Edge,
    EdgeKind,
    LeftOut,
    PartKind,
    Span,
    SpanKind,
)

LEAD = "\n"
"""Bytes between the text above a path line and the line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """A chunk before it stands in a document: whole lines of one file."""

    file: TreeFile
    name: str
    symbol: str
    form: ChunkForm
    ranges: Sequence[Range]
    """Sorted and disjoint; a mark goes between two of them."""
    hop: int
    marks: Sequence[Span]
    """Spans of the whole file, sorted by their start, the outer first; hidden ones are skipped."""
    via: Edge | None = None
    """One of the document's edges; None for a target."""


def path_line(path: str, language: Language) -> str:
    """The lead of a run: an empty line, and the path of its file as a comment."""
    mark = line_mark(language)
    return LEAD + unspliced(f"{mark} File: {one_line(path)}", mark) + "\n"


def gap_line(language: Language) -> str:
    """Return the line in place of lines of a chunk that aren't shown."""
    return f"{line_mark(language)} …\n"


def frame_bytes(commit: CommitChange, language: Language) -> int:
    """Return the bytes that header and the target's opening take of the budget."""
    return len((commit_header(commit, language).text + _opening(commit, language)).encode())


def chunk_bytes(path: str, language: Language) -> int:
    """Bytes of a run beside its chunks: the path, and a line end where its file lacks the last."""
    return len(path_line(path, language).encode()) + 1


def document(
    commit: CommitChange,
    family: str,
    context: Sequence[Excerpt],
    targets: Sequence[Excerpt],
    edges: Iterable[Edge],
    left_out: Iterable[LeftOut] = (),
) -> Document:
    """The document of these chunks; `context` has the farthest first, and edges count it before targets."""
    main = largest(targets)
    known = sorted({(edge.source, edge.target, edge.kind): edge for edge in edges}.items())
    places = {key: at for at, (key, _) in enumerate(known)}
    writer = _Writer(commit=commit, builder=DocumentBuilder(), chunks=[], places=places)
    writer.builder.head(commit_header(commit, main.language))
    nearer = len(context)
    for _, group in groupby(context, lambda excerpt: excerpt.file.path):
        run = list(group)
        nearer -= len(run)
        writer.add_context(run, nearer)
    writer.builder.add("header", _opening(commit, main.language))
    for _, group in groupby(targets, lambda excerpt: excerpt.file.path):
        writer.add_targets(list(group))
    return writer.builder.document(
        family,
        commit,
        file=main,
        chunks=tuple(writer.chunks),
        edges=tuple(edge for _, edge in known),
        left_out=tuple(left_out),
    )


def largest(targets: Sequence[Excerpt]) -> TreeFile:
    """The file that most of the target's bytes come from; of two the first."""
    sizes: Counter[str] = Counter()
    for each in targets:
        sizes[each.file.path] += sum(end - start for start, end in each.ranges)
    path = min(sizes, key=lambda path: (-sizes[path], path))
    return next(target.file for target in targets if target.file.path == path)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Writer:
    commit: CommitChange
    builder: DocumentBuilder
    chunks: list[Chunk]
    places: dict[tuple[int, int, EdgeKind], int]
    """Index of an edge, by its ends and kind."""
    texts: dict[str, bytes] = field(default_factory=dict)
    """Texts by path."""

    def add_context(self, run: Sequence[Excerpt], nearer: int) -> None:
        """Add chunks of one file around the target, of which `nearer` chunks are nearer than all of them."""
        file = run[0].file
        for number, excerpt in enumerate(run):
            first = len(self.builder.parts)
            rank = nearer + len(run) - number
            if number:
                self.builder.add("context", "\n", rank=rank)
            else:
                self._lead(file, "context", nearer + 1)
            self._add(excerpt, first, "context", rank)

    def add_targets(self, run: Sequence[Excerpt]) -> None:
        """Add chunks of one file that belong to the target."""
        file, end = run[0].file, -1
        for excerpt in run:
            first, start = len(self.builder.parts), excerpt.ranges[0][0]
            if end < 0:
                self._lead(file, "target", None)
            elif start != end:
                self.builder.add("target", gap_line(file.language))
            self._add(excerpt, first, "target", None)
            end = excerpt.ranges[-1][1]

    def _lead(self, file: TreeFile, kind: PartKind, rank: int | None) -> None:
        start = self.builder.size + len(LEAD)
        self.builder.add(kind, path_line(file.path, file.language), rank=rank)
        self.builder.mark("unscored", [(start, self.builder.size)])

    def _add(self, excerpt: Excerpt, first: int, kind: PartKind, rank: int | None) -> None:
        """Add the lines of a chunk, which begins with the part `first`."""
        builder, file = self.builder, excerpt.file
        if file.path not in self.texts:
            self.texts[file.path] = file.blob.text.encode()
        data = self.texts[file.path]
        for number, (start, end) in enumerate(excerpt.ranges):
            if number:
                builder.add(kind, gap_line(file.language), rank=rank)
            self._mark(excerpt.marks, start, end)
            text = data[start:end].decode().removesuffix("\n") + "\n"
            source = builder.cite(
                self.commit, file.path, file.blob, (start, end), lineage=file.lineage
            )
            builder.add(kind, text, source=source, rank=rank)
        via = excerpt.via
        self.chunks.append(
            Chunk(
                first_part=first,
                last_part=len(builder.parts),
                name=excerpt.name,
                symbol=excerpt.symbol,
                form=excerpt.form,
                hop=excerpt.hop,
                via=-1 if via is None else self.places[via.source, via.target, via.kind],
            )
        )

    def _mark(self, marks: Sequence[Span], start: int, end: int) -> None:
        """Span what lies in these bytes of a file; of nested marks the outermost.

        A declaration whose documentation lies before these bytes has no span: it would go with another's.
        """
        offset = self.builder.size - start
        ends: dict[SpanKind, int] = {}
        first, last = (bisect_left(marks, at, key=attrgetter("start")) for at in (start, end))
        for mark in marks[first:last]:
            is_alone = mark.kind == "declaration" and "documentation" not in ends
            if mark.end <= end and mark.start >= ends.get(mark.kind, 0) and not is_alone:
                self.builder.mark(mark.kind, [(mark.start, mark.end)], offset=offset)
                ends[mark.kind] = mark.end


def _opening(commit: CommitChange, language: Language) -> str:
    """Return the line that opens the target."""
    subject = subject_of(commit)
    title = f"=== TARGET: {subject} ===" if subject else "=== TARGET ==="
    return f"\n{line_mark(language)} {title}\n"


def marks_of(source: SourceFile) -> tuple[Span, ...]:
    """Doc comments, what they stand above, and functions' bodies of a file; the outer before the inner."""
    data = source.file.blob.text.encode()
    found: list[Span] = []
    declarations: list[Range] = []
    for symbol in source.facts.symbols:
        body = symbol.body if symbol.kind == "function" else None
        if body is not None:
            found.append(Span(kind="body", start=body.start, end=body.end))
        comment = comment_above(data, symbol.start, symbol.name_start)
        if comment is not None and symbol.kind not in ("macro", "variable"):
            found.append(Span(kind="documentation", start=comment.start, end=comment.end))
            code = data[comment.code : symbol.end].rstrip()
            end = body.start if body else comment.code + len(code)
            declarations.append(Range(comment.code, end))
    found += [
        Span(kind="declaration", start=start, end=end) for start, end in innermost(declarations)
    ]
    return tuple(sorted(set(found), key=_place))


def _place(mark: Span) -> tuple[int, int]:
    return mark.start, -mark.end


def with_statements(marks: Iterable[Span], source: SourceFile) -> tuple[Span, ...]:
    """The marks of a file with its statements and arguments of calls, one here and there."""
    found = outline(source.file.blob.text, source.file.language)
    statements = [Span(kind="statement", start=start, end=end) for start, end in found.statements]
    arguments = [Span(kind="arguments", start=start, end=end) for start, end in found.arguments]
    return tuple(sorted((*marks, *statements, *arguments), key=_place))


class DocComment(NamedTuple):
    """Comments that have their lines to themselves, and the first byte of the code below."""

    start: int
    end: int
    code: int


def comment_above(data: bytes, start: int, end: int) -> DocComment | None:
    r"""The comments that `data[start:end]` begins with, or None where it begins with a line of code.

    >>> comment_above(b"  // a\n  /* b */\nint f();", 0, 21)
    DocComment(start=2, end=16, code=17)
    >>> comment_above(b"// a\n/* b */ int f();", 0, 17)
    DocComment(start=0, end=4, code=5)
    """
    first = last = code = at = end_of_blanks(data, start, end)
    while at < end:
        if data.startswith(b"//", at):
            line_end = data.find(b"\n", at, end)
            comment_end = line_end if line_end >= 0 else end
        elif data.startswith(b"/*", at):
            closing = data.find(b"*/", at + 2, end)
            comment_end = closing + 2 if closing >= 0 else end
        else:
            break
        at = end_of_blanks(data, comment_end, end)
        if b"\n" in data[comment_end:at]:
            last, code = comment_end, at
    return DocComment(first, last, code) if last > first else None
