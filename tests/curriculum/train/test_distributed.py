"""Several ranks: one gradient, one set of figures, one checkpoint that any number of ranks reads."""

import errno
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from pydantic import TypeAdapter
from safetensors import SafetensorError
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from curriculum.train import __main__ as process
from curriculum.train import checkpoint, restore, sharded, tensor_file
from curriculum.train.checkpoint import CheckpointState, Saver
from curriculum.train.checkpoint_files import SHARDS, damage
from curriculum.train.dataloader import Batch, PlannedRows, blank, steps_of
from curriculum.train.distributed import ALONE, ProcessRank, Ranks, join_ranks
from curriculum.train.metrics import counts_of_step
from curriculum.train.optimizer import TrainState, gather_whole, new_train_state, whole_model
from curriculum.train.processes import KILLED, start_ranks
from curriculum.train.step import gradients
from schemas.errors import JobError
from schemas.job import EngramSpec, ModelSpec

CPU = torch.device("cpu")
HYBRID = ModelSpec(
    name="hybrid",
    vocab_size=64,
    blocks="AMCEF",
    width=32,
    heads=2,
    kv_heads=1,
    mlp_width=64,
    streams=2,
    engram=EngramSpec(slots=64, slot_width=8),
)
"""A block of every family."""


@pytest.fixture
def one_of_one(tmp_path: Path) -> Iterator[Ranks]:
    """A group of one: sharding, its checkpoints and their threads, without other processes."""
    store = (tmp_path / "meet").as_uri()
    dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    yield Ranks(
        mesh=init_device_mesh("cpu", (1,)),
        host=dist.new_group(backend="gloo"),
        saving=dist.new_group(backend="gloo"),
    )
    dist.destroy_process_group()


def step_of(world: Any, job: Any) -> list[Batch]:
    return next(steps_of(job, PlannedRows.from_job(job, world.store.root), first_step=0, workers=0))


def stepped(world: Any, ranks: Ranks = ALONE, **changes: Any) -> TrainState:
    """Return the train state after one step."""
    job = world.job(**changes)
    train_state = new_train_state(job, CPU, ranks)
    gradients(train_state, step_of(world, job), job, step=1)
    train_state.optimizer.step()
    train_state.optimizer.zero_grad()
    return train_state


def weights(train_state: TrainState) -> dict[str, torch.Tensor]:
    train_state.reshard()
    named = train_state.model.named_parameters()
    return {name: gather_whole(weight.detach()).clone() for name, weight in named}


def at(step: int) -> CheckpointState:
    return CheckpointState(step=step, slot=4 * step)


def test_a_blank_batch_adds_exactly_nothing(world: Any) -> None:
    job = world.job(micro_positions=256)
    batches = step_of(world, job)
    found = []
    sizes = torch.ones(64, dtype=torch.int64)
    for given in (batches, [*batches, blank(batches[0])]):
        assert counts_of_step(given, sizes) == counts_of_step(batches, sizes)
        train_state = new_train_state(job, CPU)
        gradient = gradients(train_state, given, job, step=1)
        found.append((gradient, [each.grad for each in train_state.model.parameters()]))
    (one, ones), (other, others) = found
    assert (one.loss, one.z_loss, one.norm) == (other.loss, other.z_loss, other.norm)
    for a, b in zip(ones, others, strict=True):
        assert a is not None
        assert b is not None
        assert torch.equal(a, b)


@pytest.mark.parametrize("model", [{}, {"model": HYBRID}], ids=["attention", "hybrid"])
def test_sharded_and_whole_models_learn_alike(
    world: Any, one_of_one: Ranks, model: dict[str, Any]
) -> None:
    plain, split = stepped(world, **model), stepped(world, one_of_one, **model)
    assert isinstance(split.model.head.weight, DTensor)
    assert not isinstance(plain.model.head.weight, DTensor)
    one, other = weights(plain), weights(split)
    for name, weight in one.items():
        assert torch.allclose(weight, other[name], atol=1e-7), name
    rebuilt = whole_model(split, world.job(**model))
    assert all(torch.equal(other[name], each) for name, each in rebuilt.named_parameters())


