"""Packed rows of others: read from Parquet, completed, checked, published.

Whole numbers of another width, large lists and dictionaries of strings are read as what the contract has
for them where no value changes; any other type is an error. Columns that the contract doesn't know stay
behind, and the report names them.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from curriculum.interop.derive_columns import Completion, RowFacts, format_of, raise_first, require
from curriculum.interop.foreign_parquet import (
    PACK_ID,
    as_known,
    batches,
    check_facts,
    labels_of,
    opened,
    plain,
    require_distinct,
    require_room,
    require_types,
    schema_of,
)
from curriculum.packing.check import check
from curriculum.packing.rows import KNOWN, RowBatch
from curriculum.packing.rules import BatchPosition, Violations
from curriculum.packing.write import row_shards
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.tokens.codec import Tokenizer
from schemas.errors import SchemaError
from schemas.packed_row import LONGEST_ROW, PACKED_ROW_SCHEMA, ROW_MULTIPLE, RowFormat
from schemas.reports import ImportedDomain, ImportReport

REVISION = 1
ImportFormat = Literal["parquet", "megatron", "flat"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Rows that go into one shard, under the name that their file has where they come from."""

    name: str
    tables: Callable[[], Iterable[pa.Table]]
    """Tables of the stored columns, each of the contract's type."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """Rows from elsewhere, and what is known of them."""

    format: ImportFormat
    files: tuple[Path, ...]
    """Files whose bytes make up the key, in their order."""
    shards: Sequence[Shard]
    completion: Completion
    settings: dict[str, JsonValue] = field(default_factory=dict)
    """Other settings that change the rows."""
    notes: ImportReport = field(default_factory=ImportReport)
    """The part of the report that is known before the rows are written."""


def publish(store: Store, imported: Imported, tokenizer: Artefact) -> Artefact:
    """The rows artefact of an import; `tokenizer` is what their ids mean.

    Raises:
        SchemaError: naming file and row of the first fault; nothing is published then.
    """

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        counts = _write(draft, imported)
        fallbacks = tuple(imported.completion.fallbacks())
        draft.record(imported.notes)
        draft.record(ImportReport(fallbacks=fallbacks, domains=counts))
        names = {
            f"part-{number:05d}.parquet": shard.name for number, shard in enumerate(imported.shards)
        }
        found = check(draft.path)
        raise_first(Violations(limit=1, count=found.num_faults, kept=found.faults), names)

    return store.produce([recipe(imported, tokenizer)], fill)[0]


def recipe(imported: Imported, tokenizer: Artefact) -> Recipe:
    """Return the recipe of an import: the bytes of its files, the labels given, the tokenizer."""
    facts, row_format = imported.completion.facts, imported.completion.row_format
    return Recipe(
        stage="rows",
        labels=(
            ("family", str(facts.family)),
            ("imported", imported.format),
            ("objective", str(facts.objective)),
            ("variant", str(facts.variant)),
            ("row_length", str(row_format.row_length)),
            ("split", str(facts.split)),
        ),
        revision=REVISION,
        config={
            "imported": imported.format,
            "files": [_sha256(file) for file in imported.files],
            "row_length": row_format.row_length,
            **asdict(facts),
            **imported.settings,
        },
        inputs=(tokenizer.as_input("tokenizer"),),
    )


def _write(draft: StagingDirectory, imported: Imported) -> dict[str, ImportedDomain]:
    completion, counts = imported.completion, _Counts(imported.completion.row_format.row_length)
    row = 0
    with row_shards(
        draft.path, completion.schema, row_length=completion.row_format.row_length
    ) as writer:
        for shard in imported.shards:
            writer.begin()
            first = row
            for table in shard.tables():
                columns = RowBatch(row_format=completion.row_format, table=table)
                numbers = pa.array(range(row - first, row - first + len(table))).to_numpy()
                place = BatchPosition(faults=Violations(limit=1), shard=shard.name, rows=numbers)
                rows = completion.complete(columns, place, key=draft.recipe.key, first_row=row)
                writer.append(rows)
                counts.add(rows)
                row += len(rows)
    return counts.report()


class _Counts:
    """Counts by domain."""

    def __init__(self, row_length: int) -> None:
        self._row_length = row_length
        self._sums: dict[str, dict[str, int]] = {}

    def add(self, table: pa.Table) -> None:
        """Count some rows."""
        names = ("num_docs", "valid_token_count", "loss_token_count")
        grouped = table.select(["domain", *names]).group_by("domain")
        summed: Any = grouped.aggregate([("domain", "count"), *((name, "sum") for name in names)])
        for line in summed.to_pylist():
            sums = self._sums.setdefault(line["domain"], {})
            for ours, theirs in (
                ("rows", "domain_count"),
                ("documents", "num_docs_sum"),
                ("tokens", "valid_token_count_sum"),
                ("scored_tokens", "loss_token_count_sum"),
            ):
                sums[ours] = sums.get(ours, 0) + line[theirs]

    def report(self) -> dict[str, ImportedDomain]:
        """Return the counts by domain, with the yield."""
        return {
            domain: ImportedDomain(
                **sums,
                row_length=self._row_length,
                pack_yield=sums["tokens"] / (sums["rows"] * self._row_length),
            )
            for domain, sums in sorted(self._sums.items())
        }


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def stored_names(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of a file that the contract knows, but for pack_id, which is made anew."""
    wanted = {*known} - {PACKED_ROW_SCHEMA.names[0]}
    return tuple(name for name in names if name in wanted)


