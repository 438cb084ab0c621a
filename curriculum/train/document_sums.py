"""Losses and bytes of held-out documents: bits per byte, confidence intervals, paired changes, and files.

    evaluations/step=120/documents.parquet

Every evaluation writes such a file. Therefore, any two runs can be compared later, document by document.
"""

import math
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.train.run_directory import EVALUATIONS
from curriculum.whole_files import replace_whole
from schemas.held_out import HeldOutCount, WeightedStratum, held_out_count, satterthwaite
from schemas.job import EVALUATED_SCHEMA, Evaluation
from schemas.run_folders import STEP, number_of

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
NAME = "documents.parquet"


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentSums:
    """Sums over the scored tokens of each document: nats, bytes and tokens.

    Documents are sorted by document_id.
    """

    document_ids: tuple[str, ...]
    lineages: tuple[str, ...]
    """Lineage of each document."""
    nats: Floats
    num_bytes: Int64s
    tokens: Int64s

    @property
    def bits_per_byte(self) -> float:
        """Σ nats / ln 2 ÷ Σ bytes. The sum of nats is rounded only once, so that the order doesn't matter."""
        return bits(math.fsum(self.nats.tolist()), int(self.num_bytes.sum()))

    def select(self, ids: Collection[str]) -> "DocumentSums":
        """Return the sums of the documents in `ids`."""
        kept = np.array([document_id in ids for document_id in self.document_ids], dtype=np.bool_)
        return DocumentSums(
            document_ids=tuple(np.array(self.document_ids)[kept].tolist()),
            lineages=tuple(np.array(self.lineages)[kept].tolist()),
            nats=self.nats[kept],
            num_bytes=self.num_bytes[kept],
            tokens=self.tokens[kept],
        )


def bits(nats: float, num_bytes: int) -> float:
    """Convert nats to bits per byte."""
    return nats / math.log(2) / num_bytes


