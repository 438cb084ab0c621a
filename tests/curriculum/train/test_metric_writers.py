import importlib
import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.train import metric_writers
from curriculum.train.metric_writers import (
    figure_scalars,
    fill,
    open_writers,
    parse_writers,
    step_scalars,
)
from curriculum.train.metrics import read_metrics
from curriculum.train.run import train
from curriculum.train.run_directory import run_recipe
from curriculum.train.trainer import Trainer
from schemas.errors import JobError
from schemas.job import CLOCK_COLUMNS, Figure
from tests import factories


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} isn't installed: it is an extra")


Scalars = dict[str, dict[int, float]]


def of_tensorboard(directory: Path) -> tuple[Scalars, int]:
    """Values by name and step, and how many were written, whatever a viewer makes of them."""
    loader: Any = importlib.import_module("tensorboard.backend.event_processing.event_file_loader")
    tensors: Any = importlib.import_module("tensorboard.util.tensor_util")
    values: Scalars = {}
    written = 0
    for file in sorted((directory / "tensorboard").iterdir()):
        for event in loader.EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                found = values.setdefault(value.tag, {})
                found[event.step] = float(tensors.make_ndarray(value.tensor))
                written += 1
    return values, written


def of_wandb(directory: Path) -> tuple[Scalars, int]:
    """The same of the one offline run: a LevelDB log of records."""
    proto: Any = importlib.import_module("wandb.proto.wandb_internal_pb2")
    (file,) = (directory / "wandb").glob("offline-run-*/run-*.wandb")
    data, at, record = file.read_bytes(), 7, b""
    values: Scalars = {}
    written = 0
    while at + 7 <= len(data):
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        if kind == 0:
            at = (at // 32768 + 1) * 32768
            continue
        record += data[at + 7 : at + 7 + length]
        at += 7 + length
        if 32768 - at % 32768 < 7:
            at = (at // 32768 + 1) * 32768
        if kind in (1, 4):
            line = proto.Record.FromString(record)
            record = b""
            items = {item.key or item.nested_key[0]: item for item in line.history.item}
            for name, item in items.items():
                if not name.startswith("_"):
                    values.setdefault(name, {})[line.history.step.num] = json.loads(item.value_json)
                    written += 1
    return values, written


READERS = {"tensorboard": of_tensorboard, "wandb": of_wandb}
BOTH = [pytest.param(name, marks=needs(name)) for name in READERS]


def run(world: Any, directory: Path, stop_after: int = 99, **changes: Any) -> None:
    asked = iter(range(99))
    directory.mkdir(exist_ok=True)
    Trainer(
        world.job(**changes),
        world.store.root,
        directory,
        torch.device("cpu"),
        lambda: next(asked) >= stop_after,
    ).train()


def figure(family: str, step: int, phase: str = "syntax") -> Figure:
    return factories.figure(
        2.5,
        phase=phase,
        family=family,
        domain="*" if family == "*" else "one",
        step=step,
        low=2.0,
        high=3.0,
    )


@pytest.mark.parametrize("name", BOTH)
def test_a_run_leaves_all_that_its_metrics_hold(world: Any, tmp_path: Path, name: Any) -> None:
    run(world, tmp_path / "run", writers=(name,), steps=4, evaluate_every=2)
    values, written = READERS[name](tmp_path / "run")
    table = read_metrics(tmp_path / "run" / "metrics").to_pydict()
    steps = table.pop("step")
    assert steps == [1, 2, 3, 4]
    measured = {column for column in table if table[column][0] is not None}
    assert measured > {"loss", "tokens_per_second", "mean_context"}
    assert {key for key in values if key.startswith("train/")} == {f"train/{m}" for m in measured}
    assert values["train/loss"] == pytest.approx(dict(zip(steps, table["loss"], strict=True)))
    assert set(values["val_bpb/phase syntax"]) == {0, 2, 4}
    assert set(values["val_bpb/anchor, v2_simple one"]) == {0, 2, 4}
    assert written == sum(map(len, values.values()))


@pytest.mark.parametrize("name", BOTH)
def test_a_resumed_run_stands_there_as_an_uninterrupted_one(
    world: Any, tmp_path: Path, name: Any
) -> None:
    changes: Any = {"writers": (name,), "steps": 5, "evaluate_every": 2, "checkpoint_every": 2}
    run(world, tmp_path / "whole", **changes)
    run(world, tmp_path / "resumed", stop_after=5, **changes)
    assert read_metrics(tmp_path / "resumed" / "metrics").num_rows < 5
    run(world, tmp_path / "resumed", **changes)
    (whole, number), (resumed, again) = (READERS[name](tmp_path / d) for d in ("whole", "resumed"))
    assert number == again > 50
    clock = {f"train/{column}" for column in CLOCK_COLUMNS}
    for key in whole:
        assert list(whole[key]) == list(resumed[key]) == sorted(whole[key])
        assert key in clock or whole[key] == resumed[key]


def test_steps_and_evaluations_of_before_are_told_in_their_order() -> None:
    told: list[tuple[int, list[str]]] = []

    class Noting:
        def write(self, step: int, scalars: Any) -> None:
            told.append((step, list(scalars)))

        def flush(self) -> None: ...

        def close(self) -> None: ...

    rows = [{"step": step, "loss": 1.0, "masked_mfu": None} for step in (1, 2)]
    fill([Noting()], rows, [figure("*", 0), figure("v2_simple", 1)])
    assert told == [
        (0, ["val_bpb/phase syntax"]),
        (1, ["train/loss"]),
        (1, ["val_bpb/phase syntax, v2_simple one"]),
        (2, ["train/loss"]),
    ]


def test_what_was_not_measured_is_no_scalar() -> None:
    assert step_scalars({"step": 3, "loss": 2, "masked_mfu": None}) == {"train/loss": 2.0}
    assert figure_scalars([figure("*", 3, phase="anchor")]) == {"val_bpb/anchor": 2.5}


def test_writers_are_chosen_by_a_list_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_writers, "require_installed", lambda names: None)
    assert parse_writers(None) == parse_writers("") == ()
    assert parse_writers("wandb, tensorboard,wandb") == ("wandb", "tensorboard")
    with pytest.raises(JobError, match=r"tensorbord.*: tensorboard, wandb"):
        parse_writers("tensorbord")


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_writer_that_lacks_its_package_says_how_to_install_it(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (
        lambda: parse_writers(name),
        lambda: open_writers(world.job(writers=(name,)), tmp_path),
    ):
        with pytest.raises(JobError, match=rf"pip install .*\[{name}\]'"):
            ask()
    assert list(tmp_path.glob("tensorboard")) == list(tmp_path.glob("wandb")) == []


def test_writers_are_no_part_of_what_a_run_is(world: Any) -> None:
    plain, logged = world.job(), world.job(writers=("tensorboard",))
    assert run_recipe(plain).key == run_recipe(logged).key


@needs("tensorboard")
@needs("wandb")
@pytest.mark.usefixtures("in_this_process")
def test_a_published_run_holds_what_its_writers_wrote(world: Any) -> None:
    job = world.job(writers=("tensorboard", "wandb"), steps=2, evaluations=())
    run = train(world.store, job)
    assert run.artefact is not None
    world.store.verify(run.artefact)
    written = {Path(record.name).parts[0] for record in run.artefact.manifest.files}
    assert {"tensorboard", "wandb", "metrics"} <= written
    assert not [path for path in run.directory.rglob("*") if path.is_symlink()]
    for read in READERS.values():
        assert sorted(read(run.directory)[0]["train/loss"]) == [1, 2]
    assert train(world.store, world.job(steps=2, evaluations=())).artefact is not None
    assert len(list(run.directory.parent.iterdir())) == 1, "writers make no other run"
