import pytest

from curriculum.train.optimizer import learning_rate
from schemas.job import OptimizerSpec


def rates(steps: int, optimizer: OptimizerSpec, *, carries_on: bool = False) -> list[float]:
    return [learning_rate(step, steps, optimizer, carries_on=carries_on) for step in range(steps)]


def test_the_first_phase_warms_up_from_zero_and_holds() -> None:
    found = rates(6, OptimizerSpec(learning_rate=1.0, warmup_steps=4))
    assert found == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


def test_a_later_phase_warms_up_from_a_tenth() -> None:
    found = rates(4, OptimizerSpec(learning_rate=2.0, warmup_steps=3), carries_on=True)
    assert found == pytest.approx([0.8, 1.4, 2.0, 2.0])


def test_a_decay_falls_in_a_line_to_a_tenth() -> None:
    spec = OptimizerSpec(learning_rate=1.0, warmup_steps=0, schedule="decay")
    assert rates(10, spec, carries_on=True) == pytest.approx([1 - 0.1 * step for step in range(10)])
    assert rates(1, spec) == [1.0]
