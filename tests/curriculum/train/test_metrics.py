import dataclasses
from pathlib import Path

import pyarrow.parquet as pq

from curriculum.train.metrics import Metrics, StepMetrics, read_metrics
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
    assert read_metrics(tmp_path)["step"].to_pylist() == [1, 2, 3, 4]


def test_parts_from_the_resumed_step_on_are_removed(tmp_path: Path) -> None:
    write(tmp_path, [range(1, 4), range(4, 7), range(7, 9)])
    write(tmp_path, [range(4, 6)], resumed_at=3)
    assert read_metrics(tmp_path)["step"].to_pylist() == [1, 2, 3, 4, 5]


def test_nothing_recorded_is_nothing_written(tmp_path: Path) -> None:
    write(tmp_path / "metrics", [range(0)])
    assert list((tmp_path / "metrics").iterdir()) == []
    assert read_metrics(tmp_path / "metrics").schema.names == METRICS_SCHEMA.names
