"""Points of a run's curves: sums from the start of the run, and means of equally large groups of steps."""

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.inspection.step_metrics import step_losses, training_points
from schemas.errors import StoreError


def _write(folder: Path, first: int, losses: list[float], *, with_tokens: bool = True) -> None:
    size = len(losses)
    columns = {"step": [*range(first, first + size)], "loss": losses}
    if with_tokens:
        columns |= {"valid_tokens": [10] * size, "scored_tokens": [8] * size}
        columns |= {"seconds": [0.5] * size, "learning_rate": [1e-3] * size}
    pq.write_table(pa.table(columns), folder / f"{first:010d}.parquet")


def test_each_point_has_the_sums_up_to_its_last_step_and_the_means_of_its_steps(
    tmp_path: Path,
) -> None:
    _write(tmp_path, 1, [4.0, 2.0, 3.0])
    _write(tmp_path, 4, [1.0, 5.0])
    points = training_points(tmp_path, points=3)
    assert [(point.steps, point.tokens, point.scored_tokens) for point in points] == [
        (2, 20, 16),
        (4, 40, 32),
        (5, 50, 40),
    ]
    assert [point.loss for point in points] == [3.0, 2.0, 5.0]
    assert [point.seconds for point in points] == [1.0, 2.0, 2.5]
    assert points[0].learning_rate == pytest.approx(1e-3)


def test_steps_without_a_finite_loss_count_in_the_sums_only(tmp_path: Path) -> None:
    _write(tmp_path, 1, [4.0, math.nan, math.inf, 2.0])
    points = training_points(tmp_path)
    assert [(point.steps, point.tokens, point.loss) for point in points] == [
        (1, 10, 4.0),
        (4, 40, 2.0),
    ]


def test_parts_of_external_trainers_may_lack_columns(tmp_path: Path) -> None:
    _write(tmp_path, 1, [4.0, 2.0], with_tokens=False)
    (_, last) = training_points(tmp_path)
    assert (last.steps, last.tokens, last.seconds, last.loss) == (2, 0, 0.0, 2.0)


def test_a_column_of_another_type_is_refused_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "0000000001.parquet"
    pq.write_table(pa.table({"step": [1], "loss": ["high"]}), file)
    with pytest.raises(StoreError) as refused:
        training_points(tmp_path)
    assert refused.value.name == str(file)


def test_learning_rates_that_are_not_finite_are_left_out_of_their_mean(tmp_path: Path) -> None:
    rates = {"learning_rate": [1e-3, math.inf, math.nan]}
    table = pa.table({"step": [1, 2, 3], "loss": [4.0, 2.0, 3.0], **rates})
    pq.write_table(table, tmp_path / "0000000001.parquet")
    first, last = training_points(tmp_path, points=2)
    assert first.learning_rate == 1e-3
    assert math.isnan(last.learning_rate)


def test_a_folder_without_parts_has_no_points(tmp_path: Path) -> None:
    assert training_points(tmp_path) == ()
    assert step_losses(tmp_path) == ([], [])