@pytest.mark.parametrize("ranks", ["alone", "sharded"])
def test_losses_are_the_same_when_blocks_are_computed_again(
    world: Any, one_of_one: Ranks, ranks: str
) -> None:
    who = one_of_one if ranks == "sharded" else ALONE
    kept, again = (
        weights(stepped(world, who, recompute=each, model=HYBRID)) for each in (False, True)
    )
    assert all(torch.equal(kept[name], again[name]) for name in kept)


def test_blocks_are_computed_again_when_asked(world: Any) -> None:
    calls = []
    train_state = new_train_state(world.job(recompute=True), CPU)
    train_state.model.blocks[0].get_submodule("layer").register_forward_pre_hook(
        lambda *_: calls.append(1)
    )
    job = world.job()
    batches = step_of(world, job)
    gradients(train_state, batches, job, step=1)
    assert len(calls) == 2 * len(batches)


@pytest.mark.parametrize("form", ["portable", "shards"])
@pytest.mark.parametrize("reader", ["alone", "sharded"])
def test_either_form_is_read_by_any_number_of_ranks(
    world: Any, one_of_one: Ranks, tmp_path: Path, form: str, reader: str
) -> None:
    torch.manual_seed(5)
    written = stepped(world, one_of_one, model=HYBRID)
    if form == "portable":
        path = checkpoint.save(tmp_path, written, at(7))
    else:
        path = save_shards(tmp_path, written, at(7))
    drawn = torch.rand(3)
    fresh = new_train_state(
        world.job(seed=9, model=HYBRID), CPU, one_of_one if reader == "sharded" else ALONE
    )
    assert restore.resume(path, fresh) == at(7)
    assert torch.equal(torch.rand(3), drawn)
    one, other = weights(written), weights(fresh)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert len(one) == len(other) > 10
    for a, b in zip(written.model.parameters(), fresh.model.parameters(), strict=True):
        mine, its = written.optimizer.state[a], fresh.optimizer.state[b]
        assert set(mine) == set(its) == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(gather_whole(mine[name]), gather_whole(its[name])) for name in mine)
    found = restore.read_weights(path)
    assert found.keys() == one.keys()
    assert all(torch.equal(found[name], one[name]) for name in one)


def save_shards(folder: Path, train_state: TrainState, state: CheckpointState) -> Path:
    draft = checkpoint.new_draft(folder, state.step)
    sharded.start(draft / SHARDS, train_state).result()
    return checkpoint.publish(folder, train_state.model.spec, state)


def test_a_damaged_shard_is_found(world: Any, one_of_one: Ranks, tmp_path: Path) -> None:
    path = save_shards(tmp_path, stepped(world, one_of_one), at(2))
    (shard,) = (path / SHARDS).glob("rank-*.safetensors")
    assert damage(path) is None
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    assert str(damage(path)).startswith(f"{SHARDS}/{shard.name} ")


def test_shards_are_what_they_were_when_the_save_began(
    world: Any, one_of_one: Ranks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_state = stepped(world, one_of_one)
    before = weights(train_state)
    draft = checkpoint.new_draft(tmp_path, 1)
    held = hold(monkeypatch, tensor_file, "save_file")
    begun = sharded.start(draft / SHARDS, train_state)
    ruin(train_state)
    assert not begun.done()
    held.set()
    begun.result(120)
    path = checkpoint.publish(tmp_path, train_state.model.spec, at(1))
    found = restore.read_weights(path)
    assert all(torch.equal(found[name], before[name]) for name in before)
    assert not torch.equal(weights(train_state)["head.weight"], before["head.weight"])


def test_a_checkpoint_is_what_it_was_when_the_save_began(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_state = stepped(world)
    before = weights(train_state)
    held = hold(monkeypatch, tensor_file, "save_file")
    saver = Saver(tmp_path, train_state)
    saver.save(at(1))
    ruin(train_state)
    assert checkpoint.newest(tmp_path) is None
    held.set()
    path = saver.wait()
    assert path is not None
    found = restore.read_weights(path)
    assert all(torch.equal(found[name], before[name]) for name in before)


def hold(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> threading.Event:
    """Let a function of the writer wait until the event is set."""
    go, function = threading.Event(), getattr(module, name)

    def waiting(*arguments: Any, **options: Any) -> Any:
        assert go.wait(120)
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, waiting)
    return go


@torch.no_grad()
def ruin(train_state: TrainState) -> None:
    for weight in train_state.model.parameters():
        weight.mul_(0).add_(7)


FULL = "Error while serializing: I/O error: No space left on device (os error 28)"


@pytest.mark.parametrize(
    "said", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), SafetensorError(FULL)]
)
def test_a_full_disk_ends_the_run_and_the_last_checkpoint_stays(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Exception
) -> None:
    saver = Saver(tmp_path, stepped(world))
    saver.save(at(1))
    saver.wait()

    def full(*_: object) -> None:
        raise said

    monkeypatch.setattr(tensor_file, "save_file", full)
    saver.save(at(2))
    with pytest.raises(JobError, match=r"No space left on device.*step=1"):
        saver.save(at(3))
    saver.close()
    assert checkpoint.newest(tmp_path) == tmp_path / "step=1"


