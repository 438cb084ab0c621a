"""Publication of foreign rows as a rows artefact: complete, count, check, publish.

Missing columns are derived or filled in, and listed in the report. A missing required column is an
error. Stored columns are kept unchanged; their faults are found by the check before publication.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import JsonValue

from curriculum.interop.document_frames import FRAMES_OPTION, FrameCounts
from curriculum.interop.eos_boundaries import (
    BY_EOS,
    Boundaries,
    EosCounts,
    cleared,
    cure_of,
    require_eos,
    with_starts,
)
from curriculum.interop.import_counts import ImportCounts
from curriculum.packing.boundaries import RowLayout
from curriculum.packing.held_out_order import write_order
from curriculum.packing.packed_rows import REQUIRED, RowBatch, RowTokens, lists, row_schema
from curriculum.packing.row_check import UNMARKED, CheckReport, check, missing_columns
from curriculum.packing.row_writer import row_shards
from curriculum.packing.rules import EDGES, NAMES, SHAPES, CheckedRows, Rule
from curriculum.packing.windows import write_windows
from curriculum.published_files import sha256_of
from curriculum.store import Artefact, Recipe
from curriculum.store.artefact import KEY_DIGITS
from curriculum.tokens.codec import Tokenizer
from schemas.document import PARTS
from schemas.errors import SchemaError
from schemas.packed_row import GENERATED_PIECE, PACKED_ROW_SCHEMA, PIECE_TYPE, RowFormat
from schemas.reports import ImportReport

LABELS = ("family", "objective", "variant", "domain", "split")
CURE = "Mend the file where it was made"


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFacts:
    """Labels for rows that don't store them; None if a label isn't given."""

    family: str | None
    objective: str | None
    variant: int | None
    domain: str | None
    split: str | None


FILLS = RowFacts(family=None, objective="causal", variant=0, domain="general", split="train")
"""Defaults for labels that neither rows nor options give; the family is required and has no default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """Rules by which the columns that imported rows lack are derived or filled in."""

    row_format: RowFormat
    facts: RowFacts
    """Values of all labels that rows don't store."""
    stored: tuple[str, ...]
    """Names of the columns that rows store."""
    boundaries: Boundaries | None = None
    """Token from which boundaries are inferred; None unless the user asks for it."""

    @property
    def without_fill(self) -> tuple[str, ...]:
        """Names of missing columns that are left out instead of being filled in.

        target_ids is left out because readers derive it. If rows store structure, pieces is left out because
        structure must agree with pieces.
        """
        unfilled = ("target_ids", "pieces") if self.structured else ("target_ids",)
        return tuple(name for name in unfilled if name not in self.stored)

    @property
    def structured(self) -> bool:
        """True if the rows store structure columns."""
        return NAMES[0] in self.stored

    @property
    def schema(self) -> pa.Schema:
        """Schema of complete rows, without the columns in `without_fill`."""
        return row_schema(self.row_format, without=self.without_fill, structured=self.structured)

    def fallbacks(self) -> list[str]:
        """Return one sentence per column that isn't stored, which says what replaces the column."""
        starts = "doc_ids" if "doc_ids" in self.stored else "a BOS"
        from_eos = f"0, and behind each EOS ({BY_EOS})" if self.boundaries else None
        instead: Mapping[str, str] = {
            "target_ids": "readers derive it from input_ids and loss_mask",
            "doc_ids": "derived from doc_starts"
            if "doc_starts" in self.stored or self.boundaries
            else "from each BOS",
            "doc_starts": from_eos or f"where {starts} says that a document begins",
            "valid_token_count": "up to the last token that isn't padding",
            **{name: str(value) for name, value in asdict(self.facts).items()},
            "document_ids": "digests of family and token ids",
            "pieces": "left out"
            if self.structured
            else "one of kind 1 a document: which bytes it encodes isn't known",
        }
        names = [field.name for field in PACKED_ROW_SCHEMA if field.name != "pack_id"]
        return [
            f"{name} is not stored: {instead.get(name, 'counted')}"
            for name in names
            if name not in self.stored
        ]

    def complete(self, rows: CheckedRows, *, shard: str, key: str, first_row: int) -> pa.Table:
        """Return some rows with all columns.

        The pack_id of a row consists of the first digits of `key` and the row's number, counted from
        `first_row`.

        Raises:
            SchemaError: if boundaries are invalid.
        """
        columns, layout = rows.batch, self._layout(rows, shard)
        if self.boundaries is not None:
            columns = cleared(columns, layout)
        filled = {name: columns.array(name) for name in columns.table.column_names}
        for name, array in self._fills(columns, layout):
            filled.setdefault(name, array)
        numbers = range(first_row, first_row + len(columns))
        filled["pack_id"] = pa.array([f"{key[:KEY_DIGITS]}-{row:010d}" for row in numbers])
        schema = self.schema
        return pa.table([filled[name] for name in schema.names], schema=schema)

    def _layout(self, rows: CheckedRows, shard: str) -> RowLayout:
        report = CheckReport(max_faults=1)
        sound = report.keep(SHAPES, rows, shard)
        if not report.faults:
            if self.boundaries is not None:
                sound = replace(rows, batch=with_starts(rows.batch))
            sound = report.keep(EDGES, sound, shard)
        if report.faults:
            self._require_bos(rows, shard)
        raise_first(report, {})
        return sound.layout

    def _require_bos(self, rows: CheckedRows, shard: str) -> None:
        """Raise if boundaries are to be inferred from BOS but a row contains no BOS.

        The error advises to infer boundaries from EOS if documents end with it.
        """
        columns = rows.batch
        inferred = self.boundaries is None and not {"doc_starts", "doc_ids"} & {*self.stored}
        length, bos = self.row_format.row_length, self.row_format.bos_id
        if not inferred or len(columns.values("input_ids")) != len(columns) * length:
            return
        without = np.flatnonzero((columns.input_ids != bos).all(axis=1))
        if len(without):
            raise SchemaError(
                f"row {int(rows.numbers[without[0]])} of {shard}",
                f"no BOS {bos}, and no column doc_starts or doc_ids",
                cause="nothing says where documents begin",
                cure="Store it in the rows; or, if each EOS ends a document and none has a BOS, say "
                f"--document-tokens eos {BY_EOS}",
            )

    def _fills(self, columns: RowBatch, layout: RowLayout) -> Iterator[tuple[str, Any]]:
        lacking = {*self.schema.names} - {*columns.table.column_names}
        rows = RowTokens(
            layout=layout,
            input_ids=columns.input_ids,
            loss_mask=columns.loss_mask,
            pad_id=columns.row_format.pad_id,
        )
        yield from rows.columns(lacking).items()
        starts = pa.array(layout.start.astype(np.int32))
        yield "doc_starts", lists(starts, layout.num_docs, pa.int32())
        for name, value in asdict(self.facts).items():
            if name in lacking:
                kind = PACKED_ROW_SCHEMA.field(name).type
                yield name, pa.repeat(pa.scalar(value, type=kind), len(columns))
        if "document_ids" in lacking:
            yield "document_ids", self._digests(columns, layout)
        if "pieces" in lacking:
            yield "pieces", _generated(layout)

    def _digests(self, columns: RowBatch, layout: RowLayout) -> Any:
        """Return the id of each document; documents with equal token ids and family have equal ids."""
        flat, family = columns.values("input_ids"), str(self.facts.family)
        ends = layout.flat_start + layout.lengths
        digests = [
            document_digest(family, flat[start:end])
            for start, end in zip(layout.flat_start.tolist(), ends.tolist(), strict=True)
        ]
        return lists(pa.array(digests, type=pa.string()), layout.num_docs, pa.string())


