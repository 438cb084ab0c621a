"""Nats and bytes of held-out documents: bits per byte, intervals over documents, paired too, and their files.

    evaluations/step=120/documents.parquet

Each evaluation leaves one, so that any two runs can be paired later, document by document.
"""

import math
import re
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.train.run_directory import EVALUATIONS, replace_whole
from schemas.held_out import MIN_DOCUMENTS
from schemas.job import EVALUATED_SCHEMA, Evaluation, EvaluationStratum

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
RESAMPLES = 1000
AT_ONCE = 100
"""Resamples drawn at a time."""
INTERVAL = (2.5, 97.5)
NAME = "documents.parquet"
_STEP = re.compile(r"step=(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentSums:
    """Nats, bytes and number of the scored tokens of each document, in the order of document_id."""

    document_ids: tuple[str, ...]
    nats: Floats
    num_bytes: Int64s
    tokens: Int64s

    @property
    def bits_per_byte(self) -> float:
        """Σ nats / ln 2 ÷ Σ bytes, the first sum rounded once, in whatever order they are."""
        return bits(math.fsum(self.nats.tolist()), int(self.num_bytes.sum()))

    def only(self, ids: Collection[str]) -> "DocumentSums":
        """Those of some documents."""
        kept = np.array([each in ids for each in self.document_ids], dtype=np.bool_)
        return DocumentSums(
            document_ids=tuple(each for each in self.document_ids if each in ids),
            nats=self.nats[kept],
            num_bytes=self.num_bytes[kept],
            tokens=self.tokens[kept],
        )


def bits(nats: float, num_bytes: int) -> float:
    """Bits per byte."""
    return nats / math.log(2) / num_bytes


def interval(
    strata: Sequence[DocumentSums], weights: Sequence[float], *, seed: int = 0
) -> tuple[float, float]:
    """95 % of the weighted mean's values when each stratum's documents are drawn anew, seeded.

    The draws are the same at every step, so intervals of a run differ by its weights only.

    Costs RESAMPLES · documents; AT_ONCE resamples are drawn together.
    """
    means = np.zeros(RESAMPLES)
    for number, (sums, weight) in enumerate(zip(strata, weights, strict=True)):
        (drawn,) = _resampled([sums], np.random.default_rng([seed, number]))
        means += weight / math.fsum(weights) * drawn
    return _between(means)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One stratum measured twice: sums of the same documents, in the same order, and its weight."""

    before: DocumentSums
    after: DocumentSums
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedChange:
    """Bits per byte after less before on the same documents, with its 95 % interval."""

    change: float
    low: float
    high: float
    documents: int

    @property
    def verdict(self) -> str:
        """`lower` or `higher` where the interval of documents enough leaves out 0, else empty."""
        if self.documents < MIN_DOCUMENTS or self.low <= 0 <= self.high:
            return ""
        return "lower" if self.change < 0 else "higher"


def paired_change(pairs: Sequence[Pair], *, seed: int = 0) -> PairedChange:
    """The weighted mean of what each stratum's bits per byte changed by, and its interval.

    Both sides of a pair have the same draws, so what makes a document hard in both doesn't widen it.
    """
    total = math.fsum(each.weight for each in pairs)
    means = np.zeros(RESAMPLES)
    change = 0.0
    for number, each in enumerate(pairs):
        assert each.before.document_ids == each.after.document_ids, "the same documents"
        generator = np.random.default_rng([seed, number])
        before, after = _resampled([each.before, each.after], generator)
        means += each.weight / total * (after - before)
        apart = each.after.bits_per_byte - each.before.bits_per_byte
        change += each.weight / total * apart
    low, high = _between(means)
    documents = sum(len(each.before.document_ids) for each in pairs)
    return PairedChange(change=change, low=low, high=high, documents=documents)


def _between(means: Floats) -> tuple[float, float]:
    low, high = np.percentile(means, INTERVAL)
    return float(low), float(high)


def _resampled(sides: Sequence[DocumentSums], generator: np.random.Generator) -> list[Floats]:
    """Bits per byte of each side in each resample; all sides have the same draws."""
    documents = len(sides[0].nats)
    chances = np.full(documents, 1 / documents)
    drawn: list[list[Floats]] = [[] for _ in sides]
    for _ in range(RESAMPLES // AT_ONCE):
        times = generator.multinomial(documents, chances, size=AT_ONCE).astype(np.float64)
        for side, found in zip(sides, drawn, strict=True):
            # A draw may hold no scored byte at all where few documents have any.
            num_bytes = np.maximum(times @ side.num_bytes.astype(np.float64), 1)
            found.append(times @ side.nats / math.log(2) / num_bytes)
    return [np.concatenate(found) for found in drawn]


def table_of(evaluation: Evaluation, sums: Sequence[DocumentSums]) -> pa.Table:
    """The documents of an evaluation's strata as a table of EVALUATED_SCHEMA."""
    parts = [
        _stratum_table(evaluation, stratum, each)
        for stratum, each in zip(evaluation.strata, sums, strict=True)
    ]
    return joined(parts)


def _stratum_table(
    evaluation: Evaluation, stratum: EvaluationStratum, sums: DocumentSums
) -> pa.Table:
    same = {
        "phase": evaluation.phase,
        "set": evaluation.set,
        "family": stratum.family,
        "objective": stratum.objective,
        "domain": stratum.domain,
        "row_length": stratum.rows.row_length,
        "rows_key": stratum.rows.key,
    }
    count = len(sums.document_ids)
    columns = {
        name: pa.repeat(pa.scalar(value, EVALUATED_SCHEMA.field(name).type), count)
        for name, value in same.items()
    }
    return pa.table(
        {
            **columns,
            "document_id": pa.array(sums.document_ids, pa.string()),
            "nats": sums.nats,
            "bytes": sums.num_bytes,
            "tokens": sums.tokens,
        },
        schema=EVALUATED_SCHEMA,
    )


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Tables of EVALUATED_SCHEMA as one, sorted."""
    whole = pa.concat_tables([EVALUATED_SCHEMA.empty_table(), *tables])
    first = EVALUATED_SCHEMA.names[: EVALUATED_SCHEMA.names.index("document_id") + 1]
    return whole.sort_by([(name, "ascending") for name in first])


def of_evaluation(table: pa.Table, evaluation: Evaluation) -> pa.Table:
    """The lines of one evaluation."""
    phase, name = pc.field("phase"), pc.field("set")
    return table.filter((phase == evaluation.phase) & (name == evaluation.set))


def file_at(run: Path, step: int) -> Path:
    """The file of a run's evaluation at a step."""
    return run / EVALUATIONS / f"step={step}" / NAME


SECONDS = b"seconds"
"""Metadata of a file: the time that its evaluation took, which is no part of what it found."""


def write(run: Path, step: int, table: pa.Table, *, seconds: float = 0.0) -> None:
    """Let the file of an evaluation appear whole: one row group."""
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
    """The documents of a run's evaluation at a step; None where there are none."""
    file = file_at(run, step)
    return parquet.read_table(file) if file.is_file() else None


def seconds_of(run: Path) -> float:
    """Seconds of all evaluations that a run has files of."""
    schemas = (parquet.read_schema(each) for each in (run / EVALUATIONS).glob(f"step=*/{NAME}"))
    return math.fsum(float((each.metadata or {}).get(SECONDS, 0)) for each in schemas)


def keep_only(run: Path, steps: Collection[int]) -> None:
    """Remove the files of all other steps: evaluations behind the checkpoint that a run resumes from."""
    for folder in (run / EVALUATIONS).glob("step=*"):
        found = _STEP.fullmatch(folder.name)
        if found is None or int(found[1]) not in steps:
            shutil.rmtree(folder)
