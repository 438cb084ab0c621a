"""Selection of the changes that families of edits (v3, edit) show.

The other families are rendered in the same pass.

With the option `changes: all`, these families show all changes of a file. With `changes: code`, these changes
are left out:

- changes of only comments, includes and white space;
- a deleted file, unless its commit adds a file with the same stem in any folder;
- most edits of a commit that is tree-wide or mechanical: only MAX_EDITS of its edits are shown. A commit is
  mechanical if one replacement of words explains more than half of its edits. Digests of commit and path
  choose the edits that are shown.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice

from curriculum.families.document_builder import is_blank_change, lines_of
from curriculum.families.render import Reason, RenderResult, render
from curriculum.graph.blank import blank, comments_and_literals
from schemas.change import FileChange
from schemas.corpus import CODE, ChangeChoice, EditSettings, Language
from schemas.families import FAMILIES

MAX_EDITS = 3
"""Maximum number of edits that are shown of a tree-wide or mechanical commit."""
MAX_CANDIDATES = 4
"""Maximum number of replacements that are tested on all edits of a commit; these are the most frequent ones.
"""
MAX_PAIRS = 200
"""Maximum number of line pairs per edit in which replacements are searched."""
Words = tuple[str, ...]

_COMMENT = (b"//", b"/*")
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*(?:include|include_next|import)\b[^\n]*", re.MULTILINE)
_HASH_LINE = re.compile(rb"^[ \t]*#[^\n]*", re.MULTILINE)
_INCLUDE_LINE = re.compile(r"\s*#\s*(?:include|include_next|import)\b")
_WORD = re.compile(r"\w+|[^\w\s]")


def render_changes(
    changes: Iterable[FileChange], families: Sequence[str], options: EditSettings
) -> Iterator[RenderResult]:
    """Render the changes of a history, which are grouped by commit; equal input gives equal documents.

    Memory: the changes of one commit; of a tree-wide commit or a snapshot, only MAX_EDITS changes.
    """
    if options.changes == "all":
        yield from (render(change, families, options) for change in changes)
        return
    for (_, streams), commit in groupby(changes, key=_commit_of):
        if streams:
            yield from _render_streamed(commit, families, options)
        else:
            yield from _render_in_memory(list(commit), families, options)


def _commit_of(change: FileChange) -> tuple[str, bool]:
    """Return the commit of a change, and True if the commit's changes may be too many for memory."""
    return change.commit, change.is_tree_wide or change.kind == "snapshot"


def _render_streamed(
    commit: Iterable[FileChange], families: Sequence[str], options: EditSettings
) -> Iterator[RenderResult]:
    """Render a commit of any size.

    The documents of the chosen edits come last.
    """
    own = [family for family in families if FAMILIES[family].edits_only]
    others = [family for family in families if not FAMILIES[family].edits_only]
    chosen: list[tuple[int, FileChange]] = []
    for place, change in enumerate(commit):
        yield render(change, others, options)
        against = reason_against(change, options.changes)
        if against is not None:
            yield render(change, own, options, against=against)
            continue
        chosen.append((place, change))
        if len(chosen) > MAX_EDITS:
            last = max(chosen, key=lambda placed: _digest(placed[1]))
            chosen.remove(last)
            yield render(last[1], own, options, against="tree_wide")
    for _, change in chosen:
        yield render(change, own, options)


def _render_in_memory(
    commit: Sequence[FileChange], families: Sequence[str], options: EditSettings
) -> Iterator[RenderResult]:
    against = [reason_against(change, options.changes) for change in commit]
    edits = [change for change, why in zip(commit, against, strict=True) if why is None]
    if len(edits) > MAX_EDITS and is_mechanical(edits):
        kept = {_digest(change) for change in sorted(edits, key=_digest)[:MAX_EDITS]}
        against = [
            "mechanical" if why is None and _digest(change) not in kept else why
            for change, why in zip(commit, against, strict=True)
        ]
    for change, why in zip(commit, against, strict=True):
        yield render(change, families, options, against=why)


