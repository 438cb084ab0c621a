"""The registry of document families: how each kind of document is made, and of what.

A new family is a file with its render function and an entry here; diets, stages, catalog and pages take
their lists from this registry.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from schemas.objectives import TARGET_OBJECTIVE, USUAL_OBJECTIVE
from schemas.registry import NameIn, Registry, imported

Reads = Literal["changes", "commits", "documents", "conversations"]
"""The input of a family.

changes         one file's change at a time      commits        a commit within its repository's graph
documents       the documents of another family  conversations  a conversation at a time
"""
TooLong = Literal["divide", "route"]
"""The fate of a document that is longer than a row when all that is elidable is gone.

divide  cut it into several encodings
route   leave it to longer rows: its target stands last and is useless in pieces

Conversations are never divided: `overlong` in the corpus file is the fate of those.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class FamilySpec:
    """One kind of document."""

    name: str
    reads: Reads
    revision: int
    """Revision of the documents' bytes, in keys: raise it with every change of them."""
    render: str
    """`module:function`, imported when documents are made. By what it reads:

    changes        (FileChange, family) -> Iterable[Document | Reason | Count]
    shows_file     (FileChange, family, full_file: FullFile) -> the same
    commits        (CommitChange, RepositoryGraph, family) -> Rendered
    documents      (Document) -> Structure
    conversations  (Conversation) -> Document
    """
    too_long: TooLong = "divide"
    needs_index: bool = False
    """True if its graph is a compiler frontend's, so that a repository without an index has none of it."""
    stand_in: str = ""
    """The family that shows the commits of which it has no document, and whose supply is taken for its own
    while a repository's index isn't made yet."""
    edits_only: bool = False
    """True if it shows a file only where it was edited, never where it was new: changes of a corpus file
    chooses among the edits."""
    shows_file: bool = False
    """True if full_file of a corpus file says what it shows of a file."""

    @property
    def function(self) -> Any:
        """The render function."""
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
"""Whole files, each version once: a tokenizer's texts, the anchor and the base of structure in short rows."""
CONTEXT_FAMILY = "v4_context_graph"
"""The base of structure in rows longer than files need."""
EDIT_FAMILY = "edit"
ENRICHED_FAMILY = "v6_enriched"
CHAT_FAMILY = "chat"


def families_of(reads: Reads) -> tuple[str, ...]:
    """Names of the families that read one kind of input, in the order of the registry."""
    return tuple(name for name, family in FAMILIES.items() if family.reads == reads)


def reads_commits(family: str) -> bool:
    """Return True for a family of graphs; False also for a name that only imported rows have."""
    known = FAMILIES.get(family)
    return known is not None and known.reads == "commits"


def held_out_objective(family: str, objective: str) -> str:
    """Return the objective of the validation rows that measure an objective's rows of a family.

    Of graphs targets alone are scored, since their context may be of files that are trained on.

    >>> held_out_objective("v2_simple", "causal"), held_out_objective("v4_context_graph", "causal")
    ('causal', 'target')
    """
    is_causal = objective == USUAL_OBJECTIVE
    return TARGET_OBJECTIVE if is_causal and reads_commits(family) else objective


def need_index(families: Iterable[str]) -> bool:
    """Return True if one of the families needs what a compiler frontend knows of a repository."""
    return any(FAMILIES[name].needs_index for name in families)
