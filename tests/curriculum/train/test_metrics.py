import dataclasses
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from curriculum.page_checksums import pages_fault
from curriculum.train.metrics import Metrics, StepMetrics, read_metrics, summary
from schemas.errors import StoreError
from schemas.job import METRICS_SCHEMA


def row(step: int) -> StepMetrics:
    values = dict.fromkeys((field.name for field in dataclasses.fields(StepMetrics)), 1)
    return StepMetrics(**(values | {"step": step}))


def write(folder: Path, parts: list[range], resumed_at: int = 0) -> Metrics:
    metrics = Metrics(folder, resumed_at=resumed_at)
    for part in parts:
        for step in part:
            metrics.record(row(step), steps=10)
        metrics.flush()
    return metrics


def test_a_part_is_named_by_its_first_step_and_fits_the_schema(tmp_path: Path) -> None:
    write(tmp_path, [range(1, 4), range(4, 5)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0000000001.parquet",
        "0000000004.parquet",
    ]
    assert pq.read_schema(tmp_path / "0000000001.parquet").equals(METRICS_SCHEMA)
    assert pages_fault(tmp_path / "0000000001.parquet", ()) is None, "its pages have checksums"
    assert read_metrics(tmp_path)["step"].to_pylist() == [1, 2, 3, 4]


def test_parts_from_the_resumed_step_on_are_removed(tmp_path: Path) -> None:
    write(tmp_path, [range(1, 4), range(4, 7), range(7, 9)])
    write(tmp_path, [range(4, 6)], resumed_at=3)
    assert read_metrics(tmp_path)["step"].to_pylist() == [1, 2, 3, 4, 5]


def test_nothing_recorded_is_nothing_written(tmp_path: Path) -> None:
    write(tmp_path / "metrics", [range(0)])
    assert list((tmp_path / "metrics").iterdir()) == []
    assert read_metrics(tmp_path / "metrics").schema.names == METRICS_SCHEMA.names


def test_a_resumed_run_reads_no_part_with_a_changed_page(tmp_path: Path) -> None:
    write(tmp_path, [range(1, 200)])
    part = tmp_path / "0000000001.parquet"
    chunk = pq.read_metadata(part).row_group(0).column(METRICS_SCHEMA.get_field_index("loss"))
    content = bytearray(part.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    part.write_bytes(content)
    with pytest.raises(StoreError, match=part.name):
        read_metrics(tmp_path)


def test_parts_of_before_a_column_was_measured_are_read_as_nulls(tmp_path: Path) -> None:
    write(tmp_path, [range(1, 3), range(3, 4)])
    part = tmp_path / "0000000001.parquet"
    older = pq.read_table(part, partitioning=None).drop_columns(["masked_mfu", "mean_context"])
    pq.write_table(older, part)
    table = read_metrics(tmp_path)
    assert table.schema.names == METRICS_SCHEMA.names
    assert table["mean_context"].to_pylist() == [None, None, 1]
    assert summary(table).mean_context == 1


def test_a_summary_weighs_context_by_scored_tokens_and_mfu_by_seconds(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, resumed_at=0)
    first: Any = {"scored_tokens": 10, "mean_context": 5.0, "seconds": 1.0, "masked_mfu": 0.4}
    second: Any = {"scored_tokens": 30, "mean_context": 9.0, "seconds": 3.0, "masked_mfu": 0.2}
    first |= {"causal_mfu": 0.8, "padded_positions": 300}
    second |= {"causal_mfu": 0.4, "padded_positions": 500}
    for step, values in enumerate((first, second), 1):
        metrics.record(dataclasses.replace(row(step), **values), steps=2)
    metrics.flush()
    found = summary(read_metrics(tmp_path))
    assert found.seconds == 4
    assert found.mean_context == pytest.approx((50 + 270) / 40)
    assert found.masked_mfu == pytest.approx(1.0 / 4)
    assert found.causal_mfu == pytest.approx(2.0 / 4)
    assert found.padded_positions == 800


def test_a_run_without_a_step_has_an_empty_summary(tmp_path: Path) -> None:
    found = summary(read_metrics(tmp_path))
    assert found.seconds == 0
    assert found.masked_mfu is found.mean_context is found.attention_density is None
