from typing import Any

import pytest
import torch

from curriculum.train.device import enough_memory
from schemas.errors import JobMemoryError

IN_USE = "Tried to allocate 9 GiB. GPU 0 has less."


def test_memory_that_is_full_is_said_as_such(world: Any) -> None:
    job = world.job()
    with (
        pytest.raises(JobMemoryError, match=r"step 3: .*machine"),
        enough_memory(job, "step 3"),
    ):
        torch.empty(2**50)
    with pytest.raises(JobMemoryError, match="GPU"), enough_memory(job, "step 3"):
        raise torch.OutOfMemoryError(IN_USE)
    with pytest.raises(JobMemoryError, match="MemoryError; the"), enough_memory(job, "step 3"):
        raise MemoryError
    with pytest.raises(RuntimeError, match="of something else"), enough_memory(job, "step 3"):
        raise RuntimeError("of something else")


@pytest.mark.parametrize("recompute", [False, True])
def test_what_is_done_already_is_not_told_to_try(world: Any, recompute: bool) -> None:
    job = world.job(recompute=recompute)
    with pytest.raises(JobMemoryError) as told, enough_memory(job, "step 4"):
        raise torch.OutOfMemoryError(IN_USE)
    assert ("--recompute" in told.value.cure) is not recompute
