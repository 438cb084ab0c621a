"""Rendering of a change: documents, and counts of what was left out by reason."""

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
"""Reasons why a family gave no document, or (…_left_out) less than all of one.

before_known    the version before was an `after` of an earlier change
blank_change    nothing but white space differs
blocks_fail     search/replace blocks don't make the version after of the version before
build_target_too_large
                a build target's commands are too much for a document of their own
comment_change  nothing but comments, includes and white space differs
deleted         there is no version after
divided         a commit's functions are too much for one document: so many more were made
edits_too_large the changed lines are too much for search/replace blocks
empty           the version has no text
function_too_large
                a function is too much for a document of its own
hunks_left_out  hunks past the limit of a document
lines_left_out  lines past the limit of a hunk
marker_lines    a line of the file is a marker of search/replace blocks
mechanical      one replacement of words makes most edits of the commit, which gives others
names_unresolved
                what a build target links or compiles isn't a literal name, or isn't in the tree
new_file        there is no version before, so nothing changed
no_build_target a commit touches CMake files, and no commands of a build target
no_function     a commit touches no function
no_unique_lines no few lines around a change are unique in the version before
not_covered     the compiler frontend saw less than half of the functions as the commit has them
not_replaced    the commit deletes the file and adds none of its name
repeated_bytes  bytes of the repeated definitions
repeated_definitions
                a definition around a target has the text of a nearer one, or of the target
tree_wide       the commit changes 30 files or more, and gives other edits
unchanged       the text is the same: a pure rename, or other line ends
whole_rewrite   more than half of the version before is removed
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExclusionCount:
    """The number of things left out: documents, functions, hunks, lines or bytes, as the reason says."""

    family: str
    reason: Reason
    number: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderResult:
    """The documents of one change, in the order of the families asked for, or of one commit."""

    documents: tuple[Document, ...]
    counts: tuple[ExclusionCount, ...]


def result_of(
    family: str, documents: Sequence[Document], left_out: Mapping[Reason, int]
) -> RenderResult:
    """The documents of one commit, with the counts of what they leave out that aren't 0."""
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
    """Render one change for each of the families; equal input gives equal documents, on any machine.

    Costs one parse for each version of a file, whatever the number of families.

    Args:
        change: Change of a file.
        families: Families that read changes.
        options: Settings of the families that show edits.
        against: Reason for which families of edits leave the change out.
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
