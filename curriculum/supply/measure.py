"""Tokens of the documents of each commit in rows of some length, by domain; totals scaled from samples."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from curriculum import encode, frames
from curriculum.objectives import objective_of
from curriculum.stages.row_sources import RowSource, apply_objective
from curriculum.stages.selection import decisions, val_lineages
from curriculum.store import Artefact
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.store import TokenStore
from schemas.families import CHAT_FAMILY
from schemas.objectives import CHAT_OBJECTIVE, USUAL_OBJECTIVE

Floats = npt.NDArray[np.float64]


def by_ratio(
    amounts: Floats, sizes: Floats, *, whole: float, population: int
) -> tuple[float, float]:
    """Estimate the total of all units, and its standard error; 0 for an error where all units are sampled.

    `amounts` and `sizes` [n] are those of the sampled units, `whole` is the size of all `population` units.
    The error is that of a ratio under simple sampling without replacement; of one unit it is the amount.

    >>> by_ratio(np.array([10.0, 20.0]), np.array([1.0, 2.0]), whole=30.0, population=20)
    (300.0, 0.0)
    >>> by_ratio(np.array([10.0, 26.0]), np.array([1.0, 2.0]), whole=3.0, population=2)
    (36.0, 0.0)
    """
    assert len(amounts) == len(sizes) <= population
    sampled = float(sizes.sum())
    if not sampled:
        return 0.0, 0.0
    total = float(amounts.sum()) * whole / sampled
    number = len(amounts)
    if number == population:
        return total, 0.0
    if number == 1:
        return total, total
    residuals = amounts - amounts.sum() / sampled * sizes
    variance = float(residuals @ residuals) / (number - 1)
    spread = number * (1 - number / population) * variance
    return total, whole / sampled * math.sqrt(spread)


MEASURES_SCHEMA = pl.Schema(
    {
        "unit": pl.String,
        "domain": pl.String,
        "tokens": pl.Int64,
        "documents": pl.Int64,
        "routed": pl.Int64,
    }
)
"""Columns by unit, a commit or a conversation, and domain: valid tokens of rows to train on, documents that
have some, and documents that are too long for such a row."""


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Kind:
    """Documents of a family in rows of some length."""

    family: str
    """Never v6_enriched: what has structure is as long as without."""
    row_length: int

    @property
    def objective(self) -> str:
        """The one that leaves most as it is."""
        return CHAT_OBJECTIVE if self.family == CHAT_FAMILY else USUAL_OBJECTIVE


def measure(
    kind: Kind, source: RowSource, selection: Artefact, tokenizer: Tokenizer
) -> pl.DataFrame:
    """A table of MEASURES_SCHEMA, of the documents that the selection keeps to train on; in no order."""
    built = objective_of(kind.objective, tokenizer, variant=0)
    room = kind.row_length - built.reserve
    fitter = encode.fitter_of(tokenizer, row_length=room, family=kind.family)
    picked = decisions(selection, source.documents)
    units = _units(source.documents)
    rows = []
    for fitted in encode.encode_documents(
        source.documents.files(),
        TokenStore.open(source.tokens.path),
        fitter,
        kept=picked.kept & ~picked.val,
        val=picked.val,
        val_lineages=val_lineages(selection),
        objective=apply_objective(built, row_length=kind.row_length),
    ):
        domain = picked.domains[int(picked.domain[fitted.row])]
        tokens = sum(len(encoding.ids) for encoding in fitted.encodings)
        routed = int(fitted.outcome == "routed")
        rows.append((units[fitted.row], domain, tokens, int(tokens > 0), routed))
    frame = pl.DataFrame(rows, schema=MEASURES_SCHEMA, orient="row")
    return frame.group_by("unit", "domain").sum()


def _units(documents: Artefact) -> list[str]:
    """Return the commit of each document; of a conversation its digest."""
    own = "blob" if documents.manifest.labels["family"] == CHAT_FAMILY else "commit"
    cited = frames.scan(documents.files(), ["provenance"]).select(
        pl.col("provenance").list.first().struct.field(own)
    )
    return cited.collect().to_series().to_list()
