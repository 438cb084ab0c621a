"""The mixture plan: the rows that a diet selects, in training order."""

import pyarrow as pa

from schemas.arrow import required
from schemas.document import SCHEMA_VERSION
from schemas.text import Strict

PLAN_SCHEMA = pa.schema(
    [
        required("position", pa.int64()),
        required("slot", pa.int64()),
        required("serving", pa.int32()),
        required("stratum", pa.int32()),
        required("row_length", pa.int32()),
        required("rows_key", pa.string()),
        required("shard", pa.int32()),
        required("row", pa.int32()),
        required("pack_id", pa.string()),
        required("repetition", pa.int32()),
        required("valid_tokens", pa.int32()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""plan.parquet: one row a packed row, by position. A slot is S tokens of one stratum and one row length,
S the phase's largest; `rows_key` is the full key of a rows artefact, `shard` the number of its file,
`row` the row inside that file."""

BLOCK_SLOTS = 1024
"""In each run of so many slots every stratum has its exact count, ± 1."""


class StratumReport(Strict):
    """What a plan takes of one stratum: a serving in one domain."""

    stratum: int
    serving: int
    family: str
    objective: str
    domain: str
    row_length: int
    rows_key: str
    rows: int
    """Rows there are."""
    rows_tokens: int
    """Valid tokens there are."""
    share: float
    """Of the phase's valid tokens, as the diet says."""
    served: float
    """The share after a shortage was renormalised; else the same."""
    slots: int
    drawn: int
    """Rows of the plan."""
    drawn_before: int
    """Rows that earlier phases took of the same rows; the plan goes on after them."""
    tokens: int
    """Valid tokens of the plan."""

    @property
    def repetition(self) -> float:
        """Times that a row of the stratum is seen in this plan, on average."""
        return self.drawn / self.rows


class SourceRepetition(Strict):
    """How often source files are seen over all servings and phases so far."""

    lineages: int
    mean: float
    """Tokens seen ÷ distinct tokens."""
    limit: float
    above: int
    """Lineages that are seen more often than the limit."""
    most: tuple[tuple[str, float], ...]
    """The lineages that are seen most often, at most ten."""


class MixtureReport(Strict):
    """What a mixture counted; the report of its manifest."""

    slot_length: int
    slots: int
    rows: int
    tokens: int
    """Valid tokens of the plan, at least the budget."""
    budget: int
    """Valid tokens that the phase may train on."""
    tokens_per_step: int
    steps: int
    """Whole steps within the budget; the plan may go on past them, to the end of a step."""
    strata: tuple[StratumReport, ...]
    sources: SourceRepetition | None = None
    warnings: tuple[str, ...] = ()