def document_digest(family: str, ids: npt.NDArray[Any]) -> str:
    """Return the id of a document whose text isn't known: a digest of its family and its token ids."""
    return hashlib.sha256(
        f"{family}\0".encode() + ids.astype("<i4", copy=False).tobytes()
    ).hexdigest()[:32]


def format_of(tokenizer: Tokenizer, row_length: int) -> RowFormat:
    """Return the format of rows that are encoded by `tokenizer`."""
    return RowFormat(
        row_length=row_length,
        vocab_size=tokenizer.vocab_size,
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )


def require(
    stored: Sequence[str],
    row_format: RowFormat,
    *,
    name: str,
    tokenizer: Tokenizer,
    boundaries: Boundaries | None = None,
) -> None:
    """Raise if a required column isn't among `stored`.

    If `boundaries` is given, raise also if boundaries can't be inferred from EOS.

    Raises:
        SchemaError: names the file and the column.
    """
    missing = dict(missing_columns(stored, row_format))
    if boundaries is not None and not {*REQUIRED} & missing.keys():
        marks = row_format.bos_marks_documents
        require_eos(stored, row_format.eos_id, bos_marks_documents=marks, name=name)
        missing.pop(UNMARKED, None)
    for column, cause in missing.items():
        if column == "loss_mask":
            cause = "nothing says which tokens are scored, and labels (-100 where not) aren't stored either"
        cure = "Store it in the rows"
        if column == UNMARKED:
            cause = f"{_bos_remark(tokenizer)}, so nothing says where documents begin"
            cure = cure_of(stored, row_format)
        raise SchemaError(name, f"no column {column}", cause=cause, cure=cure)


