"""The registry of document families: the input and the render function of each kind of document.

A new family needs a module with its render function, and an entry here. Diets, stages, catalog and pages
list the families of this registry.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from schemas.objectives import TARGET_OBJECTIVE, USUAL_OBJECTIVE
from schemas.registry import NameIn, Registry, imported

Reads = Literal["changes", "commits", "documents", "conversations"]
"""Input of a family.

changes        one change of one file
commits        one commit with the graph of its repository
documents      one document of another family
conversations  one conversation"""
TooLong = Literal["divide", "route"]
"""Handling of a document that is longer than a row even without the parts that may be dropped.

divide  split it into several encodings
route   use it only in longer rows, because its target at the end is useless in pieces

Conversations are never divided; `overlong` in the corpus file decides about them.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilySpec:
    """One kind of document."""

    name: str
    reads: Reads
    revision: int
    """Version of the documents' bytes, part of artefact keys. Raise it whenever the bytes change."""
    render: str
    """`module:function` that renders documents; it is imported when needed. Its signature depends on `reads`:

    changes        (FileChange, family) -> Iterable[Document | Reason | Count]
    shows_file     (FileChange, family, full_file: FullFile) -> Iterable[Document | Reason | Count]
    commits        (CommitChange, RepositoryGraph, family) -> Rendered
    documents      (Document) -> Structure
    conversations  (Conversation) -> Document
    """
    too_long: TooLong = "divide"
    needs_index: bool = False
    """True if the graph needs the index of a compiler frontend. A repository without one has no documents."""
    stand_in: str = ""
    """Family that shows the commits for which this family has no document. Its supply serves as an estimate
    for this family while a repository's index isn't built.
    """
    edits_only: bool = False
    """True if the family shows only edits of files, never new files. `changes` in the corpus file decides
    which edits.
    """
    shows_file: bool = False
    """True if `full_file` in the corpus file decides how much of a file is shown."""

    @property
    def function(self) -> Any:
        """The imported render function."""
        return imported(self.render)


FAMILIES: Registry[FamilySpec] = Registry(
    [
        FamilySpec(
            name="v2_simple",
            reads="changes",
            revision=14,
            render="curriculum.families.v2:simple",
        ),
        FamilySpec(
            name="v2_doxygen",
            reads="changes",
            revision=14,
            render="curriculum.families.v2:doxygen",
        ),
        FamilySpec(
            name="v3_simple",
            reads="changes",
            revision=14,
            render="curriculum.families.v3:simple",
            edits_only=True,
            shows_file=True,
        ),
        FamilySpec(
            name="v3_doxygen",
            reads="changes",
            revision=14,
            render="curriculum.families.v3:doxygen",
            edits_only=True,
            shows_file=True,
        ),
        FamilySpec(
            name="edit",
            reads="changes",
            revision=2,
            render="curriculum.families.edit:documents",
            too_long="route",
            edits_only=True,
        ),
        FamilySpec(
            name="v4_context_graph",
            reads="commits",
            revision=14,
            render="curriculum.families.v4_context_graph:documents",
            too_long="route",
        ),
        FamilySpec(
            name="v5_clang_graph",
            reads="commits",
            revision=14,
            render="curriculum.families.v5_clang_graph:documents",
            too_long="route",
            needs_index=True,
            stand_in="v4_context_graph",
        ),
        FamilySpec(
            name="v6_enriched",
            reads="documents",
            revision=10,
            render="curriculum.families.v6_enriched:enrich",
        ),
        FamilySpec(
            name="chat",
            reads="conversations",
            revision=4,
            render="curriculum.families.chat:document",
        ),
    ]
)
FamilyName = Annotated[str, NameIn(FAMILIES)]

VERSIONS_FAMILY = "v2_simple"
"""Family of whole files, with each version once. It is used for tokenizers, for the anchor set, and for code
structure in short rows.
"""
CONTEXT_FAMILY = "v4_context_graph"
"""Family to which code structure is added in long rows, which whole files wouldn't fill."""
EDIT_FAMILY = "edit"
ENRICHED_FAMILY = "v6_enriched"
CHAT_FAMILY = "chat"


def families_of(reads: Reads) -> tuple[str, ...]:
    """Return the names of the families that have this kind of input, in registry order."""
    return tuple(name for name, family in FAMILIES.items() if family.reads == reads)


def reads_commits(family: str) -> bool:
    """Return True for a family of graphs; False also for an unknown family, which imported rows may have."""
    known = FAMILIES.get(family)
    return known is not None and known.reads == "commits"


def held_out_objective(family: str, objective: str) -> str:
    """Return the objective of validation rows, given the family and objective of training rows.

    Graph documents are validated only on their targets, since their context may come from training files.

    >>> held_out_objective("v2_simple", "causal"), held_out_objective("v4_context_graph", "causal")
    ('causal', 'target')
    """
    is_causal = objective == USUAL_OBJECTIVE
    return TARGET_OBJECTIVE if is_causal and reads_commits(family) else objective


def need_index(families: Iterable[str]) -> bool:
    """Return True if one of the families needs the index of a compiler frontend."""
    return any(FAMILIES[name].needs_index for name in families)
