"""Documents end to end become rows: those that they were, or packed anew.

Rows that were exported from here come back as they were; documents that know of no rows are packed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.interop.derive_columns import Completion, RowFacts, format_of
from curriculum.interop.documents_in import packed_rows, token_lists
from curriculum.interop.foreign_parquet import (
    as_known,
    batches,
    check_facts,
    labels_of,
    opened,
    require_room,
    require_types,
    schema_of,
)
from curriculum.interop.publish import Imported, Shard, stored_names
from curriculum.interop.token_files import COPY, TokenFiles, open_tokens
from curriculum.packing.layout import lists
from curriculum.packing.violations import KNOWN
from curriculum.tokens.codec import Tokenizer
from schemas.errors import SchemaError
from schemas.manifest import BESIDE_SCHEMA, TokenFormat
from schemas.packed_row import LONGEST_ROW, ROW_MULTIPLE, RowFormat

BATCH_TOKENS = 1 << 18
Int64s = npt.NDArray[np.int64]


def token_rows(
    path: Path, form: TokenFormat, said: RowFacts, tokenizer: Tokenizer, row_length: int | None
) -> Imported:
    """The rows of .bin files with boundaries; `row_length` is for documents that aren't packed.

    Raises:
        SchemaError: for files that can't be read, several row lengths, and what must be said and isn't.
    """
    check_facts(said)
    tokens = open_tokens(path, form, tokenizer)
    if not len(tokens.ids):
        raise SchemaError(str(tokens.path), cause="there isn't a token", cure="Give another file")
    if tokens.beside is not None:
        return _as_they_were(tokens, tokens.beside, form, said, tokenizer)
    return packed_rows(tokens, form, said, format_of(tokenizer, _asked(row_length, path)))


def _asked(row_length: int | None, path: Path) -> int:
    whole = row_length is not None and 0 < row_length <= LONGEST_ROW
    if row_length is None or not whole or row_length % ROW_MULTIPLE:
        raise SchemaError(
            "--row-length",
            row_length,
            cause=f"{path.name} holds documents that aren't packed",
            cure=f"Say how long rows are to be, a multiple of {ROW_MULTIPLE}, at most {LONGEST_ROW:,}: "
            "--row-length 4096",
        )
    return row_length


def _as_they_were(
    tokens: TokenFiles, beside: Path, form: TokenFormat, said: RowFacts, tokenizer: Tokenizer
) -> Imported:
    record = tokens.record
    assert record is not None, "what lies beside tokens is told by export.json"
    if len(record.row_lengths) != 1:
        raise SchemaError(
            str(beside),
            f"rows of {', '.join(map(str, record.row_lengths))} tokens",
            cause="rows of one artefact have one length",
            cure="Export and import each of the mixture's rows by itself",
        )
    (row_length,) = record.row_lengths
    names = _columns(beside)
    counts = ["valid_token_count", "num_docs"]
    with opened(beside) as content:
        require_room(beside, content, row_length)
        kept = pa.schema([content.schema_arrow.field(name) for name in counts])
        lines = pa.Table.from_batches(batches(content, counts), schema=kept)
    places = _places(tokens, as_known(beside, lines, counts), beside, row_length)
    facts = labels_of([beside], names, said)
    row_format = format_of(tokenizer, row_length)
    stored = ("input_ids", "doc_starts", *tokens.marks, *names)

    def tables() -> Iterator[pa.Table]:
        at_once = max(1, BATCH_TOKENS // row_length)
        first = 0
        with opened(beside) as content:
            for batch in batches(content, names, at_once):
                some = places.slice(first, first + len(batch))
                table = _row_table(tokens, some, row_format)
                known = as_known(beside, pa.Table.from_batches([batch]), names)
                for name in names:
                    table = table.append_column(name, known[name])
                yield table
                first += len(batch)

    return Imported(
        format=form,
        files=tokens.files,
        shards=[Shard(name=tokens.path.name, tables=tables)],
        completion=Completion(row_format=row_format, facts=facts, stored=stored),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Places:
    """Offsets of the documents and tokens of n rows; 32 bytes a row."""

    first_document: Int64s
    documents: Int64s
    start: Int64s
    valid: Int64s

    def slice(self, first: int, last: int) -> "_Places":
        """Some of the rows."""
        names = ("first_document", "documents", "start", "valid")
        return _Places(**{name: getattr(self, name)[first:last] for name in names})


def _columns(beside: Path) -> list[str]:
    """The names of what rows.parquet has for rows, all of BESIDE_SCHEMA among them."""
    schema = schema_of(beside)
    lacking = [name for name in BESIDE_SCHEMA.names if name not in schema.names]
    if lacking:
        raise SchemaError(
            str(beside), f"no column {lacking[0]}", cause="an export has it", cure=COPY
        )
    names = list(stored_names(schema.names, KNOWN))
    require_types(beside, schema, names)
    return names


def _places(tokens: TokenFiles, lines: pa.Table, beside: Path, row_length: int) -> _Places:
    if lines["num_docs"].null_count or lines["valid_token_count"].null_count:
        raise SchemaError(str(beside), "a null", cause="every row has its counts", cure=COPY)
    counts = lines["num_docs"].to_numpy().astype(np.int64)
    valid = lines["valid_token_count"].to_numpy().astype(np.int64)
    last, ends = np.cumsum(counts), np.cumsum(valid)
    whole = len(last) and last[-1] == len(tokens.edges) - 1
    fits = not (counts < 1).any() and not (valid < 1).any() and not (valid > row_length).any()
    if not whole or not fits or not np.array_equal(tokens.edges[last], ends):
        raise SchemaError(
            str(beside),
            f"{int(counts.sum()):,} documents of {int(valid.sum()):,} tokens",
            cause=f"the ids have {len(tokens.edges) - 1:,} documents of {len(tokens.ids):,} tokens, "
            f"or others in a row of {row_length:,}",
            cure=COPY,
        )
    return _Places(first_document=last - counts, documents=counts, start=ends - valid, valid=valid)


def _row_table(tokens: TokenFiles, places: _Places, row_format: RowFormat) -> pa.Table:
    """Rows of T, padded, with the starts of their documents and a value of each mark a token."""
    first = int(places.first_document[0])
    documents = int(places.documents.sum())
    starts = tokens.edges[first : first + documents] - np.repeat(places.start, places.documents)
    columns = {
        "input_ids": _filled(tokens.ids, places, row_format, np.int32, row_format.pad_id),
        "doc_starts": lists(pa.array(starts.astype(np.int32)), places.documents, pa.int32()),
    }
    for name, values in tokens.marks.items():
        columns[name] = _filled(values, places, row_format, np.uint8, 0)
    return pa.table(columns)


def _filled(
    values: npt.NDArray[Any],
    places: _Places,
    row_format: RowFormat,
    kind: type[np.generic],
    fill: int,
) -> Any:
    rows = np.full((len(places.valid), row_format.row_length), fill, dtype=kind)
    spans = zip(places.start.tolist(), places.valid.tolist(), strict=True)
    for row, (start, valid) in enumerate(spans):
        rows[row, :valid] = values[start : start + valid]
    return token_lists(rows)
