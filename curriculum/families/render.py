"""Rendering of a change by several families into documents, and counts of omissions by reason."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.change import FileChange
from schemas.corpus import USUAL_EDITS, EditSettings
from schemas.document import Document
from schemas.families import FAMILIES

Reason = Literal[
    "before_known",
    "blank_change",
    "blocks_fail",
    "build_target_too_large",
    "comment_change",
    "deleted",
    "divided",
    "edits_too_large",
    "empty",
    "function_too_large",
    "hunks_left_out",
    "lines_left_out",
    "marker_lines",
    "mechanical",
    "names_unresolved",
    "new_file",
    "no_build_target",
    "no_function",
    "no_unique_lines",
    "not_covered",
    "not_replaced",
    "repeated_bytes",
    "repeated_definitions",
    "tree_wide",
    "unchanged",
    "whole_rewrite",
]
"""Reasons why a family has no document, or (…_left_out) an incomplete one.

before_known    the version before was the version after of an earlier change
blank_change    only white space differs
blocks_fail     search/replace blocks don't turn the version before into the version after
build_target_too_large
                a build target's commands exceed the size of a document
comment_change  only comments, includes and white space differ
deleted         there is no version after
divided         number of documents of a commit whose functions exceed the size of one document
edits_too_large the changed lines exceed the limit of search/replace blocks
empty           the version has no text
function_too_large
                a function exceeds the size of a document
hunks_left_out  hunks beyond the limit of a document
lines_left_out  lines beyond the limit of a hunk
marker_lines    a line of the file is a marker of search/replace blocks
mechanical      one replacement of words explains most edits of the commit, and others are shown
names_unresolved
                a build target's link or source isn't a literal name, or isn't in the tree
new_file        there is no version before, so nothing changed
no_build_target a commit touches CMake files, but no commands of a build target
no_function     a commit touches no function
no_unique_lines no short run of lines around a change is unique in the version before
not_covered     the compiler frontend indexed less than half of the functions with their bytes in the commit
not_replaced    the commit deletes the file and adds none of its name
repeated_bytes  bytes of the repeated definitions
repeated_definitions
                a definition around a target has the text of a nearer one, or of the target
tree_wide       the commit changes 30 files or more, and other edits are shown
unchanged       the text is the same: a pure rename, or different line ends
whole_rewrite   more than half of the version before is removed
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExclusionCount:
    """Number of documents, functions, hunks, lines or bytes that a family left out for a reason."""

    family: str
    reason: Reason
    number: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderResult:
    """Documents of one change or one commit, with counts of omissions.

    The documents of a change are in the order of the families.
    """

    documents: tuple[Document, ...]
    counts: tuple[ExclusionCount, ...]


def result_of(
    family: str, documents: Sequence[Document], left_out: Mapping[Reason, int]
) -> RenderResult:
    """Return the documents of one commit, with the counts in `left_out` that aren't zero."""
    counts = (
        ExclusionCount(family=family, reason=reason, number=number)
        for reason, number in left_out.items()
        if number
    )
    return RenderResult(documents=tuple(documents), counts=tuple(counts))


def render(
    change: FileChange,
    families: Sequence[str],
    options: EditSettings = USUAL_EDITS,
    *,
    against: Reason | None = None,
) -> RenderResult:
    """Render one change for several families; equal input gives equal documents on any machine.

    Costs one parse per version of a file, whatever the number of families.

    Args:
        change: change of a file.
        families: families that read changes.
        options: settings of the families that show edits.
        against: reason for which families of edits leave out the change; None to show it.
    """
    documents: list[Document] = []
    counts: list[ExclusionCount] = []
    for name in families:
        family = FAMILIES[name]
        made: Iterable[Document | ExclusionCount | Reason] = ()
        if family.edits_only and against is not None:
            made = (against,)
        elif family.shows_file:
            made = family.function(change, family=name, full_file=options.full_file)
        elif family.edits_only or not change.is_edit_only:
            made = family.function(change, family=name)
        for item in made:
            if isinstance(item, Document):
                documents.append(item)
            elif isinstance(item, ExclusionCount):
                counts.append(item)
            else:
                counts.append(ExclusionCount(family=name, reason=item))
    return RenderResult(documents=tuple(documents), counts=tuple(counts))
