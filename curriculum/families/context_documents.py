"""Context documents: the code around a commit's change, then the changed code.

header      facts of the commit
context     chunks, farthest first; when a document is cropped, whole chunks are removed from this end
=== TARGET: the commit's subject ===
target      chunks

Consecutive chunks of one file form a run. One line above the run names the file's path. The path line has the
rank of the run's last chunk, so the path line is left out exactly when the whole run is. In the context, a
blank line separates the chunks of a run. In the target, chunks of a file are laid out as in the file: a gap
line marks omitted lines between two chunks, and nothing separates adjacent chunks. If a part is at the end of
a file, it gets a line end even if the file has none there.
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
    without_line_splice,
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
"""Text before a path line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """Chunk that will be written: whole lines of one file."""

    file: TreeFile
    name: str
    symbol: str
    form: ChunkForm
    ranges: Sequence[Range]
    """Byte ranges of the shown lines, sorted and disjoint; a gap line is written between two ranges."""
    hop: int
    marks: Sequence[Span]
    """Spans of the whole file, sorted by start, outer spans first; spans of omitted lines are skipped."""
    via: Edge | None = None
    """Edge of the document over which the chunk was found; None for a target."""


def path_line(path: str, language: Language) -> str:
    """Return the two lines above a run of chunks: a blank line, and the file's path as a comment."""
    mark = line_mark(language)
    return LEAD + without_line_splice(f"{mark} File: {one_line(path)}", mark) + "\n"


def gap_line(language: Language) -> str:
    """Return the line that replaces omitted lines of a chunk."""
    return f"{line_mark(language)} …\n"


def frame_bytes(commit: CommitChange, language: Language) -> int:
    """Return the number of bytes of the header and of the line above the target."""
    return len((commit_header(commit, language).text + _opening(commit, language)).encode())


def chunk_bytes(path: str, language: Language) -> int:
    """Return the maximum number of bytes that a run of chunks takes in addition to its chunks.

    These are the path line and one line end, which the file may lack.
    """
    return len(path_line(path, language).encode()) + 1


def document(
    commit: CommitChange,
    family: str,
    context: Sequence[Excerpt],
    targets: Sequence[Excerpt],
    edges: Iterable[Edge],
    left_out: Iterable[LeftOut] = (),
) -> Document:
    """Return the document of one commit that shows the given excerpts.

    Args:
        commit: the commit.
        family: name of the family.
        context: excerpts around the target, farthest first.
        targets: excerpts of the target.
        edges: edges between the chunks. Their numbers count the context first, then the targets.
        left_out: definitions that would have come next.
    """
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
    """Return the file that has the most bytes among the targets; the first one if several have the same."""
    sizes: Counter[str] = Counter()
    for excerpt in targets:
        sizes[excerpt.file.path] += sum(end - start for start, end in excerpt.ranges)
    path = min(sizes, key=lambda path: (-sizes[path], path))
    return next(target.file for target in targets if target.file.path == path)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Writer:
    commit: CommitChange
    builder: DocumentBuilder
    chunks: list[Chunk]
    places: dict[tuple[int, int, EdgeKind], int]
    """Index of each edge, by (source, target, kind)."""
    texts: dict[str, bytes] = field(default_factory=dict)
    """Texts of files, by path."""

    def add_context(self, run: Sequence[Excerpt], nearer: int) -> None:
        """Add a run of context chunks; `nearer` other chunks are nearer to the target than this run."""
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
        """Add a run of target chunks."""
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
        """Add the lines of a chunk whose first part has the index `first`."""
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
        """Add spans for the bytes `[start, end)` of a file; of nested spans of one kind, only the outermost.

        A declaration gets no span if its documentation is above these bytes, since it would be paired with
        another declaration's documentation.
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
    """Return the lines above the target, with the commit's subject."""
    subject = subject_of(commit)
    title = f"=== TARGET: {subject} ===" if subject else "=== TARGET ==="
    return f"\n{line_mark(language)} {title}\n"


def marks_of(source: SourceFile) -> tuple[Span, ...]:
    """Return the spans of a file's doc comments, documented declarations and function bodies.

    Outer spans come before inner ones.
    """
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
    """Return `marks`, the spans of a file, together with spans of some statements and call arguments."""
    found = outline(source.file.blob.text, source.file.language)
    statements = [Span(kind="statement", start=start, end=end) for start, end in found.statements]
    arguments = [Span(kind="arguments", start=start, end=end) for start, end in found.arguments]
    return tuple(sorted((*marks, *statements, *arguments), key=_place))


class DocComment(NamedTuple):
    """Comments on lines of their own as a byte range, and the offset at which the code below begins."""

    start: int
    end: int
    code: int


def comment_above(data: bytes, start: int, end: int) -> DocComment | None:
    r"""Return the comments at the beginning of `data[start:end]`; None if it begins with a line of code.

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