def _bos_remark(tokenizer: Tokenizer) -> str:
    """Return the reason why BOS doesn't show where documents begin."""
    bos = tokenizer.document_controls.get("bos")
    if bos is None:
        return "the tokenizer has no BOS"
    if bos == tokenizer.pad_id:
        return f"the tokenizer pads with its BOS {bos}"
    claim = f"{FRAMES_OPTION} {tokenizer.document_tokens}"
    return f"the tokenizer has BOS {bos}, but {claim} says that no document begins with it"


def raise_first(report: CheckReport, names: Mapping[str, str]) -> None:
    """Raise the first fault in `report`, if there is one.

    `names` maps the names of our files to those of the foreign files.

    Raises:
        SchemaError: if there is a fault.
    """
    if not report.faults:
        return
    fault = report.faults[0]
    shard = names.get(fault.shard, fault.shard)
    name = shard if fault.row is None else f"row {fault.row} of {shard}"
    raise SchemaError(name, fault.found, cause=fault.cause, cure=CURE)


def _generated(layout: RowLayout) -> Any:
    """Return the column pieces for documents whose text isn't known.

    Each document has one piece, which covers all its tokens and no bytes.
    """
    start = layout.start.astype(np.int32)
    fields = {
        "doc": layout.slot.astype(np.int32),
        "kind": np.full(len(start), GENERATED_PIECE, dtype=np.int32),
        "token_start": start,
        "token_end": start + layout.lengths.astype(np.int32),
        "byte_start": np.zeros(len(start), dtype=np.int32),
        "byte_end": np.zeros(len(start), dtype=np.int32),
    }
    names = [field.name for field in PIECE_TYPE]
    items = pa.StructArray.from_arrays(
        [pa.array(fields[name]) for name in names], fields=list(PIECE_TYPE)
    )
    return lists(items, layout.num_docs, PIECE_TYPE)


