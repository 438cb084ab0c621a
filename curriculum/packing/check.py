"""Check of a data set against the contract of the packed row, in one streaming pass over all columns.

    rules.py            rules 1 to 4, 6 and 8
    document_rules.py   rules 5 and 7
    repeats.py          repeats, for rule 8

Rows that others wrote are checked too: columns that may be inferred are, and the report names each such
fallback. What is stored and wrong is a fault, never a reason to infer.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum import parquet
from curriculum.packing import rules
from curriculum.packing.boundaries import Layout
from curriculum.packing.document_rules import NAMES, Coverage, structure
from curriculum.packing.read import format_of
from curriculum.packing.rows import KNOWN, REQUIRED, RowBatch, same_type
from curriculum.packing.rules import BatchPosition, Rule, Violation, Violations, repeats
from schemas.document import PARTS
from schemas.errors import SchemaError, StoreError
from schemas.packed_row import COLUMNS, ROW_MULTIPLE, RowFormat

BATCH_TOKENS = 1 << 18
KEPT_FAULTS = 20


@dataclass(kw_only=True, slots=True)
class CheckReport:
    """Counts and violations of a check."""

    files: int = 0
    rows: int = 0
    positions: int = 0
    valid_tokens: int = 0
    scored_tokens: int = 0
    repeated_tokens: int = 0
    """Scored tokens in runs that are earlier in their document, too."""
    fallbacks: list[str] = field(default_factory=list)
    """RowBatch that aren't stored, and what stands in for them."""
    faults: list[Violation] = field(default_factory=list)
    """The first ones."""
    num_faults: int = 0

    def raise_first(self) -> None:
        """Raise the first fault, if there is one.

        Raises:
            SchemaError: naming shard, row, what was found and why that can't be.
        """
        if self.faults:
            raise self.faults[0].error()


def check(
    path: Path, *, row_format: RowFormat | None = None, kept_faults: int = KEPT_FAULTS
) -> CheckReport:
    """Check a file, an artefact of rows or a folder tree with several; some 12 Mtok/s a core.

    The files of one folder are one data set. `row_format` is for rows of others, whose files don't carry
    one.

    Raises:
        SchemaError: where there are no rows at all. What is wrong with rows is in the report.
    """
    report, faults = CheckReport(), Violations(limit=kept_faults)
    root = path.parent if path.is_file() else path
    for _, files in groupby(_files(path), key=lambda file: file.parent):
        with tempfile.TemporaryDirectory(prefix="check-rows-") as folder:
            _DataSet(root, report, faults, Coverage(Path(folder)), row_format).check(list(files))
    report.faults, report.num_faults = faults.kept, faults.count
    if report.files == 0:
        raise SchemaError(
            str(path),
            cause="there are no packed rows in it",
            cure="Give a Parquet file of rows, or a folder that holds some",
        )
    return report