BATCH_TOKENS = 1 << 18


def parquet_rows(path: Path, said: RowFacts, tokenizer: Tokenizer) -> Imported:
    """The rows of a Parquet file, or of all below a folder in name order.

    `said` is what people say of the rows; what the rows themselves store must agree with it.

    Raises:
        SchemaError: for no rows, a required column that lacks or stands twice, a type that can't be read,
            a pack_id that repeats, and labels that can't be labels, aren't those that were said, or (but
            for the domain) aren't alike in all rows.
    """
    check_facts(said)
    files = _files(path)
    schemas = [schema_of(file) for file in files]
    stored = stored_names(schemas[0].names, KNOWN)
    for file, schema in zip(files, schemas, strict=True):
        _require_same(file, stored_names(schema.names, KNOWN), stored, files[0])
    row_format = format_of(tokenizer, _row_length(files[0], schemas[0]))
    for file in files:
        with opened(file) as content:
            require_room(file, content, row_format.row_length)
    require(stored, row_format, name=files[0].name)
    for file, schema in zip(files, schemas, strict=True):
        _require_format(file, schema, row_format)
        require_types(file, schema, stored)
    require_distinct(
        [file for file, schema in zip(files, schemas, strict=True) if PACK_ID in schema.names]
    )
    facts = labels_of(files, stored, said)
    others = [name for name in schemas[0].names if name not in {*stored, PACK_ID}]
    read = [
        f"{name}: {plain(schemas[0].field(name).type)} is read as {plain(KNOWN[name])}"
        for name in stored
        if plain(schemas[0].field(name).type) != plain(KNOWN[name])
    ]
    return Imported(
        format="parquet",
        files=tuple(files),
        shards=[_shard(file, stored) for file in files],
        completion=Completion(row_format=row_format, facts=facts, stored=stored),
        notes=ImportReport(columns_left_behind=tuple(others), read_as=tuple(read)),
    )


def _files(path: Path) -> list[Path]:
    below = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    files = [each for each in below if each.is_file()]
    if not files:
        raise SchemaError(
            str(path),
            cause="there are no Parquet files",
            cure="Give a file of packed rows, or a folder that holds some",
        )
    return files


def _require_same(file: Path, found: Sequence[str], stored: Sequence[str], first: Path) -> None:
    if {*found} != {*stored}:
        differ = ", ".join(sorted({*found} ^ {*stored}))
        raise SchemaError(
            file.name,
            differ,
            cause=f"it and {first.name} don't store the same columns",
            cure="Import what belongs together: one folder a data set",
        )


def _row_length(file: Path, schema: pa.Schema) -> int:
    if "input_ids" not in schema.names:
        raise SchemaError(
            file.name,
            "no column input_ids",
            cause="it is required, and nothing may stand in for it",
            cure="Give packed rows",
        )
    with opened(file) as content:
        require_room(file, content, LONGEST_ROW)
        length = _first_length(content)
    if not length or length > LONGEST_ROW or length % ROW_MULTIPLE:
        raise SchemaError(
            f"row 0 of {file.name}",
            f"{length:,} tokens",
            cause=f"rows are packed: a multiple of {ROW_MULTIPLE} tokens, the same in all, at most "
            f"{LONGEST_ROW:,}",
            cure="Pack the documents, or import them as --format flat",
        )
    return length


def _require_format(file: Path, schema: pa.Schema, expected: RowFormat) -> None:
    """Require that what a file says of itself agrees with the tokenizer; most say nothing."""
    found = schema.metadata or {}
    for name, value in expected.metadata().items():
        theirs = found.get(name.encode())
        if name != "schema_version" and theirs is not None and theirs != value.encode():
            raise SchemaError(
                file.name,
                f"{name} {theirs[:40].decode(errors='backslashreplace') or 'none'}",
                cause=f"the tokenizer, or the first row, has {value or 'none'}",
                cure="Give the tokenizer that the rows were made with",
            )


def _shard(file: Path, stored: Sequence[str]) -> Shard:
    def tables() -> Iterator[pa.Table]:
        with opened(file) as content:
            length = max(1, _first_length(content))
            for batch in batches(content, stored, max(1, BATCH_TOKENS // length)):
                yield as_known(file, pa.Table.from_batches([batch]), stored)

    return Shard(name=file.name, tables=tables)


def _first_length(content: pq.ParquetFile) -> int:
    """Tokens of the first row; 0 where there is none, or it is null or no list."""
    first = next(batches(content, ["input_ids"], 1), None)
    ids = first["input_ids"][0].as_py() if first is not None and len(first) else None
    return len(ids) if isinstance(ids, list) else 0
