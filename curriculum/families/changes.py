"""Changes of a file in a commit: removed lines as comments, added lines as live code."""

from collections.abc import Sequence
from dataclasses import dataclass

from curriculum.families.header import Mark, unspliced
from schemas.change import Hunk

SIDE_BYTES = 8_192
"""The removed lines of a hunk take so many bytes at most, and so do the added ones."""
CHANGES_BYTES = 65_536
"""Hunks that begin past so many bytes are left out, and the last line says how many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """The hunks of a change as text, and what was too much of it."""

    blocks: tuple[str, ...]
    """One a hunk; each line of it is generated, or a comment, or an added line as it stands."""
    shown: tuple[tuple[int, int], ...]
    """Lines of the file afterwards that stand in `blocks` word for word, in order."""
    lines_left_out: int
    hunks_left_out: int


def lines_of(text: str) -> list[str]:
    r"""The lines of a text without their ends; only `\n` ends a line.

    >>> lines_of("a\n\nb\n")
    ['a', '', 'b']
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def is_blank_change(before: Sequence[str], after: Sequence[str], hunks: Sequence[Hunk]) -> bool:
    """Return True if no hunk changes more than white space."""
    return all(
        _dense(before[hunk.before_start : hunk.before_start + hunk.before_lines])
        == _dense(after[hunk.after_start : hunk.after_start + hunk.after_lines])
        for hunk in hunks
    )


def _dense(lines: Sequence[str]) -> str:
    return "".join("".join(lines).split())


def describe(
    before: Sequence[str], after: Sequence[str], hunks: Sequence[Hunk], mark: Mark
) -> Changes:
    """The hunks as text within the limits; whole lines are shown or left out.

    A removed line is a comment on a line of its own, whatever it holds: where it would glue the next
    line to itself, `unspliced` ends it otherwise. Added lines are fragments: one that opens a comment
    or a raw string that closes in an unchanged line leaves what follows inside it.
    """
    blocks: list[str] = []
    shown: list[tuple[int, int]] = []
    size = left_out = 0
    for hunk in hunks:
        if size >= CHANGES_BYTES:
            break
        removed = before[hunk.before_start : hunk.before_start + hunk.before_lines]
        added = after[hunk.after_start : hunk.after_start + hunk.after_lines]
        num_removed, num_added = _fitting(removed), _fitting(added)
        shown.append((hunk.after_start, hunk.after_start + num_added))
        left_out += len(removed) - num_removed + len(added) - num_added
        block = [f"{mark} @@ line {(hunk.after_start if after else hunk.before_start) + 1}"]
        block += [_removed(line, mark) for line in removed[:num_removed]]
        block += _excluded(len(removed) - num_removed, "removed", mark)
        block += added[:num_added]
        block += _excluded(len(added) - num_added, "added", mark)
        blocks.append("\n".join(block) + "\n")
        size += len(blocks[-1].encode())
    missing = len(hunks) - len(blocks)
    if missing:
        blocks[-1] += f"{mark} … {missing} more hunks\n"
    return Changes(
        blocks=tuple(blocks),
        shown=tuple(each for each in shown if each[0] < each[1]),
        lines_left_out=left_out,
        hunks_left_out=missing,
    )


def _fitting(lines: Sequence[str]) -> int:
    """Return how many lines, from the first, fit in SIDE_BYTES."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > SIDE_BYTES:
            return count
    return len(lines)


def _removed(line: str, mark: Mark) -> str:
    return unspliced(f"{mark} - {line}" if line else f"{mark} -", mark)


def _excluded(count: int, what: str, mark: Mark) -> list[str]:
    return [f"{mark} … {count} more {what} lines"] if count else []