REVISION = 4
ImportFormat = Literal["parquet", "megatron", "flat"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedShard:
    """Rows of one shard, and the name of the foreign file that they come from."""

    name: str
    tables: Callable[[], Iterable[pa.Table]]
    """Function that yields tables of the stored columns, in the contract's types."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """Foreign rows, together with the facts about them that publication needs."""

    format: ImportFormat
    files: tuple[Path, ...]
    """Files whose content is hashed for the key, in order."""
    shards: Sequence[ImportedShard]
    completion: Completion
    settings: dict[str, JsonValue] = field(default_factory=dict)
    """Further settings that change the rows, and so the key."""
    boundaries: Boundaries | None = None
    """Token from which boundaries are inferred; None unless the user asks for it."""
    notes: ImportReport = field(default_factory=ImportReport)
    """Fields of the report that are known before the rows are written."""
    compared_with: Tokenizer | None = None
    """Tokenizer whose document_tokens the rows are checked against; None if they were checked before."""

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """One sentence per missing column and per missing boundaries, which says what replaces them."""
        of_tokens = self.boundaries is not None and self.completion.boundaries is None
        edges = (
            (f"boundaries are not stored: 0, and behind each EOS ({BY_EOS})",) if of_tokens else ()
        )
        return (*edges, *self.completion.fallbacks())


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportKey:
    """Values that decide the key of an import, except the tokenizer."""

    format: ImportFormat
    facts: RowFacts
    files: tuple[str, ...]
    """SHA-256 of each file, in name order."""
    row_length: int
    boundaries: Boundaries | None
    settings: dict[str, JsonValue]

    @staticmethod
    def of(imported: Imported) -> "ImportKey":
        """Return the key of foreign rows; all files are read completely to hash them."""
        return ImportKey(
            format=imported.format,
            facts=imported.completion.facts,
            files=tuple(sha256_of(file) for file in imported.files),
            row_length=imported.completion.row_format.row_length,
            boundaries=imported.boundaries,
            settings=imported.settings,
        )


def recipe(known: ImportKey, tokenizer: Artefact) -> Recipe:
    """Return the recipe of an import: hashes of its files, the given labels and the tokenizer."""
    return Recipe(
        stage="rows",
        labels=(
            ("family", str(known.facts.family)),
            ("imported", known.format),
            ("objective", str(known.facts.objective)),
            ("variant", str(known.facts.variant)),
            ("row_length", str(known.row_length)),
            ("split", str(known.facts.split)),
        ),
        revision=REVISION,
        config={
            "imported": known.format,
            "files": [*known.files],
            "row_length": known.row_length,
            **asdict(known.facts),
            **({"boundaries": known.boundaries} if known.boundaries else {}),
            **known.settings,
        },
        inputs=(tokenizer.as_input("tokenizer"),),
    )


def write(imported: Imported, folder: Path, key: str) -> dict[str, JsonValue]:
    """Write the rows of an import into `folder`, check them, and return the report.

    Raises:
        SchemaError: names the file and the row of the first fault.
    """
    report: dict[str, JsonValue] = {}
    from_eos = EosCounts()
    frames = FrameCounts.of(imported.compared_with) if imported.compared_with else None
    counts = _write(folder, key, imported, from_eos, frames)
    report.update(imported.notes.dump())
    if imported.completion.boundaries is not None:
        report.update(from_eos.report().dump())
    report.update(counts.model_copy(update={"fallbacks": imported.fallbacks}).dump())
    names = {
        f"{PARTS}{number:05d}.parquet": shard.name for number, shard in enumerate(imported.shards)
    }
    found = check(folder)
    if frames is not None and all(fault.rule is Rule.BOS for fault in found.faults[:1]):
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        frames.require(f"{imported.shards[0].name}{more}")
        report.update(ImportReport(**frames.report()).dump())
    raise_first(found, names)
    report.update(ImportReport(windows=write_windows(folder, found.scored_tokens)).dump())
    if imported.completion.facts.split != "train":
        write_order(folder, imported.completion.row_format.row_length, {})
    return report


def _write(
    folder: Path,
    key: str,
    imported: Imported,
    from_eos: EosCounts,
    frames: FrameCounts | None,
) -> ImportReport:
    completion = imported.completion
    counts = ImportCounts(
        completion.row_format.row_length, ids_are_stored="document_ids" in completion.stored
    )
    row = 0
    with row_shards(
        folder, completion.schema, row_length=completion.row_format.row_length
    ) as writer:
        for shard in imported.shards:
            writer.begin()
            first = row
            for table in shard.tables():
                columns = RowBatch(row_format=completion.row_format, table=table)
                numbers = np.arange(row - first, row - first + len(table))
                checked = CheckedRows(batch=columns, numbers=numbers)
                rows = completion.complete(checked, shard=shard.name, key=key, first_row=row)
                writer.append(rows)
                counts.add(rows)
                if completion.boundaries is not None:
                    from_eos.add(columns, rows)
                if frames is not None:
                    _add_frames(frames, rows, completion.row_format)
                row += len(rows)
    return counts.report()


def _add_frames(frames: FrameCounts, rows: pa.Table, row_format: RowFormat) -> None:
    """Count in `frames` the documents of some rows by the control tokens at their ends."""
    batch = RowBatch(row_format=row_format, table=rows)
    starts, edges = batch.doc_starts(batch.valid_counts())
    layout = RowLayout.from_starts(
        starts, np.diff(edges), batch.valid_counts(), row_format.row_length
    )
    ids = batch.input_ids.reshape(-1)
    frames.add(ids, layout.flat_start, layout.flat_start + layout.lengths)
    frames.add_bos(ids)
