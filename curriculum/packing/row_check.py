"""Check of a data set against the contract of packed rows, in one streaming pass over all columns.

Imported rows are checked too: missing columns are inferred where the contract allows it, and the report lists
every such fallback. A stored column with wrong values is always a fault; its values are never inferred
instead.

No byte may be scored twice. To check this, the byte ranges of all rows are compared by document. They are
partitioned by a hash of the document. Above a million ranges, the partitions are moved to disk, so memory
stays constant.
"""

import hashlib
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.packing.boundaries import Values
from curriculum.packing.packed_rows import KNOWN, REQUIRED, RowBatch, same_type
from curriculum.packing.read import format_of, require_same_groups
from curriculum.packing.rules import (
    CONTENT,
    EDGES,
    NAMES,
    SHAPES,
    STRUCTURE,
    CheckedRows,
    RowRule,
    Rule,
    row_of,
)
from schemas.document import PARTS
from schemas.errors import SchemaError, StoreError
from schemas.packed_row import COLUMNS, ROW_MULTIPLE, TEXT_PIECE, RowFormat

BATCH_TOKENS = 1 << 18
MAX_KEPT_FAULTS = 20
UNMARKED = "doc_starts or doc_ids"
CURE = "Rebuild with: curriculum build"


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """Violation of one rule by one row; if `row` is None, by a whole file."""

    rule: Rule
    shard: str
    row: int | None
    found: str
    cause: str

    def error(self) -> SchemaError:
        """Return the violation as an exception: `row 17 of part-00003.parquet: …; …. Rebuild with: …`."""
        name = self.shard if self.row is None else f"row {self.row} of {self.shard}"
        return SchemaError(name, self.found, cause=self.cause, cure=CURE)

    def __str__(self) -> str:
        return str(self.error())


@dataclass(kw_only=True, slots=True)
class CheckReport:
    """Counts and violations found by a check."""

    files: int = 0
    rows: int = 0
    positions: int = 0
    valid_tokens: int = 0
    scored_tokens: int = 0
    repeated_tokens: int = 0
    """Number of scored tokens in runs that repeat earlier tokens of their document."""
    fallbacks: list[str] = field(default_factory=list)
    """Missing columns, each with the values that are used instead."""
    faults: list[Violation] = field(default_factory=list)
    """The first `max_faults` faults."""
    num_faults: int = 0
    max_faults: int = MAX_KEPT_FAULTS

    def add(self, fault: Violation) -> None:
        """Count a fault; the first `max_faults` faults are also kept."""
        self.num_faults += 1
        if len(self.faults) < self.max_faults:
            self.faults.append(fault)

    def keep(self, rules: Sequence[RowRule], rows: CheckedRows, shard: str) -> CheckedRows:
        """Record the rows that violate one of the `rules`; return the other rows."""
        for rule in rules:
            if not len(rows) or not all(map(rows.batch.has, rule.needs or (rule.column,))):
                continue
            where = rule.where(rows, rule.column)
            wrong = rule.broken(rows, where)
            cause = rule.holds.format(**asdict(rows.batch.row_format))
            for row in np.flatnonzero(wrong).tolist():
                is_kept, number = len(self.faults) < self.max_faults, int(rows.numbers[row])
                found = rule.found(rows, where, row) if is_kept else ""
                fault = Violation(
                    rule=rule.invariant, shard=shard, row=number, found=found, cause=cause
                )
                self.add(fault)
            rows = rows.filter(~wrong)
        return rows

    def raise_first(self) -> None:
        """Raise the first fault, if there is one.

        Raises:
            SchemaError: names the shard, the row, the value and the violated rule.
        """
        if self.faults:
            raise self.faults[0].error()


