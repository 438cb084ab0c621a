"""Choices of the reader for curves of training: the x-axis and the smoothing."""

import pytest

from curriculum.inspection.step_metrics import TrainingPoint
from dashboards.training_view import AXES, STEPS, TIME, TOKENS, TrainingView, step_places


def _point(steps: int) -> TrainingPoint:
    return TrainingPoint(
        steps=steps,
        tokens=100 * steps,
        scored_tokens=90 * steps,
        seconds=2.0 * steps,
        loss=1.0,
        learning_rate=1e-3,
    )


def test_each_axis_has_its_own_measure_of_progress() -> None:
    places = {name: axis.place(_point(3)) for name, axis in AXES.items()}
    assert places == {"steps": 3, "tokens": 300, "scored tokens": 270, "training time": 6.0}


def test_the_axis_of_time_has_labels_in_minutes_or_hours() -> None:
    assert TIME.scale(600).ticks[-1] == (600, "10 min")
    assert TIME.scale(36_000).ticks[-1] == (36_000, "10 h")
    assert STEPS.scale(600).ticks[-1] == (600, "600")


def test_steps_between_and_after_the_points_have_places() -> None:
    points = [_point(10), _point(20)]
    assert step_places(TOKENS, points, [0, 5, 15, 25]) == [0.0, 500.0, 1500.0, 2000.0]
    assert step_places(STEPS, points, [0, 25]) == [0.0, 25.0]
    assert step_places(TOKENS, [], [0, 5]) == [0.0, 0.0]


@pytest.mark.parametrize("text", ["", "x", "nan", "inf", "-0.1", "1"])
def test_an_address_with_an_impossible_weight_has_the_default(text: str) -> None:
    assert TrainingView.of("steps", text, text) == TrainingView()


def test_an_address_says_what_was_chosen() -> None:
    found = TrainingView.of("tokens", "0.5", "0.25")
    assert (found.axis, found.loss_weight, found.bpb_weight) == (TOKENS, 0.5, 0.25)
    assert TrainingView.of("no such axis", "0", "0").axis is STEPS
