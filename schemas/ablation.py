"""An ablation: arms that differ in one thing, and claims about them that are fixed before training."""

from collections import Counter
from typing import Annotated, Literal, get_args

import pyarrow as pa
from pydantic import AfterValidator, Field, JsonValue, model_validator

from schemas.corpus import Name
from schemas.document import SCHEMA_VERSION, required
from schemas.objectives import FixedSet
from schemas.seeds import Seed
from schemas.text import Documented, Number

Direction = Literal["lower", "higher"]
View = Literal["file", "fim", "doc_to_code", "code_to_doc", "target", "target_cropped"]
"""Format of the held-out rows that a claim is judged on.

file            versions of files, token by token, as every run is measured
fim             the same files with their middle last, where the middle alone is scored
doc_to_code     the same files: bodies of functions behind their documentation
code_to_doc     the same files: documentation behind its code
target          targets of graphs with their context, in the longest rows of the diet
target_cropped  such targets in the shortest rows of the diet, so with less context
"""
FILE_VIEW: View = "file"
VIEWS: tuple[View, ...] = get_args(View)


def viewed_set(name: str, view: View) -> str:
    """Return a set in words, with its view where that isn't the usual one.

    >>> viewed_set("anchor", "file"), viewed_set("anchor", "fim")
    ('anchor', 'anchor fim')
    """
    return name if view == FILE_VIEW else f"{name} {view}"


Verdict = Literal["confirmed", "contradicted", "not seen", "too small to tell", "none"]
"""Outcome of a claim.

confirmed          the difference is on the claimed side, at least delta, and no accident
contradicted       it is on the other side, at least delta, and no accident
not seen           it is smaller than delta on either side
too small to tell  there are too few seeds to say any of these
none               there are fewer than MIN_SEEDS seeds, or the ablation's own controls failed
"""
BASE, NULL, CONTROL = "base", "null", "control"
CLAIMS_NAME, ARMS_NAME = "claims.parquet", "arms.parquet"
"""Files of a judged ablation."""
OWN_ARMS = (BASE, NULL, CONTROL)
"""Arms that each ablation has: the diet itself, the same with its rows in another order, and the same with a
quarter of its tokens."""
MIN_SEEDS = 5
"""Seeds below which a claim has no verdict."""


MAX_SEEDS, MAX_ARMS = 1000, 100
"""Seeds and arms of an ablation: each pair of them has a diet of its own in the workspace."""


def _of_a_diet(changes: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Let changes pass that can be merged with a diet; what is wrong in them the diet's own schema says."""
    if not isinstance(changes.get("study", {}), dict):
        raise ValueError("study is no mapping. Write for instance study: {document_mask: off}")
    phases = changes.get("phases", [])
    if not isinstance(phases, list) or not all(isinstance(phase, dict) for phase in phases):
        raise ValueError("phases is no list of phases. Write it as in a diet")
    if "trainer" in changes:
        raise ValueError(
            "another trainer can't be compared: it runs a command of its own. Take trainer out"
        )
    return changes


ArmChanges = Annotated[dict[str, JsonValue], AfterValidator(_of_a_diet)]
"""Changes of an arm to the diet of its ablation."""


def arm_title(arm: str, seed: int) -> str:
    """Return an arm and its seed in words.

    >>> arm_title("flat", 2)
    'flat, seed 2'
    """
    return f"{arm}, seed {seed}"


class Claim(Documented):
    """A claim: val_bpb of one arm lies below, or above, that of another at the end of their last phase."""

    claim: Annotated[str, Field(min_length=1)]
    """The claim in words."""
    arm: Name
    """The arm that it is about."""
    against: Name = BASE
    """The arm that it is compared with; base is the diet itself."""
    set: FixedSet = "anchor"
    """Held-out rows that it is judged on: the same of all arms, whatever they serve."""
    view: View = FILE_VIEW
    """Format of these rows; all but file are measured once, by each arm's last checkpoint."""
    direction: Direction = "lower"
    """The side that is claimed: lower val_bpb is better."""
    delta: Annotated[Number, Field(gt=0)] = 0.01
    """The smallest difference that matters, in bits per byte."""


class AblationSpec(Documented):
    """An ablation file."""

    name: Name
    """Its name in workspace and docs."""
    why: str = ""
    """The question that it answers, for people."""
    diet: str
    """The diet that all arms change: a name, or a path relative to this file."""
    arms: Annotated[dict[Name, ArmChanges], Field(min_length=1, max_length=MAX_ARMS)]
    """The changes of each arm to the diet, written as in a diet that extends it. Three arms are always
    trained: base, the diet itself; null, the same rows in another order; control, a quarter of its tokens."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=2, max_length=MAX_SEEDS)]
    """Seeds of initial weights and order of rows; every arm is trained with each."""
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]
    """Claims that are judged, fixed before anything is trained."""

    @model_validator(mode="after")
    def _sound(self) -> "AblationSpec":
        for name in self.arms:
            if name in OWN_ARMS:
                raise ValueError(
                    f"each ablation has an arm {name} of its own. Name the arm otherwise"
                )
        listed = (*OWN_ARMS[:1], *self.arms)
        for claim in self.claims:
            for name in (claim.arm, claim.against):
                if name not in listed:
                    raise ValueError(f"there is no arm {name}. Name one of {', '.join(listed)}")
            if claim.arm == claim.against:
                raise ValueError(f"the arm {claim.arm} is compared with itself. Name two arms")
        twice = next((seed for seed, times in Counter(self.seeds).items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"the seed {twice} is listed twice. Take it out")
        return self


ABLATION_SCHEMA = pa.schema(
    [
        required("ablation", pa.string()),
        required("claim", pa.string()),
        required("arm", pa.string()),
        required("against", pa.string()),
        required("set", pa.string()),
        required("view", pa.string()),
        required("direction", pa.string()),
        required("delta", pa.float64()),
        required("verdict", pa.string()),
        required("seeds", pa.int64()),
        required("difference", pa.float64()),
        required("low", pa.float64()),
        required("high", pa.float64()),
        required("p", pa.float64()),
        required("holm_p", pa.float64()),
        required("p_within", pa.float64()),
        pa.field("seeds_needed", pa.int64()),
        required("low_documents", pa.float64()),
        required("high_documents", pa.float64()),
        required("documents", pa.int64()),
        required("lineages", pa.int64()),
        pa.field("equal_tokens", pa.int64()),
        pa.field("equal_difference", pa.float64()),
        pa.field("equal_low", pa.float64()),
        pa.field("equal_high", pa.float64()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""ablations/…/claims.parquet: a line a claim, then null and control; differences are arm less against, and
those of equal_… when both had scored `equal_tokens` distinct tokens: null where that is at the end."""
ARMS_SCHEMA = pa.schema(
    [
        required("ablation", pa.string()),
        required("arm", pa.string()),
        required("seed", pa.int64()),
        required("set", pa.string()),
        required("view", pa.string()),
        required("val_bpb", pa.float64()),
        required("steps", pa.int64()),
        required("positions", pa.int64()),
        required("scored", pa.int64()),
        required("distinct", pa.int64()),
        required("run", pa.string()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""ablations/…/arms.parquet: a line an arm, seed, set and view: val_bpb at the end of the last phase, and
steps, row positions and scored tokens of all phases; `run` is the last run's path in the workspace."""
