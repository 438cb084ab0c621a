"""Rendering of a change: documents, and counts of what was left out by reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.change import FileChange
from schemas.document import Document
from schemas.families import FAMILIES

Reason = Literal[
    "before_known",
    "blank_change",
    "blocks_fail",
    "build_target_too_large",
    "deleted",
    "divided",
    "edits_too_large",
    "empty",
    "function_too_large",
    "hunks_left_out",
    "lines_left_out",
    "marker_lines",
    "names_unresolved",
    "new_file",
    "no_build_target",
    "no_function",
    "no_unique_lines",
    "not_covered",
    "repeated_bytes",
    "repeated_definitions",
    "unchanged",
    "whole_rewrite",
]
"""Reasons why a family gave no document, or (…_left_out) less than all of one.

before_known    the version before was an `after` of an earlier change
blank_change    nothing but white space differs
blocks_fail     search/replace blocks don't make the version after of the version before
build_target_too_large
                a build target's commands are too much for a document of their own
deleted         there is no version after
divided         a commit's functions are too much for one document: so many more were made
edits_too_large the changed lines are too much for search/replace blocks
empty           the version has no text
function_too_large
                a function is too much for a document of its own
hunks_left_out  hunks past the limit of a document
lines_left_out  lines past the limit of a hunk
marker_lines    a line of the file is a marker of search/replace blocks
names_unresolved
                what a build target links or compiles isn't a literal name, or isn't in the tree
new_file        there is no version before, so nothing changed
no_build_target a commit touches CMake files, and no commands of a build target
no_function     a commit touches no function
no_unique_lines no few lines around a change are unique in the version before
not_covered     the compiler frontend didn't see a function as the commit has it
repeated_bytes  bytes of the repeated definitions
repeated_definitions
                a definition around a target has the text of a nearer one, or of the target
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


def render(change: FileChange, families: Sequence[str]) -> RenderResult:
    """Render one change for each of the families; equal input gives equal documents, on any machine.

    Costs one parse for each version of a file, whatever the number of families.
    """
    documents: list[Document] = []
    counts: list[ExclusionCount] = []
    for family in families:
        for made in FAMILIES[family].function(change, family=family):
            if isinstance(made, Document):
                documents.append(made)
            elif isinstance(made, ExclusionCount):
                counts.append(made)
            else:
                counts.append(ExclusionCount(family=family, reason=made))
    return RenderResult(documents=tuple(documents), counts=tuple(counts))
