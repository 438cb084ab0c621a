"""Rows that come from elsewhere become an artefact: completed, checked, published."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import JsonValue

from curriculum.interop.derive_columns import Completion, raise_first
from curriculum.packing.check import check
from curriculum.packing.columns import Columns
from curriculum.packing.violations import BatchPosition, Violations
from curriculum.packing.write import ShardWriter
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.packed_row import PACKED_ROW_SCHEMA
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
    with ShardWriter(
        draft.path, completion.schema, row_length=completion.row_format.row_length
    ) as writer:
        for shard in imported.shards:
            writer.begin()
            first = row
            for table in shard.tables():
                columns = Columns(row_format=completion.row_format, table=table)
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
