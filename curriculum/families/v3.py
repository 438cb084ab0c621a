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
    """Description of a change, which both styles of v3 share."""

    before: Blob
    changes: Changes
    removed: tuple[int, int]
    """Bytes of `before` from the first removed line to the last."""


def documents(
    change: FileChange, *, family: str, style: Style
) -> Iterator[Document | Reason | ExclusionCount]:
    """Yield the document of a change and counts of what it leaves out; else the reason that there is none.

    The document of a deleted file has no FULL FILE.
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
    if after is not None and after.text:
        lines = outline(after.text, change.language)
        starts = lines.starts.tolist()
        offset = builder.size
        source = builder.cite(change, change.path, after, (0, starts[-1]), lineage=change.lineage)
        builder.file(after, lines, source, ranks(lines.items, change.hunks))
        shown = ((starts[first], starts[last]) for first, last in changes.shown)
        builder.mark("repeated", shown, offset=offset)
    if edit.removed[0] < edit.removed[1]:
        builder.cite(change, change.old_path, edit.before, edit.removed, lineage=change.lineage)
    yield builder.document(family, change, file=change)
    if changes.hunks_left_out:
        yield ExclusionCount(family=family, reason="hunks_left_out", number=changes.hunks_left_out)
    if changes.lines_left_out:
        yield ExclusionCount(family=family, reason="lines_left_out", number=changes.lines_left_out)


@lru_cache(maxsize=1)
def edit_of(change: FileChange) -> Edit | Reason:
    """Describe a change, or give the reason that there is nothing to show; both styles share the last one."""
    if change.before is None:
        return "new_file"
    if not change.hunks:
        return "unchanged"
    before = lines_of(change.before.text)
    after = lines_of(change.after.text) if change.after else []
    if is_blank_change(before, after, change.hunks):
        return "blank_change"
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


simple = partial(documents, style="simple")
doxygen = partial(documents, style="doxygen")
