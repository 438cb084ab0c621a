"""The contract of training, held against its own description."""

import pyarrow as pa

from schemas.packed_row import (
    COLUMNS,
    PACKED_ROW_SCHEMA,
    RUNTIME_COLUMNS,
    RowFormat,
)


def test_every_column_of_the_schema_is_described_in_order() -> None:
    assert [column.name for column in COLUMNS] == PACKED_ROW_SCHEMA.names


def test_no_column_and_no_list_item_is_ever_null() -> None:
    for field in PACKED_ROW_SCHEMA:
        assert not field.nullable
        if pa.types.is_list(field.type):
            assert not field.type.value_field.nullable


def test_runtime_columns_are_the_three_that_training_needs() -> None:
    needed = tuple(column.name for column in COLUMNS if column.need == "runtime")
    assert needed == RUNTIME_COLUMNS


def test_the_format_survives_parquet_metadata_with_and_without_bos() -> None:
    for bos_id, eos_id in ((1, 2), (None, 0), (None, None)):
        written = RowFormat(
            row_length=4096, vocab_size=32768, pad_id=0, bos_id=bos_id, eos_id=eos_id
        )
        schema = PACKED_ROW_SCHEMA.with_metadata(written.metadata())
        assert RowFormat.from_metadata(schema.metadata) == written


def test_bos_marks_documents_only_where_it_differs_from_padding() -> None:
    def marks(bos_id: int | None) -> bool:
        return RowFormat(
            row_length=128, vocab_size=9, pad_id=0, bos_id=bos_id, eos_id=0
        ).bos_marks_documents

    assert marks(1)
    assert not marks(0)
    assert not marks(None)
