"""Checkpoints that somebody else wrote, manifest and all: nothing in them runs, or is taken on trust."""

import contextlib
import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.device_mesh import init_device_mesh

from curriculum.train import checkpoint, restore, sharded
from curriculum.train.checkpoint import CheckpointState, newest
from curriculum.train.checkpoint_files import SHARDS, damage, record_of, require_listed
from curriculum.train.distributed import ALONE, Ranks
from curriculum.train.optimizer import TrainState, new_train_state
from curriculum.train.restore import model_in
from schemas.errors import JobError
from tests.flows.hostile_workspace import Canary
from tests.sealing import edit

CPU = torch.device("cpu")


@pytest.fixture
def fired(tmp_path: Path) -> Path:
    """The file that a payload makes."""
    return tmp_path / "fired"


@pytest.fixture(params=["portable", "shards"])
def written(world: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A checkpoint as its sender had it, in either form."""
    store = (tmp_path / "meet").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    ranks = Ranks(
        mesh=init_device_mesh("cpu", (1,)),
        host=dist.new_group(backend="gloo"),
        saving=dist.new_group(backend="gloo"),
    )
    folder = tmp_path / "checkpoints"
    train_state = new_train_state(world.job(), CPU, ranks)
    if request.param == "portable":
        yield checkpoint.save(folder, train_state, CheckpointState(step=3))
    else:
        sharded.start(checkpoint.new_draft(folder, 3) / SHARDS, train_state).result()
        yield checkpoint.publish(folder, train_state.model.spec, CheckpointState(step=3))
    dist.destroy_process_group()


def list_all(folder: Path) -> None:
    """Let the manifest list all files as they are now, as a sender can."""
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    records = [record_of(folder, each) for each in files if each.name != "manifest.json"]
    edit(folder / "manifest.json", files=[each.model_dump() for each in records])


def readers(folder: Path, train_state: TrainState) -> dict[str, Callable[[], object]]:
    return {
        "sample and export": lambda: model_in(folder),
        "resume": lambda: restore.resume(folder, train_state),
        "next phase": lambda: restore.carry_over(folder, train_state),
        "look for the newest": lambda: newest(folder.parent),
        "inspect": lambda: require_listed(folder),
    }


def refused(folder: Path, world: Any, words: str, *, all_of_them: bool = True) -> None:
    """No reader takes it, and each says why."""
    train_state = new_train_state(world.job(), CPU, ALONE)
    for name, read in readers(folder, train_state).items():
        if all_of_them or name in ("sample and export", "resume"):
            with pytest.raises(JobError, match=words):
                read()


@pytest.mark.parametrize("is_listed", [False, True], ids=["unlisted", "listed"])
@pytest.mark.parametrize("name", [f"{SHARDS}/.metadata", f"{SHARDS}/__0_.metadata", "extra.pt"])
def test_a_planted_pickle_runs_in_no_reader(
    world: Any, written: Path, fired: Path, name: str, is_listed: bool
) -> None:
    file = written / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(pickle.dumps(Canary(file=fired)))
    if is_listed:
        list_all(written)
    for read in readers(written, new_train_state(world.job(), CPU, ALONE)).values():
        with contextlib.suppress(JobError):
            read()
    assert not fired.exists()


def test_the_planted_pickle_would_have_run(written: Path, fired: Path) -> None:
    (written / SHARDS).mkdir(exist_ok=True)
    (written / SHARDS / ".metadata").write_bytes(pickle.dumps(Canary(file=fired)))
    with pytest.raises(AttributeError):
        FileSystemReader(written / SHARDS).read_metadata()
    assert fired.exists()


def test_a_pickle_in_place_of_tensors_or_the_index_is_not_unpickled(
    world: Any, written: Path, fired: Path
) -> None:
    for file in [*written.rglob("*.safetensors"), *written.glob(f"{SHARDS}/index.json")]:
        whole = file.read_bytes()
        file.write_bytes(pickle.dumps(Canary(file=fired)))
        list_all(written)
        refused(written, world, file.name, all_of_them=False)
        file.write_bytes(whole)
    assert not fired.exists()
    list_all(written)
    assert damage(written) is None


def test_nothing_of_ours_is_a_pickle(written: Path) -> None:
    names = {each.name for each in written.rglob("*") if each.is_file()}
    assert {Path(name).suffix for name in names} == {".json", ".safetensors"}


SIZES = {"width": 10**12, "vocab_size": 1 << 40, "blocks": "E" * 10**6, "heads": 10**9}


@pytest.mark.parametrize("field", SIZES)
def test_a_model_of_absurd_size_is_an_error(world: Any, written: Path, field: str) -> None:
    file = written / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: SIZES[field]}))
    list_all(written)
    refused(written, world, f"model.json: {field}: ", all_of_them=False)


def test_a_model_whose_weights_are_others_is_refused_before_it_is_made(
    world: Any, written: Path
) -> None:
    file = written / "model.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"mlp_width": 1 << 20}))
    list_all(written)
    with pytest.raises(JobError, match=r"'blocks\.1.*\[\d*, 1?\d+"):
        model_in(written)


@pytest.mark.parametrize("name", ["model.json", "state.json", "manifest.json"])
@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 100_000, "", "\0", "[]"])
def test_json_that_is_none_or_nested_deep_is_an_error(
    world: Any, written: Path, name: str, text: str
) -> None:
    (written / name).write_text(text)
    if name != "manifest.json":
        list_all(written)
    with pytest.raises(JobError):
        model_in(written) and checkpoint.read_state(written)


def test_json_without_end_is_not_read(world: Any, written: Path) -> None:
    os.truncate(written / "state.json", 1 << 27)
    list_all(written)
    with pytest.raises(JobError, match="67,108,864 bytes"):
        checkpoint.read_state(written)


def change_head(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a file of safetensors says of its tensors."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    change(head)
    text = json.dumps(head).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


def test_tensors_that_are_larger_than_their_file_are_an_error(world: Any, written: Path) -> None:
    def grow(head: dict[str, Any]) -> None:
        for name, each in head.items():
            if name.startswith("head.weight") and len(each["shape"]) == 2:
                each["shape"] = [10**6, 10**6]

    for file in written.rglob("*.safetensors"):
        change_head(file, grow)
    list_all(written)
    refused(written, world, "the checkpoint is damaged", all_of_them=False)


def test_moments_and_generators_of_other_shapes_are_an_error(world: Any, written: Path) -> None:
    if (written / SHARDS).is_dir():
        pytest.skip("the index is held against the files: see the next test")
    file = written / "optimizer.safetensors"
    held = load_file(file)
    save_file(held | {"generator": torch.zeros(9, dtype=torch.uint8)}, file)
    list_all(written)
    train_state = new_train_state(world.job(), CPU, ALONE)
    with pytest.raises(JobError, match="'generator'"):
        restore.resume(written, train_state)
    save_file({"generator": torch.zeros_like(held["generator"])}, file)
    list_all(written)
    with pytest.raises(JobError, match="random"):
        restore.resume(written, train_state)


INDEXES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a file elsewhere": lambda each: each["chunks"][0].update(file="../../x.safetensors"),
    "an absolute file": lambda each: each["chunks"][0].update(file="/etc/passwd"),
    "no such rank": lambda each: each["chunks"][0].update(file="rank-00009.safetensors"),
    "a gap": lambda each: each["chunks"][0].update(offsets=[1, 0]),
    "a huge shape": lambda each: each.update(shape=[10**9, 10**9]),
    "a huge chunk": lambda each: (
        each.update(shape=[10**9, each["shape"][1]]),
        each["chunks"][0].update(sizes=[10**9, each["shape"][1]]),
    ),
    "twice": lambda each: each["chunks"].append(each["chunks"][0]),
    "another kind": lambda each: each.update(kind="uint8"),
    "no kind": lambda each: each.update(kind="load"),
    "negative": lambda each: each.update(shape=[-1, 1]),
    "no sizes": lambda each: each["chunks"][0].update(sizes=[]),
}


@pytest.mark.parametrize("written", ["shards"], indirect=True)
@pytest.mark.parametrize("name", INDEXES)
def test_an_index_that_says_otherwise_than_the_files_is_an_error(
    world: Any, written: Path, name: str
) -> None:
    file = written / SHARDS / "index.json"
    said = json.loads(file.read_text())
    INDEXES[name](next(each for each in said["tensors"] if each["name"] == "head.weight"))
    file.write_text(json.dumps(said))
    list_all(written)
    refused(written, world, "the checkpoint is damaged", all_of_them=False)


def test_an_honest_checkpoint_is_read_by_all(world: Any, written: Path) -> None:
    train_state = new_train_state(world.job(), CPU, ALONE)
    for read in readers(written, train_state).values():
        read()
