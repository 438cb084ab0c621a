"""v3_simple, v3_doxygen: what a commit changed in a file, then the whole file as it became.

header                      facts
=== CHANGES ===             a part a hunk: removed lines as comments, added lines live
=== FULL FILE (Post-Commit) ===
                            a part a function or class; those without a hunk may be left out
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from curriculum.families.document_builder import (
    Changes,
    DocumentBuilder,
    Style,
    describe,
    header,
    is_blank_change,
    line_mark,
    lines_of,
)
from curriculum.families.render import ExclusionCount, Reason
from curriculum.graph.outline import Item, outline
from schemas.change import Blob, FileChange, Hunk
from schemas.document import Document


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """A change that v3 shows: what its two styles share."""

    change: FileChange
    before: Blob
    changes: Changes
    removed: tuple[int, int]
    """Bytes of `before` from the first removed line to the last."""


def documents(
    change: FileChange, *, family: str, style: Style
) -> Iterator[Document | Reason | ExclusionCount]:
    """Yield the document of a change and counts of what it leaves out; else the reason that there is none."""
    found = edit(change)
    if not isinstance(found, Edit):
        yield found
        return
    yield document(found, family=family, style=style)
    changes = found.changes
    if changes.hunks_left_out:
        yield ExclusionCount(family=family, reason="hunks_left_out", number=changes.hunks_left_out)
    if changes.lines_left_out:
        yield ExclusionCount(family=family, reason="lines_left_out", number=changes.lines_left_out)


@lru_cache(maxsize=1)
def edit(change: FileChange) -> Edit | Reason:
    """Describe a change, or give the reason that there is nothing to show; both styles share the last one."""
    if change.before is None:
        return "new_file"
    if not change.hunks:
        return "unchanged"
    before = lines_of(change.before.text)
    after = lines_of(change.after.text) if change.after else []
    if is_blank_change(before, after, change.hunks):
        return "blank_change"
    mark = line_mark(change.language)
    return Edit(
        change=change,
        before=change.before,
        changes=describe(before, after, change.hunks, mark),
        removed=_removed(change.before.text, before, change.hunks),
    )


def document(edit: Edit, *, family: str, style: Style) -> Document:
    """The document of an edit; a deleted file has no FULL FILE."""
    change = edit.change
    sheet = DocumentBuilder()
    sheet.head(header(change, side="change", style=style), is_documentation=style == "doxygen")
    title = f"{line_mark(change.language)} === CHANGES ===\n"
    for block in edit.changes.blocks:
        sheet.generate("changes", title + block)
        title = ""
    if change.after is not None:
        _add_full_file(sheet, edit, change.after)
    if edit.removed[0] < edit.removed[1]:
        sheet.cite(change, change.old_path, edit.before, edit.removed)
    return sheet.document(family, change)


def _add_full_file(sheet: DocumentBuilder, edit: Edit, after: Blob) -> None:
    change = edit.change
    title = f"\n{line_mark(change.language)} === FULL FILE (Post-Commit) ===\n"
    sheet.generate("header", title)
    if not after.text:
        return
    lines = outline(after.text, change.language)
    offset = sheet.size
    source = sheet.cite(change, change.path, after, (0, int(lines.starts[-1])))
    sheet.file(after, lines, source, ranks(lines.items, change.hunks))
    shown = ((int(lines.starts[a]), int(lines.starts[b])) for a, b in edit.changes.shown)
    sheet.mark("repeated", shown, offset=offset)


def ranks(items: Sequence[Item], hunks: Sequence[Hunk]) -> list[int | None]:
    """Lines between each item and the nearest hunk; None for an item that a hunk touches.

    A hunk that only removes lines touches the item in which they stood, not those beside a border.
    """
    starts = [hunk.after_start for hunk in hunks]
    ends = [hunk.after_start + hunk.after_lines for hunk in hunks]
    found: list[int | None] = []
    for item in items:
        below = bisect_left(starts, item.last)
        gaps = [item.first - end for end in ends[below - 1 : below]]
        gaps += [start - item.last for start in starts[below : below + 1]]
        nearest = min(gaps)
        found.append(nearest if nearest >= 0 else None)
    return found


def _removed(text: str, lines: Sequence[str], hunks: Sequence[Hunk]) -> tuple[int, int]:
    """The bytes from the first removed line to the last."""
    cutting = [hunk for hunk in hunks if hunk.before_lines]
    if not cutting:
        return (0, 0)
    first, last = cutting[0].before_start, cutting[-1].before_start + cutting[-1].before_lines
    start = sum(len(line.encode()) + 1 for line in lines[:first])
    size = sum(len(line.encode()) + 1 for line in lines[first:last])
    is_open = last == len(lines) and not text.endswith("\n")
    return (start, start + size - is_open)


simple = partial(documents, style="simple")
doxygen = partial(documents, style="doxygen")
