"""The mixture plan: the rows that a diet selects, in training order."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pydantic import JsonValue, PositiveInt

from schemas.document import SCHEMA_VERSION, required
from schemas.text import Strict


def cut_to(shares: Sequence[float], most: Sequence[float]) -> list[float]:
    """Shares cut to `most`, the others raised alike in their place; both in the same order.

    They sum to 1 where `most` sums to 1 at least.

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
    """Shares of a phase's strata in a mix of a budget."""

    shares: tuple[float, ...]
    """Sum 1, but for a mix of which nothing is asked."""
    short: tuple[int, ...]
    """Places of the strata of which more is asked than max_repetition times what there is."""
    available: float
    """Tokens of all strata at max_repetition, as a multiple of the budget."""


def served_shares(
    asked: Sequence[float],
    tokens: Sequence[int],
    *,
    budget: int,
    max_repetition: float,
    renormalises: bool,
) -> ServedShares:
    """Return the shares that a mix serves of strata with so many valid tokens each.

    A mix that renormalises cuts shares to what there is, where the strata have enough together.
    """
    whole = math.fsum(asked) or 1.0
    shares = [share / whole for share in asked]
    # A stratum that nothing is asked of is as good as left out.
    most = [
        max_repetition * there / max(budget, 1) if share else 0.0
        for share, there in zip(shares, tokens, strict=True)
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
"""plan.parquet: one row a packed row, by position. A slot is S tokens of one stratum and one row length,
S the phase's largest; `rows_key` is the full key of a rows artefact, `shard` the number of its file,
`row` the row inside that file. Ranks share a step's rows by their `attention_pairs`. Every row is trained
on by a run that reaches the end of its budget; a gate may end it before."""

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
"""Beside a plan that leaves rows out: each of them, a line a time that it would have come, with the
slot of the row that came in its place; one line without slot for a row whose turn never was."""

BLOCK_SLOTS = 1024
"""Slots of a block, in which every stratum has its exact count, ± 1."""


class RowsTaken(Strict):
    """Rows of one artefact in one domain, that were seen or are planned to be."""

    rows_key: str
    domain: str
    rows: int
    of: int
    """Rows there are."""
    passed: int = 0
    """Rows whose turn it was meanwhile, and that are left out."""

    @property
    def repetition(self) -> float:
        """Times that a row is seen, on average."""
        return self.rows / self.of


class VariantReport(Strict):
    """Rows that a plan takes of one variant of a stratum."""

    rows_key: str
    rows: PositiveInt
    """Rows there are."""
    rows_tokens: int
    """Valid tokens there are."""
    drawn: int
    drawn_before: int
    passed: int = 0
    """Rows whose turn it was, and that are left out."""


class StratumReport(Strict):
    """Rows that a plan takes of one stratum: a serving in one domain.

    Of several variants `rows` and `rows_tokens` are those of one pass, on average, `rows_key` is that of
    the first, and `drawn` counts the rows of all.
    """

    stratum: int
    serving: int
    family: str
    objective: str
    domain: str
    row_length: int
    rows_key: str
    rows: PositiveInt
    """Rows there are."""
    rows_tokens: int
    """Valid tokens there are."""
    share: float
    """Share of the phase's valid tokens in the diet."""
    served: float
    """The share after a shortage was renormalised; else the same."""
    slots: int
    drawn: int
    """Rows of the plan."""
    drawn_before: int
    """Rows that earlier phases took of the same rows; the plan continues after them."""
    tokens: int
    """Valid tokens of the plan."""
    variants: tuple[VariantReport, ...] = ()
    """Empty in plans of an earlier version, which had one of each."""
    imported: str = ""
    """Name of imported rows in the diet; empty where they are built of the corpus."""

    @property
    def title(self) -> str:
        """Its serving in words: v3_simple causal 512."""
        return f"{self.family} {self.objective} {self.row_length}"

    @property
    def repetition(self) -> float:
        """Times that each document of the stratum is seen in this plan, on average."""
        return sum(each.drawn / each.rows for each in self.by_variant)

    @property
    def by_variant(self) -> tuple[VariantReport, ...]:
        """The variants, also where there is one."""
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
        """The rows of the plan, by variant."""
        return tuple(
            RowsTaken(
                rows_key=each.rows_key,
                domain=self.domain,
                rows=each.drawn,
                of=each.rows,
                passed=each.passed,
            )
            for each in self.by_variant
        )


class TokenRepetition(Strict):
    """Scored and distinct tokens of a plan and of what was read before it."""

    scored: int
    distinct: int
    """A token counts once for the same 15 tokens before it in its document (schemas/windows.py)."""
    new: int
    """Distinct tokens of the plan that nothing read before it showed."""
    limit: float
    """max_token_repetition of the phase."""

    @property
    def repetition(self) -> float:
        """Times that a distinct token is scored, on average."""
        return self.scored / max(self.distinct, 1)


class Continued(Strict):
    """The steps of a run that a plan continues from, and all rows that its model has seen till then."""

    run: str
    """Its key."""
    step: int
    tokens: int
    """Valid tokens of those steps; the plan's budget is the phase's without them."""
    seen: tuple[RowsTaken, ...]


class LeftOutRows(Strict):
    """Rows that a plan must not hold; left_out.parquet beside it lists all of them."""

    rows: int
    tokens: int
    """Their valid tokens."""
    first: tuple[str, ...]
    """pack_ids, at most twenty."""


class MixtureReport(Strict):
    """Counts of a mixture; the report of its manifest."""

    slot_length: PositiveInt
    slots: int
    rows: int
    tokens: int
    """Valid tokens of the plan, at most the budget."""
    budget: int
    """Valid tokens that the phase may train on."""
    tokens_per_step: PositiveInt
    steps: int
    """Steps of the plan: the whole ones within the budget."""
    strata: tuple[StratumReport, ...]
    continued: Continued | None = None
    left_out: LeftOutRows | None = None
    repetition: TokenRepetition
    warnings: tuple[str, ...] = ()

    def dump(self) -> dict[str, JsonValue]:
        """Return the JSON of all fields."""
        return self.model_dump(mode="json")