def test_a_writers_own_fault_is_not_hidden(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(tensor_file, "save_file", broken)
    saver = Saver(tmp_path, stepped(world))
    saver.save(at(1))
    with pytest.raises(ZeroDivisionError):
        saver.wait()


def test_a_place_is_what_torchrun_says() -> None:
    found = ProcessRank.from_environment({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"})
    assert (found.rank, found.size, found.local, found.meet) == (5, 8, 1, "env://")
    assert ProcessRank.from_environment({}) == ProcessRank()
    with join_ranks(ProcessRank(), "cpu") as ranks:
        assert ranks is ALONE


def test_alone_every_word_is_ones_own() -> None:
    assert ALONE.gather(3, TypeAdapter(int)) == [3]
    assert ALONE.total([1.5, 2.0]) == [1.5, 2.0]
    assert ALONE.broadcast_first(lambda: "x", TypeAdapter(str)) == "x"
    assert (ALONE.any(True), ALONE.any(False)) == (True, False)
    with pytest.raises(JobError):
        ALONE.run_on_first(refuse)


def refuse() -> None:
    raise JobError("this", cause="it is a test", cure="None")


WORDS = """
import sys
import torch
from pydantic import TypeAdapter
from curriculum.train.distributed import PATH_OR_NONE, ProcessRank, exit_rank, join_ranks
from schemas.errors import JobError, NotFiniteError
NUMBER, FLOATS = TypeAdapter(int), TypeAdapter(tuple[float, ...])
rank, size, meet = int(sys.argv[2]), int(sys.argv[4]), sys.argv[6]
def refuse():
    raise NotFiniteError("rank", rank, cause="it refuses", cure="None", location=("a", 1))
with join_ranks(ProcessRank(rank=rank, size=size, meet=meet), "cpu") as ranks:
    assert ranks.gather("ab"[rank] * 300 * rank, TypeAdapter(str)) == ["", "b" * 300]
    exact = (0.1 + 0.2, 1e-323, -0.0, float("inf"))
    assert list(map(repr, ranks.gather(exact, FLOATS))) == [repr(exact)] * 2
    (_, (nan,)) = ranks.gather((float("nan"),), FLOATS)
    assert nan != nan
    state = {str(rank): torch.full((3,), rank, dtype=torch.bfloat16)}
    for of, found in enumerate(ranks.gather_tensors(state)):
        assert found.keys() == {str(of)} and found[str(of)].tolist() == [of] * 3
        assert found[str(of)].dtype == torch.bfloat16
    assert ranks.total([rank + 1.0, 5]) == [3.0, 10]
    assert ranks.any(rank == 1)
    assert not ranks.any(False)
    assert ranks.broadcast_first(lambda: rank, NUMBER) == 0
    assert ranks.broadcast_first(lambda: None, PATH_OR_NONE) is None
    assert ranks.run_together(lambda: rank) == rank
    first = lambda make: ranks.broadcast_first(make, NUMBER)
    for together in (ranks.run_together, ranks.run_on_first, first):
        for refusing in range(2):
            try:
                together(refuse if rank == refusing else lambda: 0)
            except JobError as failed:
                assert type(failed) is NotFiniteError
                assert failed.value == str(refusing), failed.value
                assert failed.location == ("a", 1)
            else:
                assert together != ranks.run_together and refusing == 1
exit_rank(0)
"""


def run_ranks(code: str, stop: Callable[[], bool] = lambda: False) -> int:
    environment = dict(os.environ) | {"GLOO_SOCKET_IFNAME": "lo"}
    return start_ranks([sys.executable, "-c", code], 2, environment, stop)


def test_ranks_agree_on_values_and_on_errors() -> None:
    assert run_ranks(WORDS) == 0


@pytest.mark.parametrize(
    ("code", "grace", "expected", "words"),
    [
        ("pass", 6000.0, 0, ""),
        ("import sys; sys.exit(75)", 6000.0, 75, ""),
        ("import sys; sys.exit(75 * int(sys.argv[2]))", 6000.0, 75, ""),
        (
            "import sys; sys.exit(int(sys.argv[2]))",
            6000.0,
            1,
            "ranks ended: rank 0 by exit code 0, rank 1 by exit code 1\n",
        ),
        (
            "import os, sys, time\nif int(sys.argv[2]): os.kill(os.getpid(), 9)\ntime.sleep(6000)",
            0.2,
            KILLED,
            "ranks ended: rank 0 by signal SIGKILL, rank 1 by signal SIGKILL\n",
        ),
    ],
)
def test_exit_codes_of_ranks_become_one(
    code: str,
    grace: float,
    expected: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("curriculum.train.processes.GRACE_SECONDS", grace)
    assert run_ranks(code) == expected
    assert capsys.readouterr().err == words


def stopped_once_begun(folder: Path, code: str) -> int:
    """Return the exit code of two ranks that are stopped after each has touched its file."""
    touch = (
        f"import pathlib, signal, sys, time\nbegun = pathlib.Path({str(folder)!r}, sys.argv[2])\n"
    )
    return run_ranks(touch + code, lambda: len(list(folder.iterdir())) == 2)


def test_a_stop_reaches_every_rank(tmp_path: Path) -> None:
    code = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})\n"
        "begun.touch()\n"
        "time.sleep(6000)"
    )
    assert stopped_once_begun(tmp_path, code) == 75


def test_a_stop_that_comes_while_ranks_start_is_heard_when_they_listen(tmp_path: Path) -> None:
    """Else they would end by the signal, and the run as one that was killed."""
    code = (
        "assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
        "begun.touch()\n"
        "while signal.SIGTERM not in signal.sigpending(): time.sleep(0.01)\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})\n"
        "sys.exit(1)"
    )
    assert stopped_once_begun(tmp_path, code) == 75


def test_a_listener_receives_deferred_messages() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {each: signal.getsignal(each) for each in numbers}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for each in numbers:
        signal.raise_signal(each)
    try:
        assert sorted(process._listen()) == sorted(numbers)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_matrices_decay_and_nothing_else(world: Any) -> None:
    every = HYBRID.model_copy(update={"structure": True})
    train_state = new_train_state(world.job(model=every, backend="math"), CPU)
    decayed, spared = train_state.optimizer.param_groups
    names = {id(weight): name for name, weight in train_state.model.named_parameters()}
    assert decayed["weight_decay"] > 0 == spared["weight_decay"]
    kinds = [
        {re.sub(r"^blocks.\d+.(layer.)?", "", names[id(each)]) for each in group["params"]}
        for group in (decayed, spared)
    ]
    assert not kinds[0] & kinds[1]
    assert kinds[0] >= {"query.weight", "gate.weight", "output.weight", "kernel", "head.weight"}
    assert kinds[1] >= {
        *("embedding.weight", "norm.weight", "query_norm.weight", "log_rate", "step", "skip"),
        *("table.weight", "structure.table", "relations.table"),
    }
    assert len(decayed["params"]) + len(spared["params"]) == len(names)
