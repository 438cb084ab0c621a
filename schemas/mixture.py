"""The mixture: the rows that a diet selects for a phase, in training order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pydantic import JsonValue, PositiveInt

from schemas.document import SCHEMA_VERSION, required
from schemas.text import Strict


def cut_to(shares: Sequence[float], most: Sequence[float]) -> list[float]:
    """Return shares that are limited to `most`; the other shares are raised by a common factor.

    Both lists have the same order. The result sums to 1 if `most` sums to at least 1.

    >>> cut_to([0.5, 0.25, 0.25], [0.2, 1.0, 1.0])
    [0.2, 0.4, 0.4]
    """
    cut: set[int] = set()
    while True:
        left = 1 - math.fsum(most[at] for at in cut)
        free = math.fsum(share for at, share in enumerate(shares) if at not in cut)
        scale = left / free if free else 1.0
        over = {at for at, share in enumerate(shares) if at not in cut and share * scale > most[at]}
        if not over:
            return [most[at] if at in cut else share * scale for at, share in enumerate(shares)]
        cut |= over


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedShares:
    """Shares of the strata of a phase, adapted if there are too few rows."""

    shares: tuple[float, ...]
    """Shares that sum to 1, or all 0 if nothing is requested."""
    short: tuple[int, ...]
    """Indices of strata that need more than max_repetition times their tokens."""
    available: float
    """Tokens of all strata if each row is used max_repetition times, as a multiple of the budget."""


def served_shares(
    asked: Sequence[float],
    tokens: Sequence[int],
    *,
    budget: int,
    max_repetition: float,
    renormalises: bool,
) -> ServedShares:
    """Return the shares that a mixture gives to strata, whose numbers of valid tokens are `tokens`.

    With `renormalises`, shares are limited to the available tokens, if all strata together have enough.
    """
    whole = math.fsum(asked) or 1.0
    shares = [share / whole for share in asked]
    # A stratum with share 0 counts as left out.
    most = [
        max_repetition * available / max(budget, 1) if share else 0.0
        for share, available in zip(shares, tokens, strict=True)
    ]
    short = tuple(at for at, share in enumerate(shares) if share > most[at])
    available = math.fsum(most)
    if short and renormalises and available >= 1:
        shares = cut_to(shares, most)
    return ServedShares(shares=tuple(shares), short=short, available=available)


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
        required("attention_pairs", pa.int64()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""plan.parquet: one row per packed row, ordered by position. A slot has S tokens of one stratum and one row
length, where S is the phase's largest row length. `rows_key` is the full key of a rows artefact, `shard` is
the number of a file in it, and `row` is the number of the row in that file. Ranks distribute the rows of a
step so that their `attention_pairs` are balanced. A run that reaches the end of its budget trains on every
row; a gate may end it earlier.
"""