def check(
    path: Path, *, row_format: RowFormat | None = None, max_faults: int = MAX_KEPT_FAULTS
) -> CheckReport:
    """Check a file, an artefact of rows, or a folder tree with several; about 12 Mtok/s per core.

    The files of a folder form one data set. Pass `row_format` for imported rows whose files don't contain it.

    Raises:
        SchemaError: if there are no rows. Faults of rows don't raise; they are in the report.
    """
    report = CheckReport(max_faults=max_faults)
    root = path.parent if path.is_file() else path
    for _, files in groupby(_files(path), key=lambda file: file.parent):
        with tempfile.TemporaryDirectory(prefix="check-rows-") as folder:
            coverage = Coverage(Path(folder))
            _DataSet(root=root, report=report, coverage=coverage, given=row_format).check([*files])
    if report.files == 0:
        raise SchemaError(
            str(path),
            cause="it contains no packed rows",
            cure="Give a Parquet file of rows, or a folder that contains such files",
        )
    return report


@dataclass(kw_only=True, slots=True)
class _DataSet:
    """Files of one folder, sorted by name."""

    root: Path
    report: CheckReport
    coverage: "Coverage"
    given: RowFormat | None
    row_length: int | None = None
    last_pack_id: bytes = b""

    def check(self, files: Sequence[Path]) -> None:
        """Check the files one after another, then compare the byte ranges of all files."""
        for path in files:
            self.report.files += 1
            shard = path.relative_to(self.root).as_posix()
            try:
                with parquet.File(path) as file:
                    self._check_file(file, shard)
                require_same_groups(path)
            except StoreError as refused:
                self._file_fault(shard, str(refused.value), refused.cause)
            except (pa.ArrowException, OSError) as unreadable:
                cause = "the file is damaged or isn't a Parquet file"
                self._file_fault(shard, str(unreadable).splitlines()[0], cause)
        self.coverage.finish(self.report)

    def _check_file(self, file: pq.ParquetFile, shard: str) -> None:
        row_format = self._format(file.schema_arrow, shard)
        if row_format is None or not self._columns_fit(file.schema_arrow, row_format, shard):
            return
        known = [name for name in file.schema_arrow.names if name in KNOWN]
        rows = max(1, BATCH_TOKENS // row_format.row_length)
        first = 0
        for batch in file.iter_batches(rows, columns=known, use_threads=False):
            batch.validate(full=True)
            columns = RowBatch(row_format=row_format, table=pa.Table.from_batches([batch]))
            self._check_batch(columns, first, shard)
            first += len(columns)
        self.report.rows += first
        self.report.positions += first * row_format.row_length

    def _check_batch(self, columns: RowBatch, first: int, shard: str) -> None:
        numbers = np.arange(first, first + len(columns), dtype=np.int64)
        found = CheckedRows(batch=columns, numbers=numbers, last_pack_id=self.last_pack_id)
        rows = self.report.keep((*SHAPES, *EDGES), found, shard)
        if not len(rows):
            return
        self.report.valid_tokens += int(rows.layout.valid.sum())
        self.report.scored_tokens += int(rows.tokens.loss_mask.sum(dtype=np.int64))
        self.report.repeated_tokens += int(rows.scored_repeats.sum())
        if columns.has("pack_id"):
            self.last_pack_id = rows.batch.text("pack_id")[-1]
        rows = self.report.keep(CONTENT, rows, shard)
        if len(rows) and columns.has("pieces") and columns.has("document_ids"):
            self.coverage.add(rows, shard)
        self.report.keep(STRUCTURE, rows, shard)

    def _format(self, schema: pa.Schema, shard: str) -> RowFormat | None:
        """Return the row format of a file.

        If it is invalid or differs between files, record a fault and return None.
        """
        try:
            row_format = self.given or format_of(schema, shard)
        except SchemaError as unknown:
            self._file_fault(shard, str(unknown.value), unknown.cause)
            return None
        length = row_format.row_length
        self.row_length = self.row_length or length
        if length != self.row_length:
            cause = f"other files of the data set have row_length {self.row_length}"
        elif length <= 0 or length % ROW_MULTIPLE:
            cause = f"row_length must be a positive multiple of {ROW_MULTIPLE}"
        else:
            return row_format
        self._file_fault(shard, f"row_length {length}", cause)
        return None

    def _columns_fit(self, schema: pa.Schema, row_format: RowFormat, shard: str) -> bool:
        """Return True if stored columns have the right types, and missing ones may be derived or inferred."""
        faults = list(_column_faults(schema, row_format))
        for found, cause in faults:
            self._file_fault(shard, found, cause)
        folder = shard.rpartition(PARTS if PARTS in shard else "/")[0].rstrip("/")
        for fallback in _fallbacks(schema):
            named = f"{folder}: {fallback}" if folder else fallback
            if named not in self.report.fallbacks:
                self.report.fallbacks.append(named)
        return not faults

    def _file_fault(self, shard: str, found: str, cause: str) -> None:
        self.report.add(Violation(rule=Rule.FILE, shard=shard, row=None, found=found, cause=cause))


RANGE = np.dtype(
    [
        *((name, np.uint64) for name in ("high", "low")),
        *((name, np.int32) for name in ("start", "end", "shard", "doc")),
        ("row", np.int64),
    ]
)
"""Byte range start:end of the document in slot `doc` of a row; high and low are the 128-bit hash of the
document.
"""
MAX_RANGES_IN_MEMORY = 1 << 20
PARTITIONS = 64
LABELS = ("objective", "variant")
"""Labels of rows: the same bytes may be scored again under other values of these labels."""


class Coverage:
    """Collector of the byte ranges of a data set, which finds ranges that overlap."""

    def __init__(self, folder: Path, *, max_ranges: int = MAX_RANGES_IN_MEMORY) -> None:
        """Prepare for ranges that don't fit into memory, which are written to the empty `folder`.

        The caller removes the folder.
        """
        self._folder = folder
        self._held: list[Values] = []
        self._max_ranges = max_ranges
        self._spilled = False
        self._shards: list[str] = []

    def add(self, rows: CheckedRows, shard: str) -> None:
        """Add the byte ranges of text in a shard's rows, which must have passed the CONTENT rules."""
        if shard not in self._shards[-1:]:
            self._shards.append(shard)
        ranges = _text_ranges(rows)
        ranges["shard"] = len(self._shards) - 1
        self._held.append(ranges)
        if sum(map(len, self._held)) > self._max_ranges:
            self._spill()

    def finish(self, report: CheckReport) -> None:
        """Record a fault for every range that overlaps an earlier range of its document."""
        for found in self._partitions():
            keys = [found[name] for name in ("row", "shard", "start", "low", "high")]
            ranges = found[np.lexsort(keys)]
            before, after = ranges[:-1], ranges[1:]
            same = (before["high"] == after["high"]) & (before["low"] == after["low"])
            for index in np.flatnonzero(same & (after["start"] < before["end"])).tolist():
                report.add(self._fault(before[index], after[index]))

    def _fault(self, first: np.void, second: np.void) -> Violation:
        later, earlier = sorted(
            (first, second), key=itemgetter("shard", "row", "doc"), reverse=True
        )
        start, end = second["start"], min(first["end"], second["end"])
        return Violation(
            rule=Rule.COVERAGE,
            shard=self._shards[later["shard"]],
            row=int(later["row"]),
            found=(
                f"bytes {start}:{end} of its document {later['doc']} are also in row {earlier['row']} of "
                f"{self._shards[earlier['shard']]}"
            ),
            cause="a byte must be scored only once per objective and variant",
        )

    def _spill(self) -> None:
        ranges = np.concatenate(self._held)
        self._held, self._spilled = [], True
        partition = ranges["high"] % PARTITIONS
        for number in range(PARTITIONS):
            with self._partition(number).open("ab") as file:
                ranges[partition == number].tofile(file)

    def _partitions(self) -> Iterator[Values]:
        if not self._spilled:
            yield np.concatenate([np.zeros(0, dtype=RANGE), *self._held])
            return
        self._spill()
        for number in range(PARTITIONS):
            yield np.fromfile(self._partition(number), dtype=RANGE)

    def _partition(self, number: int) -> Path:
        return self._folder / str(number)


def _text_ranges(rows: CheckedRows) -> Values:
    """Return the byte ranges of text; adjacent ranges are joined.

    The pieces 0:5, 5:9, 12:13 and 13:20 give 0:9 and 12:20.
    """
    columns, layout = rows.batch, rows.layout
    row, piece = row_of(columns.offsets("pieces")), columns.fields("pieces")
    text = piece["kind"] == TEXT_PIECE
    if not text.any():
        return np.zeros(0, dtype=RANGE)
    document = (layout.first_document[row] + piece["doc"])[text]
    start, end = piece["byte_start"][text], piece["byte_end"][text]
    begins = np.ones(len(start), dtype=np.bool_)
    begins[1:] = (document[1:] != document[:-1]) | (start[1:] != end[:-1])
    first = np.flatnonzero(begins)
    ranges = np.zeros(len(first), dtype=RANGE)
    names = _document_hashes(columns)[document[first]]
    ranges["high"], ranges["low"] = names[:, 0], names[:, 1]
    ranges["start"] = start[first]
    ranges["end"] = end[np.append(first[1:], len(end)) - 1]
    ranges["row"] = rows.numbers[layout.row[document[first]]]
    ranges["doc"] = layout.slot[document[first]]
    return ranges


def _document_hashes(columns: RowBatch) -> npt.NDArray[np.uint64]:
    """Return a hash of (document, objective, variant) for each document of the rows, as two words, [d, 2]."""
    labels = [columns.text(name) for name in LABELS if columns.has(name)]
    suffixes = [b"\0".join(label) for label in zip(*labels, strict=True)] or [b""] * len(columns)
    row = row_of(columns.offsets("document_ids")).tolist()
    ids = columns.texts("document_ids")
    digests = [
        hashlib.blake2b(name + b"\0" + suffixes[i], digest_size=16).digest()
        for i, name in zip(row, ids, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").reshape(-1, 2)


def _column_faults(schema: pa.Schema, row_format: RowFormat) -> Iterator[tuple[str, str]]:
    for column, cause in missing_columns(schema.names, row_format):
        yield f"no column {column}", cause
    for name in set(schema.names) & KNOWN.keys():
        if not same_type(schema.field(name).type, KNOWN[name]):
            yield f"{name} is {schema.field(name).type}", f"it must be {KNOWN[name]}"


def missing_columns(stored: Collection[str], row_format: RowFormat) -> Iterator[tuple[str, str]]:
    """Yield each missing column that can't be derived or inferred, with the reason."""
    for name in REQUIRED:
        if name not in stored:
            yield name, "the column is required and can't be derived"
    if not {*stored} & {"doc_starts", "doc_ids"} and not row_format.bos_marks_documents:
        yield (
            UNMARKED,
            "documents can't be found by their BOS, because there is none or it equals PAD",
        )
    if "valid_token_count" not in stored and row_format.pad_id == row_format.eos_id:
        yield "valid_token_count", "padding can't be distinguished from an EOS if PAD == EOS"
    missing = sorted({*NAMES} - {*stored})
    if missing and len(missing) < len(NAMES):
        yield ", ".join(missing), "either all structure columns are stored or none"


def _fallbacks(schema: pa.Schema) -> Iterator[str]:
    stored = set(schema.names)
    instead = {
        "target_ids": "derived from input_ids and loss_mask",
        "doc_starts": f"inferred from {'doc_ids' if 'doc_ids' in stored else 'BOS'}",
        "doc_ids": "derived from doc_starts" if "doc_starts" in stored else "inferred from BOS",
        "valid_token_count": "inferred from the last token that isn't PAD",
    }
    for column in COLUMNS:
        if column.name not in stored and column.name not in REQUIRED:
            yield f"{column.name} is not stored: {instead.get(column.name, 'left out')}"


def _files(path: Path) -> list[Path]:
    """Return the Parquet files to check.

    In a folder tree, these are the files with rows and those that can't be read.
    """
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*.parquet")) if _may_be_rows(file)]


def _may_be_rows(file: Path) -> bool:
    try:
        return bool({"pack_id", "target_ids", *REQUIRED} & set(parquet.read_schema(file).names))
    except (pa.ArrowException, OSError, StoreError):
        return True