class _DataSet:
    """The files of one folder, in name order."""

    def __init__(
        self,
        root: Path,
        report: CheckReport,
        faults: Violations,
        coverage: Coverage,
        row_format: RowFormat | None,
    ) -> None:
        self._root = root
        self._report = report
        self._faults = faults
        self._coverage = coverage
        self._given = row_format
        self._row_length: int | None = None

    def check(self, files: Sequence[Path]) -> None:
        """Check the files one after another, then what spans them."""
        for path in files:
            self._report.files += 1
            shard = path.relative_to(self._root).as_posix()
            try:
                with parquet.File(path) as file:
                    self._check_file(file, shard)
            except StoreError as refused:
                self._file_fault(shard, str(refused.value), refused.cause)
            except (pa.ArrowException, OSError) as unreadable:
                self._file_fault(
                    shard,
                    str(unreadable).splitlines()[0],
                    "the file is damaged, or is not Parquet at all",
                )
        self._coverage.finish(self._faults)

    def _check_file(self, file: pq.ParquetFile, shard: str) -> None:
        row_format = self._format(file.schema_arrow, shard)
        if row_format is None or not self._columns_fit(file.schema_arrow, row_format, shard):
            return
        self._coverage.begin(shard)
        known = [name for name in file.schema_arrow.names if name in KNOWN]
        rows = max(1, BATCH_TOKENS // row_format.row_length)
        first = 0
        for batch in file.iter_batches(rows, columns=known, use_threads=False):
            batch.validate(full=True)
            columns = RowBatch(row_format=row_format, table=pa.Table.from_batches([batch]))
            numbers = np.arange(first, first + len(columns), dtype=np.int64)
            self._check_shapes(
                columns, BatchPosition(faults=self._faults, shard=shard, rows=numbers)
            )
            first += len(columns)
        self._report.rows += first
        self._report.positions += first * row_format.row_length

    def _check_shapes(self, columns: RowBatch, place: BatchPosition) -> None:
        sound = rules.whole(columns, place)
        columns, place = columns.only(sound), place.only(sound)
        sound = rules.shape(columns, place)
        columns, place = columns.only(sound), place.only(sound)
        if columns.has("pack_id"):
            self._coverage.pack_ids(columns, place)
        sound, layout = rules.boundaries(columns, place)
        if layout is not None:
            self._check_content(columns.only(sound), layout, place.only(sound))

    def _check_content(self, columns: RowBatch, layout: Layout, place: BatchPosition) -> None:
        rules.values(columns, place)
        rules.agreement(columns, layout, place)
        rules.bos(columns, layout, place)
        rules.targets(columns, layout, place)
        rules.loss(columns, layout, place)
        self._report.valid_tokens += int(layout.valid.sum())
        self._report.scored_tokens += int(columns.tokens("loss_mask").sum(dtype=np.int64))
        self._report.repeated_tokens += repeats(columns, layout, place)
        if columns.has("pieces"):
            sound = rules.pieces(columns, layout, place)
            columns, layout, place = columns.only(sound), layout.only(sound), place.only(sound)
        if len(columns) and all(map(columns.has, NAMES)):
            structure(columns, layout, place)
        if columns.has("pieces") and columns.has("document_ids"):
            sound = np.diff(columns.offsets("document_ids")) == layout.num_docs
            self._coverage.add(columns.only(sound), layout.only(sound), place.rows[sound])

    def _format(self, schema: pa.Schema, shard: str) -> RowFormat | None:
        """The format, unless it is missing, or not that of the files before."""
        try:
            row_format = self._given or format_of(schema, shard)
        except SchemaError as unknown:
            self._file_fault(shard, str(unknown.value), unknown.cause)
            return None
        length = row_format.row_length
        self._row_length = self._row_length or length
        if length != self._row_length:
            self._file_fault(
                shard,
                f"row_length {length}",
                f"other files of the data set have {self._row_length}",
            )
        elif length <= 0 or length % ROW_MULTIPLE:
            self._file_fault(
                shard, f"row_length {length}", f"it must be a multiple of {ROW_MULTIPLE}"
            )
        else:
            return row_format
        return None

    def _columns_fit(self, schema: pa.Schema, row_format: RowFormat, shard: str) -> bool:
        """Return True if required columns are there, known ones have their type, and fills are allowed."""
        faults = list(_column_faults(schema, row_format))
        for found, cause in faults:
            self._file_fault(shard, found, cause)
        folder = shard.rpartition(PARTS if PARTS in shard else "/")[0].rstrip("/")
        for fallback in _fallbacks(schema):
            named = f"{folder}: {fallback}" if folder else fallback
            if named not in self._report.fallbacks:
                self._report.fallbacks.append(named)
        return not faults

    def _file_fault(self, shard: str, found: str, cause: str) -> None:
        self._faults.add(Violation(rule=Rule.FILE, shard=shard, row=None, found=found, cause=cause))


def _column_faults(schema: pa.Schema, row_format: RowFormat) -> Iterator[tuple[str, str]]:
    stored = set(schema.names)
    for name in REQUIRED:
        if name not in stored:
            yield f"no column {name}", "it is required, and nothing may stand in for it"
    for name in stored & KNOWN.keys():
        if not same_type(schema.field(name).type, KNOWN[name]):
            yield f"{name} is {schema.field(name).type}", f"it must be {KNOWN[name]}"
    missing = sorted(set(NAMES) - stored)
    if missing and len(missing) < len(NAMES):
        yield f"no column {', '.join(missing)}", "structure columns are all stored, or none is"
    if not stored & {"doc_starts", "doc_ids"} and not row_format.bos_marks_documents:
        yield "no column doc_starts or doc_ids", "no BOS that differs from PAD marks documents"
    if "valid_token_count" not in stored and row_format.pad_id == row_format.eos_id:
        yield "no column valid_token_count", "padding can't be told from an EOS where PAD == EOS"


def _fallbacks(schema: pa.Schema) -> Iterator[str]:
    stored = set(schema.names)
    instead = {
        "target_ids": "derived from input_ids and loss_mask",
        "doc_starts": "where doc_ids changes" if "doc_ids" in stored else "where a BOS stands",
        "doc_ids": "derived from doc_starts" if "doc_starts" in stored else "inferred from BOS",
        "valid_token_count": "up to the last token that isn't PAD",
    }
    for column in COLUMNS:
        if column.name not in stored and column.name not in REQUIRED:
            yield f"{column.name} is not stored: {instead.get(column.name, 'left out')}"


def _files(path: Path) -> list[Path]:
    """A file as it is; of a folder tree the Parquet files that look like rows, or like nothing readable."""
    if path.is_file():
        return [path]
    return [file for file in sorted(path.rglob("*.parquet")) if _may_be_rows(file)]


def _may_be_rows(file: Path) -> bool:
    try:
        return bool({"pack_id", "target_ids", *REQUIRED} & set(parquet.read_schema(file).names))
    except (pa.ArrowException, OSError, StoreError):
        return True