LEFT_OUT_NAME = "left_out.parquet"
LEFT_OUT_SCHEMA = pa.schema(
    [
        required("pack_id", pa.string()),
        required("rows_key", pa.string()),
        pa.field("stratum", pa.int32()),
        pa.field("slot", pa.int64()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""left_out.parquet of a plan that excludes rows: one row for each time that an excluded row would have come.
It has the slot of the row that came instead; the slot is null if the turn of the excluded row never came.
"""

BLOCK_SLOTS = 1024
"""Number of slots per block. Within a block, the number of rows of every stratum is exact, ± 1."""


class RowsTaken(Strict):
    """Numbers of rows of one artefact and domain that were used or are planned."""

    rows_key: str
    domain: str
    rows: int
    of: int
    """Number of available rows."""
    passed: int = 0
    """Number of excluded rows that were skipped on the way."""

    @property
    def repetition(self) -> float:
        """Mean number of times that a row is used."""
        return self.rows / self.of


class VariantReport(Strict):
    """Numbers of rows that a mixture takes of one variant of a stratum."""

    rows_key: str
    rows: PositiveInt
    """Number of available rows."""
    rows_tokens: int
    """Number of available valid tokens."""
    drawn: int
    drawn_before: int
    passed: int = 0
    """Number of excluded rows that were skipped."""


class StratumReport(Strict):
    """Numbers of rows that a mixture takes of one stratum.

    If there are several variants, `rows` and `rows_tokens` are means over the variants, `rows_key` is that of
    the first variant, and `drawn` counts the rows of all variants.
    """

    stratum: int
    serving: int
    family: str
    objective: str
    domain: str
    row_length: int
    rows_key: str
    rows: PositiveInt
    """Number of available rows."""
    rows_tokens: int
    """Number of available valid tokens."""
    share: float
    """Share of the phase's valid tokens that the diet requests."""
    served: float
    """Share after renormalisation if rows are too few; otherwise equal to `share`."""
    slots: int
    drawn: int
    """Number of rows in the mixture."""
    drawn_before: int
    """Number of rows that earlier phases drew from the same supply. The mixture continues after them."""
    tokens: int
    """Number of valid tokens in the mixture."""
    variants: tuple[VariantReport, ...] = ()
    """Counts by variant. Empty in mixtures of an earlier version, which had one variant per stratum."""
    imported: str = ""
    """Name of imported rows in the diet; empty for rows built from the corpus."""

    @property
    def title(self) -> str:
        """Title of its serving, for example v3_simple causal 512."""
        return f"{self.family} {self.objective} {self.row_length}"

    @property
    def repetition(self) -> float:
        """Mean number of times that a document of the stratum is used in this mixture."""
        return sum(variant.drawn / variant.rows for variant in self.by_variant)

    @property
    def by_variant(self) -> tuple[VariantReport, ...]:
        """Variants, with a single entry if there is only one."""
        only = VariantReport(
            rows_key=self.rows_key,
            rows=self.rows,
            rows_tokens=self.rows_tokens,
            drawn=self.drawn,
            drawn_before=self.drawn_before,
        )
        return self.variants or (only,)

    @property
    def rows_taken(self) -> tuple[RowsTaken, ...]:
        """Rows in the mixture by variant."""
        return tuple(
            RowsTaken(
                rows_key=variant.rows_key,
                domain=self.domain,
                rows=variant.drawn,
                of=variant.rows,
                passed=variant.passed,
            )
            for variant in self.by_variant
        )


class TokenRepetition(Strict):
    """Scored and distinct tokens of a mixture together with everything before it."""

    scored: int
    distinct: int
    """Number of distinct tokens. Tokens are distinct if they or the 15 tokens before them in the document
    differ (schemas/windows.py).
    """
    new: int
    """Number of distinct tokens of the mixture that don't occur before it."""
    limit: float
    """max_token_repetition of the phase."""

    @property
    def repetition(self) -> float:
        """Mean number of times that a distinct token is scored."""
        return self.scored / max(self.distinct, 1)


class Continued(Strict):
    """Training that a mixture continues: the steps of a run, and all rows that its model has read so far."""

    run: str
    """Key of the run."""
    step: int
    tokens: int
    """Valid tokens of these steps. The mixture's budget is the phase's budget without them."""
    seen: tuple[RowsTaken, ...]


class LeftOutRows(Strict):
    """Rows that a mixture must exclude; left_out.parquet lists all of them."""

    rows: int
    tokens: int
    """Number of valid tokens in these rows."""
    first: tuple[str, ...]
    """pack_ids of the first excluded rows, at most twenty."""


class MixtureReport(Strict):
    """Counts of a mixture, stored as the report in its manifest."""

    slot_length: PositiveInt
    slots: int
    rows: int
    tokens: int
    """Number of valid tokens in the mixture; at most the budget."""
    budget: int
    """Valid tokens that the phase may train on."""
    tokens_per_step: PositiveInt
    steps: int
    """Number of steps in the mixture: whole steps within the budget."""
    strata: tuple[StratumReport, ...]
    continued: Continued | None = None
    left_out: LeftOutRows | None = None
    repetition: TokenRepetition
    warnings: tuple[str, ...] = ()

    def dump(self) -> dict[str, JsonValue]:
        """Return the JSON of all fields."""
        return self.model_dump(mode="json")