def interval(strata: Sequence[DocumentSums], weights: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the strata's weighted mean in bits per byte."""
    total = math.fsum(weights)
    pairs = zip(strata, weights, strict=True)
    return _interval([_jackknifed([sums], weight / total) for sums, weight in pairs])


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two measurements of a stratum on the same documents in the same order, and its weight."""

    before: DocumentSums
    after: DocumentSums
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedChange:
    """Change in bits per byte between two measurements of the same documents, with its 95 % interval."""

    change: float
    low: float
    high: float
    count: HeldOutCount

    @property
    def verdict(self) -> str:
        """`lower` or `higher` if enough documents were measured and the interval excludes 0, else empty."""
        if not self.count.is_sure or self.low <= 0 <= self.high:
            return ""
        return "lower" if self.change < 0 else "higher"


def paired_change(pairs: Sequence[Pair]) -> PairedChange:
    """Compute the weighted mean of the strata's changes in bits per byte, and its interval.

    The jackknife leaves out a lineage in both measurements at once. Therefore, a lineage that is difficult in
    both doesn't widen the interval.
    """
    assert all(pair.before.document_ids == pair.after.document_ids for pair in pairs)
    total = math.fsum(pair.weight for pair in pairs)
    strata = [_jackknifed([pair.after, pair.before], pair.weight / total) for pair in pairs]
    low, high = _interval(strata)
    return PairedChange(
        change=_mean(strata),
        low=low,
        high=high,
        count=held_out_count(
            [
                WeightedStratum(
                    weight=pair.weight,
                    documents=pair.after.document_ids,
                    lineages={*pair.after.lineages},
                )
                for pair in pairs
            ]
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Jackknifed:
    """Estimate of a stratum, and the estimates in which one lineage is left out."""

    share: float
    """Weight of the stratum divided by the total weight of all strata."""
    figure: float
    lineages: tuple[str, ...]
    without: Floats
    """Estimate without each lineage, [lineages]. Empty if there is only one lineage."""


def _jackknifed(sides: Sequence[DocumentSums], share: float) -> _Jackknifed:
    """Estimate a stratum's bits per byte, with all lineages and without each lineage.

    If `sides` has two measurements, their difference is estimated.
    """
    names, lineage_of = np.unique(sides[0].lineages, return_inverse=True)
    sizes_of = [np.bincount(lineage_of, side.num_bytes) for side in sides]
    scored = np.all([sizes > 0 for sizes in sizes_of], axis=0)
    figure, without = 0.0, np.zeros(int(scored.sum()) if scored.sum() > 1 else 0)
    for side, sign in zip(sides, (1, -1), strict=False):
        figure += sign * side.bits_per_byte
        if len(without):
            nats, sizes = (
                np.bincount(lineage_of, values)[scored] for values in (side.nats, side.num_bytes)
            )
            without += sign * (nats.sum() - nats) / math.log(2) / (sizes.sum() - sizes)
    return _Jackknifed(
        share=share, figure=figure, lineages=tuple(names[scored].tolist()), without=without
    )


def _mean(strata: Sequence[_Jackknifed]) -> float:
    return math.fsum(stratum.share * stratum.figure for stratum in strata)


def _interval(strata: Sequence[_Jackknifed]) -> tuple[float, float]:
    """Return the 95 % interval of the strata's mean: a stratified jackknife over lineages, and Student's t.

    A lineage in several strata is left out of all of them at once. A stratum with a single lineage is assumed
    to have the variance of the other strata. If there are no others, the interval has width 0. Sources: W. G.
    Cochran, Sampling Techniques (1977), 5.4 and 5A.12; J. N. K. Rao and C. F. J. Wu, JASA 83 (1988), 231.
    """
    moved: dict[str, float] = defaultdict(float)
    alone: dict[str, float] = defaultdict(float)
    variances, freedom, spreads = [], [], []
    for stratum in strata:
        count = len(stratum.lineages)
        if count == 1:
            alone[stratum.lineages[0]] += stratum.share
            continue
        unweighted = math.sqrt((count - 1) / count) * (stratum.without - stratum.figure)
        by = stratum.share * unweighted
        for lineage, change in zip(stratum.lineages, by.tolist(), strict=True):
            moved[lineage] += change
        variances.append(float(by @ by))
        freedom.append(count - 1)
        spreads.append(count * float(unweighted @ unweighted))
    variance = math.fsum(change**2 for change in moved.values())
    if alone and freedom:
        spread = float(np.average(spreads, weights=freedom))
        variances.append(spread * math.fsum(share**2 for share in alone.values()))
        freedom.append(sum(freedom))
        variance += variances[-1]
    free = min(satterthwaite(variances, freedom), len(moved | alone) - 1)
    students = np.interp(1 / max(free, 1), [1 / degrees for degrees in _FREEDOM], _T)
    half = math.sqrt(variance) * float(students)
    mean = _mean(strata)
    return mean - half, mean + half


_FREEDOM = (math.inf, 60, 30, 20, 14, 10, 8, 6, 5, 4, 3, 2, 1)
_T = (1.960, 2.000, 2.042, 2.086, 2.145, 2.228, 2.306, 2.447, 2.571, 2.776, 3.182, 4.303, 12.706)
"""97.5 % points of Student's t for the degrees of freedom in _FREEDOM. Values in between are interpolated."""


def table_of(evaluation: Evaluation, sums: Sequence[DocumentSums]) -> pa.Table:
    """Return the documents of an evaluation's strata as a table of EVALUATED_SCHEMA."""
    parts = []
    for stratum, own in zip(evaluation.strata, sums, strict=True):
        same = {
            "phase": evaluation.phase,
            "set": evaluation.set,
            "family": stratum.family,
            "objective": stratum.objective,
            "domain": stratum.domain,
            "row_length": stratum.rows.row_length,
            "rows_key": stratum.rows.key,
        }
        columns = {
            **{name: [value] * len(own.document_ids) for name, value in same.items()},
            "document_id": own.document_ids,
            "lineage": own.lineages,
            "nats": own.nats,
            "bytes": own.num_bytes,
            "tokens": own.tokens,
        }
        parts.append(pa.table(columns, schema=EVALUATED_SCHEMA))
    return concat_tables(parts)


def concat_tables(tables: Iterable[pa.Table]) -> pa.Table:
    """Concatenate tables of EVALUATED_SCHEMA, and sort the rows."""
    whole = pa.concat_tables([EVALUATED_SCHEMA.empty_table(), *tables])
    first = EVALUATED_SCHEMA.names[: EVALUATED_SCHEMA.names.index("document_id") + 1]
    return whole.sort_by([(name, "ascending") for name in first])


def filter_evaluation(table: pa.Table, evaluation: Evaluation) -> pa.Table:
    """Return the rows of `table` that belong to one evaluation."""
    phase, name = pc.field("phase"), pc.field("set")
    return table.filter((phase == evaluation.phase) & (name == evaluation.set))


def file_at(run: Path, step: int) -> Path:
    """Return the path of the file with a run's evaluation at a step."""
    return run / EVALUATIONS / f"{STEP}{step}" / NAME


SECONDS = b"seconds"
"""Metadata key for the duration of an evaluation. It is metadata, since it isn't part of the results."""


def write(run: Path, step: int, table: pa.Table, *, seconds: float = 0.0) -> None:
    """Write the file of an evaluation atomically and as one row group."""
    file = file_at(run, step)
    table = table.replace_schema_metadata(
        {**EVALUATED_SCHEMA.metadata, SECONDS: f"{seconds:.3f}".encode()}
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    size = max(len(table), 1)
    replace_whole(
        file,
        lambda path: pq.write_table(table, path, compression="zstd", row_group_size=size),
    )


def read(run: Path, step: int) -> pa.Table | None:
    """Read the documents of a run's evaluation at a step. None if there was no evaluation."""
    file = file_at(run, step)
    return parquet.read_table(file) if file.is_file() else None


def seconds_of(run: Path) -> float:
    """Return the total duration of a run's evaluations in seconds."""
    schemas = (parquet.read_schema(path) for path in (run / EVALUATIONS).glob(f"{STEP}*/{NAME}"))
    return math.fsum(float((schema.metadata or {}).get(SECONDS, 0)) for schema in schemas)


def keep_only(run: Path, steps: Collection[int]) -> None:
    """Remove the evaluation files of all steps that aren't in `steps`.

    They are left from evaluations after the checkpoint from which a run resumes.
    """
    for folder in (run / EVALUATIONS).glob(f"{STEP}*"):
        if number_of(folder.name, STEP) not in steps:
            shutil.rmtree(folder)