def _digest(change: FileChange) -> bytes:
    return hashlib.sha256(f"{change.commit}\0{change.path}".encode()).digest()


def reason_against(change: FileChange, choice: ChangeChoice) -> Reason | None:
    """Return the reason to leave out a change, judged without its commit; None if the change is shown."""
    if change.before is None:
        return "new_file"
    if not change.hunks:
        return "unchanged"
    before, after = change.before.text, change.after.text if change.after else ""
    if is_blank_change(lines_of(before), lines_of(after), change.hunks):
        return "blank_change"
    if choice == "all":
        return None
    if change.after is None:
        return None if change.is_replaced else "not_replaced"
    is_code = code_of(before, change.language) != code_of(after, change.language)
    return None if is_code else "comment_change"


def code_of(text: str, language: Language) -> bytes:
    r"""Return the text of a file without comments, includes and white space.

    In build files, only comments on lines of their own are removed.

    >>> code_of("#include <a>\nint a; // b\n", "cpp"), code_of("# a\nset(b) # c\n", "cmake")
    (b'inta;', b'set(b)#c')
    """
    data = text.encode()
    if language not in CODE:
        return b"".join(_HASH_LINE.sub(b"", data).split())
    comments = [
        span
        for span in comments_and_literals(data)
        if data[span.start : span.start + 2] in _COMMENT
    ]
    return b"".join(_INCLUDE.sub(b"", blank(data, comments)).split())


def is_mechanical(edits: Sequence[FileChange]) -> bool:
    """Return True if one replacement of words explains more than half of the edits; includes are ignored."""
    hunks = [tuple(_hunk_lines(edit)) for edit in edits]
    shown = Counter(pair for lines in hunks for pair in dict.fromkeys(_replacements(lines)))
    sides = [
        tuple(
            _joined(word for line in chain(*side) for word in _words(line))
            for side in zip(*lines, strict=True)
        )
        for lines in hunks
    ]
    for (old, new), _ in shown.most_common(MAX_CANDIDATES):
        made = sum(
            before.replace(_joined(old), _joined(new)) == after.replace(_joined(old), _joined(new))
            for before, after in sides
        )
        if 2 * made > len(edits):
            return True
    return False


def _hunk_lines(edit: FileChange) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield the removed and the added lines of each hunk."""
    before, after = (lines_of(side.text) if side else [] for side in (edit.before, edit.after))
    for hunk in edit.hunks:
        yield (
            before[hunk.before_start : hunk.before_start + hunk.before_lines],
            after[hunk.after_start : hunk.after_start + hunk.after_lines],
        )


def _replacements(
    hunks: Iterable[tuple[Sequence[str], Sequence[str]]],
) -> Iterator[tuple[Words, Words]]:
    """Yield (old words, new words) for each removed line and the added line in the same place.

    Only hunks that remove and add the same number of lines are read.
    """
    pairs = (zip(*sides, strict=True) for sides in hunks if len(sides[0]) == len(sides[1]))
    for removed, added in islice(chain.from_iterable(pairs), MAX_PAIRS):
        old, new = _differing(_words(removed), _words(added))
        if old:
            yield old, new


def _differing(old: Sequence[str], new: Sequence[str]) -> tuple[Words, Words]:
    """Return both word lists without their common beginning and their common end.

    >>> _differing(["int", "a", ";"], ["long", "long", "a", ";"])
    (('int',), ('long', 'long'))
    """
    most = min(len(old), len(new))
    start = next((at for at in range(most) if old[at] != new[at]), most)
    most -= start
    end = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    return tuple(old[start : len(old) - end]), tuple(new[start : len(new) - end])


def _words(line: str) -> list[str]:
    """Return the words of a line; a line with an include has none."""
    return [] if _INCLUDE_LINE.match(line) else _WORD.findall(line)


def _joined(words: Iterable[str]) -> str:
    """Return the words as one text, with delimiters, so that a search for words finds only whole words."""
    return "".join(f"\n{word}\n" for word in words)
