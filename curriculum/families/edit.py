"""edit: a file before a commit, then the commit's changes of the file as search/replace blocks.

header     facts, including the commit's subject
the file   one part per function or class; parts without a line of a SEARCH section may be left out
blocks     targets: markers, SEARCH, and REPLACE, whose kept and added lines are separate parts

Two kinds of lines are scored: the first line of each SEARCH section and the added lines of each REPLACE
section. The header, the file, markers, other lines of SEARCH and kept lines are not scored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from curriculum.families.document_builder import DocumentBuilder, header, is_blank
from curriculum.families.edit_blocks import (
    DIVIDER,
    NO_NEWLINE,
    REPLACE,
    SEARCH,
    EditBlock,
    LineRange,
    apply_blocks,
    blocks_between,
    has_marker,
    whole_lines,
)
from curriculum.families.render import Reason
from curriculum.families.v3 import ranks
from curriculum.graph.outline import outline
from schemas.change import Blob, FileChange, Hunk
from schemas.document import Document

MAX_REMOVED_SHARE = 0.5
"""Maximum share of a file's lines that a change removes. A change that removes more lines is a rewrite."""
MAX_EDIT_BYTES = 65_536
"""Maximum bytes of all removed and added lines, including the markers of one block per hunk."""
_MARKER_BYTES = len(SEARCH + DIVIDER + REPLACE)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Version:
    """Version of a file before or after the change."""

    path: str
    blob: Blob
    lines: Sequence[str]
    starts: Sequence[int]
    """Offset at which each line begins, followed by the number of bytes, [lines + 1]."""

    @staticmethod
    def from_blob(path: str, blob: Blob) -> "_Version":
        lines = whole_lines(blob.text)
        starts = [*accumulate((len(line.encode()) for line in lines), initial=0)]
        return _Version(path=path, blob=blob, lines=lines, starts=starts)

    def bytes_of(self, lines: LineRange) -> tuple[int, int]:
        """Return the byte range `(start, end)` of a range of lines."""
        return self.starts[lines[0]], self.starts[lines[1]]


def documents(change: FileChange, *, family: str) -> Iterator[Document | Reason]:
    """Yield the document of a change; if it has no document, yield the reason."""
    if change.before is None:
        yield "new_file"
        return
    if change.after is None:
        yield "deleted"
        return
    before = _Version.from_blob(change.old_path, change.before)
    after = _Version.from_blob(change.path, change.after)
    blocks = _blocks(change, before, after)
    if not isinstance(blocks, tuple):
        yield blocks
        return
    builder = DocumentBuilder()
    builder.add("header", header(change, side="change", style="simple").text)
    if before.lines:
        _add_file(builder, change, before, blocks)
    builder.mark("unscored", [(0, builder.size)])
    texts = len(builder.texts)
    for block in blocks:
        _add_fixed(builder, SEARCH)
        first = block.search[0]
        _add_lines(builder, change, before, block.search, scored=[(first, first + 1)])
        _add_fixed(builder, DIVIDER)
        _add_lines(builder, change, after, block.replace, scored=block.added)
        _add_fixed(builder, REPLACE)
    made = apply_blocks(change.before.text, "".join(builder.texts[texts:]))
    is_sound = made == change.after.text
    yield builder.document(family, change, file=change) if is_sound else "blocks_fail"


def _blocks(
    change: FileChange, before: _Version, after: _Version
) -> tuple[EditBlock, ...] | Reason:
    """Return the blocks of a change, or the reason why there are none."""
    if not change.hunks:
        return "unchanged"
    if is_blank(change):
        return "blank_change"
    if has_marker(before.lines) or has_marker(after.lines):
        return "marker_lines"
    removed = sum(hunk.before_lines for hunk in change.hunks)
    if removed > MAX_REMOVED_SHARE * len(before.lines):
        return "whole_rewrite"
    if sum(_size(hunk, before, after) for hunk in change.hunks) > MAX_EDIT_BYTES:
        return "edits_too_large"
    return blocks_between(before.lines, after.lines, change.hunks) or "no_unique_lines"


def _size(hunk: Hunk, before: _Version, after: _Version) -> int:
    """Return the number of bytes that a hunk removes and adds, plus the bytes of a block's markers."""
    gone = before.bytes_of((hunk.before_start, hunk.before_start + hunk.before_lines))
    new = after.bytes_of((hunk.after_start, hunk.after_start + hunk.after_lines))
    return gone[1] - gone[0] + new[1] - new[0] + _MARKER_BYTES


def _add_file(
    builder: DocumentBuilder, change: FileChange, before: _Version, blocks: Sequence[EditBlock]
) -> None:
    """Add the file before the change; items that contain a line of a SEARCH section are never left out."""
    is_open = not before.lines[-1].endswith("\n")
    text = before.blob.text + "\n" * is_open
    lines = outline(text, change.language)
    whole = (0, before.starts[-1])
    source = builder.cite(change, before.path, before.blob, whole, lineage=change.lineage)
    touched = [_place(block.search) for block in blocks]
    shown = Blob(blob_id=before.blob.blob_id, text=text)
    builder.file(shown, lines, source, ranks(lines.items, touched))
    if is_open:
        builder.add("code", NO_NEWLINE)


def _place(lines: LineRange) -> Hunk:
    """Return a range of lines as a hunk that has the same position before and after the change."""
    first, number = lines[0], lines[1] - lines[0]
    return Hunk(before_start=first, before_lines=number, after_start=first, after_lines=number)


def _add_lines(
    builder: DocumentBuilder,
    change: FileChange,
    version: _Version,
    lines: LineRange,
    *,
    scored: Sequence[LineRange],
) -> None:
    """Add a range of lines of a version as parts, those in `scored` as scored parts.

    A last line without a line end is followed by the line NO_NEWLINE.
    """
    if lines[0] == lines[1]:
        return
    cited = version.bytes_of(lines)
    source = builder.cite(change, version.path, version.blob, cited, lineage=change.lineage)
    borders = sorted({*lines, *(border for run in scored for border in run)})
    is_open = not version.lines[lines[1] - 1].endswith("\n")
    for first, last in pairwise(borders):
        start = builder.size
        end = "\n" * (is_open and last == lines[1])
        builder.add("target", "".join(version.lines[first:last]) + end, source=source)
        if (first, last) not in scored:
            builder.mark("unscored", [(start, builder.size)])
    if is_open:
        _add_fixed(builder, NO_NEWLINE)


def _add_fixed(builder: DocumentBuilder, text: str) -> None:
    """Add a line that is the same in all documents and therefore not scored."""
    builder.mark("unscored", [(0, len(text))], offset=builder.size)
    builder.add("target", text)
