import errno
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from curriculum.train import checkpoint, restore
from curriculum.train.checkpoint import CheckpointState
from curriculum.train.optimizer import TrainState, new_train_state
from curriculum.train.tensor_file import write_tensors
from schemas.errors import JobError

CPU = torch.device("cpu")


@pytest.fixture
def train_state(world: Any) -> TrainState:
    made = new_train_state(world.job(), CPU)
    for weight in made.model.parameters():
        weight.grad = torch.ones_like(weight)
    made.optimizer.step()
    return made


def at(step: int) -> CheckpointState:
    return CheckpointState(step=step, slot=4 * step)


def test_what_is_saved_is_what_comes_back(
    train_state: TrainState, world: Any, tmp_path: Path
) -> None:
    torch.manual_seed(5)
    path = checkpoint.save(tmp_path, train_state, at(7))
    drawn = torch.rand(3)
    other = new_train_state(world.job(seed=9), CPU)
    assert restore.resume(path, other) == at(7)
    assert torch.equal(torch.rand(3), drawn)
    for one, two in zip(train_state.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(one, two)
        moments, same = train_state.optimizer.state[one], other.optimizer.state[two]
        assert all(torch.equal(moments[name], same[name]) for name in moments)
        assert set(moments) == set(same)


def test_the_same_values_are_the_same_bytes(train_state: TrainState, tmp_path: Path) -> None:
    one = checkpoint.save(tmp_path / "one", train_state, at(1))
    two = checkpoint.save(tmp_path / "two", train_state, at(1))
    for file in one.iterdir():
        assert file.read_bytes() == (two / file.name).read_bytes(), file.name


def test_the_newest_two_are_kept(train_state: TrainState, tmp_path: Path) -> None:
    for step in (9, 10, 11, 100):
        checkpoint.save(tmp_path / "checkpoints", train_state, at(step))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "step=100",
        "step=11",
    ]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_named_and_passed_over(
    train_state: TrainState, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    older = checkpoint.save(tmp_path, train_state, at(1))
    newer = checkpoint.save(tmp_path, train_state, at(2))
    assert checkpoint.newest(tmp_path) == newer
    file = newer / name
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert checkpoint.newest(tmp_path) == older
    assert f"step=2 is skipped: {name} " in capsys.readouterr().out
    with pytest.raises(JobError, match="damaged"):
        restore.carry_over(newer, train_state)


def test_a_checkpoint_without_its_manifest_is_none(train_state: TrainState, tmp_path: Path) -> None:
    (checkpoint.save(tmp_path, train_state, at(1)) / "manifest.json").unlink()
    assert checkpoint.newest(tmp_path) is None
    assert checkpoint.newest(tmp_path / "absent") is None


def test_a_checkpoint_of_another_model_is_refused(
    train_state: TrainState, world: Any, tmp_path: Path
) -> None:
    path = checkpoint.save(tmp_path, train_state, at(1))
    wider = world.job().model.model_copy(update={"mlp_width": 256, "name": "wider"})
    with pytest.raises(JobError, match=r"mlp_width 256; .* mlp_width 128"):
        restore.carry_over(path, new_train_state(world.job(model=wider), CPU))


def test_a_disk_that_takes_no_more_is_the_systems_error_and_names_the_file(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    tensors = {"wide": torch.zeros(6 << 20)}
    file = tmp_path / "wide.safetensors"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 20, hard))
    try:
        with pytest.raises(OSError, match=r"wide\.safetensors") as failed:
            write_tensors(tensors, file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert failed.value.errno == errno.EFBIG
    write_tensors(tensors, file, {"format": "pt"})
    assert torch.equal(load_file(file)["wide"], tensors["wide"])
