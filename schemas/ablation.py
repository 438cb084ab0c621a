"""Ablation files: arms that change a diet, and claims about them that are fixed before training."""

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
"""Format of the held-out rows on which a claim is judged.

file            whole versions of files, the usual validation rows
fim             the same files in fill-in-the-middle order; only the middle is scored
doc_to_code     the same files: function bodies after their documentation
code_to_doc     the same files: documentation after its code
target          targets of graph documents with their context, in the diet's longest rows
target_cropped  the same targets in the diet's shortest rows, so with less context"""
FILE_VIEW: View = "file"
VIEWS: tuple[View, ...] = get_args(View)


def viewed_set(name: str, view: View) -> str:
    """Return the title of a validation set. The view is only named if it isn't the usual one.

    >>> viewed_set("anchor", "file"), viewed_set("anchor", "fim")
    ('anchor', 'anchor fim')
    """
    return name if view == FILE_VIEW else f"{name} {view}"


Verdict = Literal["confirmed", "contradicted", "not seen", "too small to tell", "none"]
"""Outcome of a claim.

confirmed          the difference is significant, on the claimed side and at least delta
contradicted       the difference is significant, on the other side and at least delta
not seen           the difference is smaller than delta in both directions
too small to tell  too few seeds to reach any of these verdicts
none               fewer than MIN_SEEDS seeds, or the ablation's control arms failed"""
BASE, NULL, CONTROL = "base", "null", "control"
CLAIMS_NAME, ARMS_NAME = "claims.parquet", "arms.parquet"
"""Names of the files in which an ablation stores its verdicts and the figures of its arms."""
OWN_ARMS = (BASE, NULL, CONTROL)
"""Built-in arms of every ablation: the unchanged diet, the diet with another row order, and the diet with
a quarter of its tokens."""
MIN_SEEDS = 5
"""Minimum number of seeds for a verdict."""


MAX_SEEDS, MAX_ARMS = 1000, 100
"""Maximum number of seeds and of arms. Each arm with each seed writes a diet into the workspace."""


def _of_a_diet(changes: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the changes of an arm if they can be merged into a diet. The diet's schema checks them later."""
    if not isinstance(changes.get("study", {}), dict):
        raise ValueError("study must be a mapping. Write for instance study: {document_mask: off}")
    phases = changes.get("phases", [])
    if not isinstance(phases, list) or not all(isinstance(phase, dict) for phase in phases):
        raise ValueError("phases must be a list of phases. Write it as in a diet")
    if "trainer" in changes:
        raise ValueError(
            "an external trainer can't be compared, because it runs its own command. Remove trainer"
        )
    return changes


ArmChanges = Annotated[dict[str, JsonValue], AfterValidator(_of_a_diet)]
"""Changes that an arm makes to the diet of its ablation."""


def arm_title(arm: str, seed: int) -> str:
    """Return the title of an arm that is trained with a seed.

    >>> arm_title("flat", 2)
    'flat, seed 2'
    """
    return f"{arm}, seed {seed}"


class Claim(Documented):
    """A claim: one arm ends its last phase with a lower (or higher) val_bpb than another arm."""

    claim: Annotated[str, Field(min_length=1)]
    """The claim as a sentence for readers."""
    arm: Name
    """Arm that the claim is about."""
    against: Name = BASE
    """Arm to compare with; base is the unchanged diet."""
    set: FixedSet = "anchor"
    """Validation set on which the claim is judged. All arms are measured on the same rows, whatever they
    train on."""
    view: View = FILE_VIEW
    """Format of the validation rows. Any view other than file is measured only once, with the last
    checkpoint of each arm.
    """
    direction: Direction = "lower"
    """Claimed direction of the difference; lower val_bpb is better."""
    delta: Annotated[Number, Field(gt=0)] = 0.01
    """Smallest difference that matters, in bits per byte."""


class AblationSpec(Documented):
    """An ablation file."""

    name: Name
    """Name of the ablation in the workspace and in documentation."""
    why: str = ""
    """Question that the ablation answers, for readers."""
    diet: str
    """Diet that all arms change: a name, or a path relative to this file."""
    arms: Annotated[dict[Name, ArmChanges], Field(min_length=1, max_length=MAX_ARMS)]
    """Changes of each arm to the diet, written as in a diet that extends it. Three more arms are always
    trained: base, the unchanged diet; null, the same rows in another order; control, a quarter of the
    tokens."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=2, max_length=MAX_SEEDS)]
    """Seeds of the initial weights and of the row order. Every arm is trained once per seed."""
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]
    """Claims to judge, fixed before any arm is trained."""

    @model_validator(mode="after")
    def _sound(self) -> "AblationSpec":
        for name in self.arms:
            if name in OWN_ARMS:
                raise ValueError(f"{name} is a built-in arm of every ablation. Choose another name")
        listed = (*OWN_ARMS[:1], *self.arms)
        for claim in self.claims:
            for name in (claim.arm, claim.against):
                if name not in listed:
                    raise ValueError(f"unknown arm {name}. Available: {', '.join(listed)}")
            if claim.arm == claim.against:
                raise ValueError(
                    f"the arm {claim.arm} is compared with itself. Name two different arms"
                )
        twice = next((seed for seed, times in Counter(self.seeds).items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"the seed {twice} is listed twice. Remove one of them")
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
"""ablations/…/claims.parquet: one row per claim, then one each for null and control. Differences are
`arm` minus `against`. The `equal_…` columns compare both arms at the point where each has seen
`equal_tokens` distinct scored tokens. They are null if that point is the end of training.
"""
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
"""ablations/…/arms.parquet: one row per arm, seed, set and view. val_bpb is measured at the end of the
last phase. Steps, positions and scored tokens are sums over all phases. `run` is the workspace path of
the last run.
"""
