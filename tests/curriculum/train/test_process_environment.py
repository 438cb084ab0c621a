"""Environment of training processes."""

import os
from typing import Any

import pytest

from curriculum.train.process_environment import restrict_visible_gpus


def test_a_slot_sees_its_share_of_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen(slot: int, of: int, given: Any) -> str | None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
        restrict_visible_gpus(slot, of)
        return os.environ["CUDA_VISIBLE_DEVICES"]

    assert seen(1, 2, "4,5,6,7") == "6,7"
    assert seen(0, 1, "4,5") == "4,5"
    assert seen(2, 3, "GPU-a") == "GPU-a"
    assert seen(0, 2, "") == ""
