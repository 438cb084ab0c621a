"""v3_simple, v3_doxygen: a commit's changes of a file, then the file after the commit.

header                      facts
=== CHANGES ===             one part per hunk: removed lines as comments, added lines as code
=== FULL FILE (Post-Commit) ===
                            with `full_file: related`: functions and classes with a hunk, and signatures,
                            which may be left out; gap lines mark omitted text
                            with `full_file: all`: one part per function or class; those without a hunk
                            may be left out
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from curriculum.families.chosen_changes import reason_against
from curriculum.families.context_documents import gap_line
from curriculum.families.document_builder import (
    ChangeText,
    DocumentBuilder,
    Style,
    describe,
    header,
    line_mark,
    lines_of,
)
from curriculum.families.related_lines import lines_to_hunks, related_lines, words_of
from curriculum.families.render import ExclusionCount, Reason
from curriculum.graph.facts import Range
from curriculum.graph.line_ranges import subtract_ranges
from curriculum.graph.outline import Item, outline
from schemas.change import Blob, FileChange, Hunk
from schemas.corpus import FullFile
from schemas.document import Document


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """Description of a change, which the simple and the Doxygen style share."""

    before: Blob
    changes: ChangeText
    removed: tuple[int, int]
    """Byte range of `before` from the first line that the change removes to the last one."""


def documents(
    change: FileChange, *, family: str, style: Style, full_file: FullFile
) -> Iterator[Document | Reason | ExclusionCount]:
    """Yield the document of a change, then counts of omissions; if there is no document, yield the reason.

    The document of a deleted file has no section FULL FILE.
    """
    edit = edit_of(change)
    if not isinstance(edit, Edit):
        yield edit
        return
    mark, after, changes = line_mark(change.language), change.after, edit.changes
    builder = DocumentBuilder()
    builder.head(header(change, side="change", style=style))
    title = f"{mark} === CHANGES ===\n"
    for block in changes.blocks:
        builder.add("changes", title + block)
        title = ""
    if after is not None:
        builder.add("header", f"\n{mark} === FULL FILE (Post-Commit) ===\n")
        if after.text:
            add_file = _add_file if full_file == "all" else _add_related
            add_file(builder, change, after, changes)
    if edit.removed[0] < edit.removed[1]:
        builder.cite(change, change.old_path, edit.before, edit.removed, lineage=change.lineage)
    yield builder.document(family, change, file=change)
    if changes.hunks_left_out:
        yield ExclusionCount(family=family, reason="hunks_left_out", number=changes.hunks_left_out)
    if changes.lines_left_out:
        yield ExclusionCount(family=family, reason="lines_left_out", number=changes.lines_left_out)


def _add_file(
    builder: DocumentBuilder, change: FileChange, after: Blob, changes: ChangeText
) -> None:
    """Add all lines of the file, one part per item of its outline."""
    lines = outline(after.text, change.language)
    starts = lines.starts.tolist()
    offset = builder.size
    source = builder.cite(change, change.path, after, (0, starts[-1]), lineage=change.lineage)
    builder.file(after, lines, source, ranks(lines.items, change.hunks))
    shown = ((starts[first], starts[last]) for first, last in changes.shown)
    builder.mark("repeated", shown, offset=offset)


def _add_related(
    builder: DocumentBuilder, change: FileChange, after: Blob, changes: ChangeText
) -> None:
    """Add only the related lines of the file; gap lines replace omitted text."""
    data, lines, gap = (
        after.text.encode(),
        outline(after.text, change.language),
        gap_line(change.language),
    )
    written = "".join(changes.blocks)
    related = related_lines(
        after.text,
        change.language,
        lines,
        change.hunks,
        named=words_of(written),
        room=len(written.encode()),
        gap=len(gap.encode()),
    )
    starts = lines.starts.tolist()
    shown = [Range(starts[first], starts[last]) for first, last in changes.shown]
    others = subtract_ranges([Range(0, len(data))], shown)
    done = 0
    for start, end, rank in related:
        _add_gap(builder, data[done:start], gap, rank)
        source = builder.cite(change, change.path, after, (start, end), lineage=change.lineage)
        builder.mark(
            "repeated", subtract_ranges([Range(start, end)], others), offset=builder.size - start
        )
        builder.excerpt(data, lines, (start, end), source, rank)
        done = end
    _add_gap(builder, data[done:], gap, None)


def _add_gap(builder: DocumentBuilder, hidden: bytes, gap: str, rank: int | None) -> None:
    """Add a gap line in place of `hidden` lines, unless these lines are blank."""
    if hidden.strip():
        start = builder.size
        builder.add("code", gap, rank=rank)
        builder.mark("unscored", [(start, builder.size)])


@lru_cache(maxsize=1)
def edit_of(change: FileChange) -> Edit | Reason:
    """Return the description of a change; if there is nothing to show, return the reason.

    The most recent result is cached.
    """
    against = reason_against(change, "all")
    if against is not None:
        return against
    assert change.before is not None
    before = lines_of(change.before.text)
    after = lines_of(change.after.text) if change.after else []
    removed = (0, 0)
    cutting = [hunk for hunk in change.hunks if hunk.before_lines]
    if cutting:
        first, last = cutting[0].before_start, cutting[-1].before_start + cutting[-1].before_lines
        start = sum(len(line.encode()) + 1 for line in before[:first])
        size = sum(len(line.encode()) + 1 for line in before[first:last])
        is_open = last == len(before) and not change.before.text.endswith("\n")
        removed = (start, start + size - is_open)
    changes = describe(before, after, change.hunks, line_mark(change.language))
    return Edit(before=change.before, changes=changes, removed=removed)


def ranks(items: Sequence[Item], hunks: Sequence[Hunk]) -> list[int | None]:
    """Return, for each item, the number of lines to the nearest hunk; None if the item contains a hunk."""
    gaps = lines_to_hunks([(item.first, item.last) for item in items], hunks)
    return [gap if gap >= 0 else None for gap in gaps]


simple = partial(documents, style="simple")
doxygen = partial(documents, style="doxygen")
