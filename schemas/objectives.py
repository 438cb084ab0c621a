"""The registry of objectives: how training targets are made from a document.

A new objective needs a module with its function and an entry here.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from schemas.registry import NameIn, Registry, imported


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveSpec:
    """One way to turn a document into tokens and targets."""

    name: str
    revision: int
    """Version of the rows' bytes, part of artefact keys. Raise it whenever the bytes change."""
    build: str
    """`module:function` that takes (Tokenizer, variant) and returns the objective. It is imported when rows
    are made.
    """
    variants: bool = False
    """True if a document has several variants, each with another split."""
    may_be_cut: bool = False
    """True if a document may be cut at any token, because the second piece can be trained on by itself."""
    by_line: bool = False
    """True if `score: new` decides line by line which targets to score. With other objectives, it leaves
    context unscored.
    """

    @property
    def function(self) -> Any:
        """The imported build function."""
        return imported(self.build)


OBJECTIVES: Registry[ObjectiveSpec] = Registry(
    [
        ObjectiveSpec(
            name="causal",
            revision=1,
            build="curriculum.objectives.causal:objective",
            may_be_cut=True,
            by_line=True,
        ),
        ObjectiveSpec(
            name="fim", revision=2, build="curriculum.objectives.fim:objective", variants=True
        ),
        ObjectiveSpec(
            name="code_to_doc",
            revision=2,
            build="curriculum.objectives.documentation:code_to_doc",
        ),
        ObjectiveSpec(
            name="doc_to_code",
            revision=2,
            build="curriculum.objectives.documentation:doc_to_code",
        ),
        ObjectiveSpec(
            name="target",
            revision=1,
            build="curriculum.objectives.causal:target",
            by_line=True,
        ),
        ObjectiveSpec(
            name="chat", revision=3, build="curriculum.objectives.chat_objective:objective"
        ),
    ]
)
ObjectiveName = Annotated[str, NameIn(OBJECTIVES)]
Score = Literal["new", "all"]
"""Scored targets of training rows.

new  lines that no earlier document of the same repository shows; fim scores no context
all  all targets of the objective"""
PHASE_SET, ANCHOR_SET = "phase", "anchor"
FixedSet = Literal["anchor", "unseen", "later"]
FIXED_SETS: tuple[FixedSet, ...] = get_args(FixedSet)
"""Validation sets that are the same in every phase."""
SetName = Annotated[str, NameIn(OBJECTIVES, PHASE_SET, *FIXED_SETS)]
"""Name of a validation set.

phase        everything that a phase serves by its shares: causal rows of files, targets of graph documents,
chat rows of conversations
anchor       the same documents for every phase, diet and tokenizer; a small diet measures only the first of
them
unseen       files of repositories that the corpus holds out as a whole
later        lines added by commits after the corpus's date, in files with older versions in the training
set
<objective>  rows of that objective that a phase serves; target covers all graph documents"""

USUAL_OBJECTIVE = "causal"
"""Default objective of every family except conversations."""
CHAT_OBJECTIVE = "chat"
"""Objective of conversations and of no other family."""
TARGET_OBJECTIVE = "target"
"""Objective of graph families only, whose documents end with a target."""
