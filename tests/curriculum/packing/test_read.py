from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from curriculum.packing.packed_rows import RowBatch
from curriculum.packing.read import GroupCache, RowReader, load_format, read_rows
from schemas.errors import SchemaError
from schemas.packed_row import RowFormat
from tests.error_fields import fields

Written = Any
ROW = 128
NAMES = ("input_ids", "target_ids", "loss_mask", "doc_ids")


def shards(written: Written) -> list[Path]:
    return sorted(written.folder.glob("data/part-*.parquet"))


def stored(written: Written, name: str) -> list[Any]:
    column: list[Any] = pq.read_table(shards(written))[name].to_pylist()
    return column


@pytest.mark.parametrize("name", NAMES)
def test_reading_gives_what_was_written(name: str, written: Written) -> None:
    batches = list(read_rows(shards(written), NAMES))
    found = np.concatenate([getattr(batch, name) for batch in batches])
    assert found.shape == (written.counts.rows, ROW)
    assert found.tolist() == stored(written, name)


@pytest.mark.parametrize("name", ["target_ids", "doc_ids"])
def test_a_derived_column_equals_the_stored_one(name: str, written: Written) -> None:
    sources = ("input_ids", "loss_mask", "doc_starts", "valid_token_count")
    derived = np.concatenate(
        [getattr(batch, name) for batch in read_rows(shards(written), sources)]
    )
    assert derived.tolist() == stored(written, name)


def test_absent_columns_give_way_to_their_sources(written: Written) -> None:
    expected = {name: stored(written, name) for name in NAMES}
    for path in shards(written):
        table = pq.read_table(path).select(["input_ids", "loss_mask"])
        pq.write_table(table, path)
    for name in NAMES:
        batches = read_rows(shards(written))
        assert np.concatenate([getattr(b, name) for b in batches]).tolist() == expected[name]


def test_stored_columns_are_views_without_a_copy(written: Written) -> None:
    batch = next(read_rows(shards(written)))
    for name in NAMES:
        assert not getattr(batch, name).flags.owndata
        assert not getattr(batch, name).flags.writeable
        assert np.shares_memory(getattr(batch, name), getattr(batch, name))


@pytest.mark.parametrize("limit", [0, 1 << 13, 1 << 30])
def test_rows_are_found_by_shard_and_number(written: Written, limit: int) -> None:
    cache = GroupCache(limit)
    reader = RowReader(shards(written), cache=cache)
    for shard in (3, 0, 5, 0, 1):
        rows = pq.read_table(shards(written)[shard]).to_pylist()
        assert reader.num_rows(shard) == len(rows)
        for number, row in enumerate(rows):
            batch = reader.row(shard, number)
            assert len(batch) == 1
            for name in NAMES:
                assert getattr(batch, name)[0].tolist() == row[name]
            assert cache.num_bytes <= max(limit, reader.row(shard, number).table.nbytes * len(rows))


def test_readers_share_a_cache_that_keeps_what_was_asked_for_last(written: Written) -> None:
    first = load_format(shards(written)[0])
    table = pq.read_table(shards(written)[0])
    kept = GroupCache(2 * table.nbytes)
    made: list[str] = []

    def get(key: str) -> None:
        def decode() -> RowBatch:
            made.append(key)
            return RowBatch(row_format=first, table=table)

        kept.get(key, decode)

    for key in "abacab":
        get(key)
    assert made == ["a", "b", "c", "b"]
    assert kept.num_bytes == 2 * table.nbytes


def test_rows_are_found_across_row_groups(tmp_path: Path, written: Written) -> None:
    table = pq.read_table(shards(written))
    path = tmp_path / "one.parquet"
    pq.write_table(table, path, row_group_size=5)
    reader = RowReader([path])
    for number in np.random.default_rng(1).permutation(len(table)).tolist():
        assert reader.row(0, number).input_ids[0].tolist() == table["input_ids"][number].as_py()


def test_scalars_and_names_come_with_the_rows(written: Written) -> None:
    columns = ("input_ids", "valid_token_count", "document_ids")
    batches = list(read_rows(shards(written), columns))
    assert sum(int(batch.scalars("valid_token_count").sum()) for batch in batches) == (
        written.counts.valid_tokens
    )
    assert [names for batch in batches for names in batch.document_ids()] == stored(
        written, "document_ids"
    )


def test_the_format_is_known_by_file_and_by_folder(written: Written) -> None:
    expected = RowFormat(row_length=ROW, vocab_size=512, pad_id=0, bos_id=1, eos_id=2)
    assert load_format(written.folder) == load_format(shards(written)[2]) == expected


def test_a_folder_without_rows_has_no_format(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, check=fields(name=tmp_path)):
        load_format(tmp_path)


def test_a_column_that_nothing_gives_is_refused_by_name(written: Written) -> None:
    with pytest.raises(SchemaError, match=r"part-00000.parquet: structure_ids;"):
        next(read_rows(shards(written), ("input_ids", "structure_ids")))


def test_rows_of_a_wrong_length_are_refused(written: Written) -> None:
    wrong = RowFormat(row_length=256, vocab_size=512, pad_id=0, bos_id=1, eos_id=2)
    with pytest.raises(SchemaError, match=r"\b256\b"):
        _ = next(read_rows(shards(written), row_format=wrong)).input_ids
