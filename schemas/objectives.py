"""The registry of objectives: what is learnt from a document.

A new objective is a file with its function and an entry here.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from schemas.registry import NameIn, Registry, imported


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveSpec:
    """One way to make tokens and targets of a document."""

    name: str
    revision: int
    """Revision of the rows' bytes, in keys: raise it with every change of them."""
    build: str
    """`module:function` of (Tokenizer, variant) -> Lesson, imported when rows are made."""
    variants: bool = False
    """True if variants of one document differ: each splits it otherwise."""
    may_be_cut: bool = False
    """True if a document may be cut at any token: what is behind needs nothing of what is before to be
    learnt."""
    by_line: bool = False
    """True if `score: new` judges its targets line by line. Under `score: new` every other objective scores
    no context."""

    @property
    def function(self) -> Any:
        """The build function."""
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
"""Targets of training rows.

new  lines that no earlier document of the same repository shows; fim scores no context
all  all that the objective scores
"""
PHASE_SET, ANCHOR_SET = "phase", "anchor"
FixedSet = Literal["anchor", "unseen", "later"]
FIXED_SETS: tuple[FixedSet, ...] = get_args(FixedSet)
"""Sets that are the same in every phase."""
SetName = Annotated[str, NameIn(OBJECTIVES, PHASE_SET, *FIXED_SETS)]
"""A set of validation rows.

phase       causal rows of the files that a phase serves, targets of its graphs, chat rows of its
            conversations, by their shares
anchor      the same documents for every phase, diet and tokenizer; a small diet reads the first of them
unseen      files of the repositories that the corpus holds out whole
later       lines that commits after the corpus' date added, to files of which older versions are trained on
<objective> rows of that objective, of what a phase serves with it; target of all graph documents
"""

USUAL_OBJECTIVE = "causal"
"""Default of every family but conversations."""
CHAT_OBJECTIVE = "chat"
"""The only one of conversations, and of nothing else."""
TARGET_OBJECTIVE = "target"
"""The one that only families of graphs have, whose documents end with a target."""
