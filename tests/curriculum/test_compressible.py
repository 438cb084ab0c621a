"""Honest files are read, however well they compress: a bound on what they decode to refuses none of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum import frames, parquet
from curriculum.mixing.plan import ROW_GROUP
from curriculum.mixing.plan import _writer as plan_writer
from schemas.document import SELECTION_SCHEMA, Document, Part
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import PACKED_ROW_SCHEMA
from schemas.structure import ENRICHED_SCHEMA, STRUCTURE_COLUMNS
from tests import factories
from tests.factories import read_documents, write_documents

ROWS_SCHEMA = pa.schema([*PACKED_ROW_SCHEMA, *STRUCTURE_COLUMNS])


def _document(text: str, lineage: str) -> Document:
    source = factories.provenance(path=lineage, end=len(text), lineage=lineage)
    return factories.document(
        text,
        licence="Apache-2.0",
        parts=(Part(kind="code", start=0, end=len(text), source=0),),
        provenance=(source,),
        lineage=lineage,
    )


@pytest.mark.parametrize("schema", [PLAN_SCHEMA, SELECTION_SCHEMA, ENRICHED_SCHEMA, ROWS_SCHEMA])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_file_without_rows_is_read(
    tmp_path: Path, schema: pa.Schema, use_dictionary: bool
) -> None:
    """Arrow writes a row group of dictionaries without values."""
    file = tmp_path / "empty.parquet"
    pq.write_table(schema.empty_table(), file, use_dictionary=use_dictionary)
    with parquet.File(file) as opened:
        assert opened.num_row_groups == 1
        assert opened.read_row_group(0).num_rows == 0
    assert parquet.read_table(file).num_rows == 0
    assert frames.read(file).is_empty()


def test_documents_that_are_nearly_equal_are_read(tmp_path: Path) -> None:
    """Repeated licence headers, a thousand times smaller in the file."""
    licence = "// Licensed under the Apache License, Version 2.0\n" * 400
    whole = [
        _document(f"{licence}int f{number}();\n", "src/" + "x" * 4_000) for number in range(2_000)
    ]
    write_documents(whole, tmp_path)
    (file,) = tmp_path.glob("data/part-*.parquet")
    with parquet.File(file) as opened:
        assert opened.size(["text"], exact=True) > 300 * file.stat().st_size
    texts = [text for batch in read_documents(tmp_path, ["text"]) for text in batch["text"]]
    assert len(texts) == 2_000
    names = ["document_id", "lineage", "licence", "provenance"]
    assert parquet.read_table(file, names).num_rows == 2_000


def test_one_long_path_among_a_hundred_thousand_is_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "selection.parquet"
    paths = [f"src/{number}/" + "x" * 60 for number in range(99_999)] + ["y" * 12_000]
    table = pa.table({"lineage": paths[::-1], "path": paths})
    pq.write_table(table, file, compression="zstd", row_group_size=100_000)
    with parquet.File(file) as opened:
        assert 12_000 * opened.metadata.num_rows > parquet.MOST_BYTES
        assert table.nbytes < opened.size() < 4 * table.nbytes
    assert parquet.read_table(file).equals(table)


def test_a_plan_whose_rows_come_one_after_another_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = np.arange(1 << 18)
    columns: dict[str, Any] = {
        "position": number,
        "slot": number,
        "stratum": np.zeros(len(number)),
        "serving": np.zeros(len(number)),
        "row_length": np.full(len(number), 4096),
        "rows_key": ["c0ffee" * 10] * len(number),
        "shard": np.zeros(len(number)),
        "row": number,
        "pack_id": [f"c0ffeec0ffee-{each:010d}" for each in number.tolist()],
        "repetition": np.zeros(len(number)),
        "valid_tokens": np.full(len(number), 4096),
        "attention_pairs": np.full(len(number), 1 << 20),
    }
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in PLAN_SCHEMA]
    file = tmp_path / "plan.parquet"
    with plan_writer(file) as writer:
        writer.write_table(pa.table(arrays, schema=PLAN_SCHEMA), row_group_size=ROW_GROUP)
    monkeypatch.setattr(parquet, "MOST_BYTES", 1 << 24)
    assert parquet.read_table(file, ["rows_key", "shard", "row"]).num_rows == len(number)
    assert parquet.read_table(file, ["pack_id"])["pack_id"].to_pylist() == columns["pack_id"]
