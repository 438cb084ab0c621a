"""The trainer as a process: killed, stopped, failed, resumed, and chained to the next phase."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from curriculum.store import inside
from curriculum.store.owners import is_held, train_lock
from curriculum.train import run_directory as directory_module
from curriculum.train.launch.launcher import Launch, launch_job, outcome
from curriculum.train.metrics import read_metrics
from curriculum.train.run import freeze, train
from curriculum.train.run_directory import claim_directory, require_unclaimed, run_recipe
from schemas.errors import JobError
from schemas.job import CLOCK_COLUMNS, CheckpointRef, RunState
from tests.curriculum.train.test_required_proof import report, sealed

Hold = Callable[[str], None]
KillAt = Callable[[int, int, Path, int], int]
COMMAND = (sys.executable, "-m", "curriculum.train")


@pytest.fixture
def kill_at(hold: Hold, let_go: Callable[[], None]) -> KillAt:
    """Starts the job, ends it by a signal once it prints that step, and returns its exit code."""

    def kill_at(step: int, steps: int, directory: Path, number: int) -> int:
        log, words = directory / "train.log", f"step {step}/{steps} "
        hold(words)
        with (
            log.open("ab") as file,
            subprocess.Popen(
                [*COMMAND, str(directory / "job.json")], stdout=file, stderr=file
            ) as process,
        ):
            while words not in log.read_text() and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(number)
        let_go()
        return process.returncode

    return kill_at


@pytest.mark.parametrize("name", ["checkpoints", "metrics", "train.log"])
def test_a_link_in_a_directory_that_was_received_is_refused_and_not_followed(
    world: Any, tmp_path: Path, name: str
) -> None:
    job = world.job()
    directory = world.open_run(job)
    own = tmp_path / "precious" / "step=1"
    own.mkdir(parents=True)
    (own / "thesis.txt").write_text("mine")
    before = sorted(tmp_path.joinpath("precious").rglob("*"))
    (directory / name).symlink_to(tmp_path / "precious")
    ended = subprocess.run(
        [*COMMAND, str(directory / "job.json")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("StoreError: ")
    assert name in ended.stderr
    assert sorted(tmp_path.joinpath("precious").rglob("*")) == before


@pytest.mark.usefixtures("in_this_process")
def test_a_link_for_checkpoints_is_followed_where_no_look_refuses_it(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above."""
    monkeypatch.setattr(inside, "require_plain_below", lambda *_: None)
    job = world.job(steps=2)
    precious = tmp_path / "precious"
    precious.mkdir()
    (world.open_run(job) / "checkpoints").symlink_to(precious)
    train(world.store, job)
    assert [folder.name for folder in precious.iterdir()] == ["step=2"]


def deterministic(directory: Path) -> Any:
    return read_metrics(directory / "metrics").drop_columns(list(CLOCK_COLUMNS))


def end_of(directory: Path) -> dict[str, Any]:
    """The files of the last checkpoint, and the evaluations but for the seconds that they took."""
    (last,) = [path for path in (directory / "checkpoints").iterdir() if path.name == "step=14"]
    evaluated = sorted((directory / "evaluations").rglob("*"))
    assert evaluated
    return {
        **{file.name: file.read_bytes() for file in last.iterdir()},
        **{
            str(each.relative_to(directory)): pq.read_table(each).replace_schema_metadata(None)
            for each in evaluated
            if each.is_file()
        },
    }


@pytest.mark.usefixtures("in_this_process")
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, make_world: Callable[..., Any], kill_at: KillAt
) -> None:
    changes = {"steps": 14, "micro_positions": 256, "evaluate_every": 5}
    whole, broken = make_world(tmp_path / "whole"), make_world(tmp_path / "broken")
    job = whole.job(**changes)
    assert job == broken.job(**changes)
    uninterrupted = train(whole.store, job)
    directory = broken.open_run(job)
    for step in sorted(random.Random(11).sample(range(2, 14), 2)):
        assert kill_at(step, 14, directory, signal.SIGKILL) == -signal.SIGKILL
        assert not (directory / "report.json").exists()
        assert (directory / "state.json").is_file()
    resumed = train(broken.store, job)
    assert "resuming at step" in (directory / "train.log").read_text()
    assert end_of(resumed.directory) == end_of(uninterrupted.directory)
    assert deterministic(resumed.directory).equals(deterministic(uninterrupted.directory))
    assert len(deterministic(resumed.directory)) == 14
    one, other = resumed.report, uninterrupted.report
    assert (one.before, one.after, one.history) == (other.before, other.after, other.history)
    assert one.tokens == other.tokens
    assert resumed.artefact is not None
    broken.store.verify(resumed.artefact)
    names = {record.name for record in resumed.artefact.manifest.files}
    assert not {"state.json"} & names
    assert {"job.json", "report.json", "train.log"} <= names


@pytest.mark.system
def test_a_stopped_run_goes_on_and_a_finished_one_is_found(world: Any, kill_at: KillAt) -> None:
    job = world.job(checkpoint_every=100, micro_positions=256)
    directory = world.open_run(job)
    assert kill_at(3, 12, directory, signal.SIGTERM) == 75
    assert "cancelled" in (directory / "train.log").read_text()
    assert list((directory / "checkpoints").glob("step=*/manifest.json"))
    finished = train(world.store, job)
    assert finished.report.stopped == "budget"
    assert finished.report.steps == 12
    log = (directory / "train.log").read_text()
    found = train(world.store, job)
    assert found.report == finished.report
    assert (directory / "train.log").read_text() == log
    assert [each.path for each in world.store.artefacts("runs")] == [directory]


@pytest.mark.system
@pytest.mark.usefixtures("in_this_process")
def test_the_next_phase_starts_from_weights_and_moments_of_the_one_before(world: Any) -> None:
    first = train(world.store, world.job(steps=2))
    again = train(world.store, world.job(steps=2), again=True)
    assert again.directory.name == "attempt=2"
    assert again.report.attempt == 2
    assert again.artefact.content == first.artefact.content  # type: ignore[union-attr]
    start = CheckpointRef(
        run_key=first.artefact.key,  # type: ignore[union-attr]
        run_content=first.artefact.content,  # type: ignore[union-attr]
        path=first.report.checkpoint,
    )
    changes = {"steps": 1, "phase": "graph", "start_from": start, "seed": 99}
    second = train(world.store, world.job(**changes, require=("leakcheck",)))
    assert second.report.leakcheck == "passed"
    assert second.report.before[0].val_bpb == first.report.after[0].val_bpb
    moments = load_file(world.store.root / second.report.checkpoint / "optimizer.safetensors")
    assert {float(moments[name]) for name in moments if name.endswith(".step")} == {3.0}
    inputs = {each.name for each in second.artefact.manifest.inputs}  # type: ignore[union-attr]
    assert "previous" in inputs


def test_a_failed_run_ends_in_an_error_that_quotes_its_log(world: Any) -> None:
    settings = world.job().optimizer.model_copy(update={"learning_rate": 1e30})
    job = world.job(optimizer=settings)
    with pytest.raises(JobError, match=r"exit code 65; .*\n[\s\S]*NotFiniteError: "):
        train(world.store, job)
    directory = world.store.root / run_recipe(job).directory / "attempt=1"
    report = (directory / "report.json").read_text()
    assert '"stopped": "failed"' in report
    assert '"failure": "not_finite"' in report
    assert not (directory / "state.json").exists()
    assert not (directory / "manifest.json").exists()


def test_a_failed_run_is_cured_by_what_it_left(world: Any) -> None:
    job = world.job()
    directory = world.open_run(job)
    (directory / "train.log").write_text("the last line\n")

    def refusal_cure() -> str:
        with pytest.raises(JobError) as failed:
            outcome(job, directory, 70)
        assert failed.value.lines == ("the last line",)
        return failed.value.cure

    assert "step 0" in refusal_cure()
    (directory / "checkpoints" / "step=2").mkdir(parents=True)
    assert "last checkpoint" in refusal_cure()
    (directory / "leakcheck.json").write_text(sealed(directory / "job.json", report(passed=True)))
    assert "last checkpoint" in refusal_cure()
    (directory / "leakcheck.json").write_text(sealed(directory / "job.json", report(passed=False)))
    assert "curriculum leakcheck --model" in refusal_cure()


def test_an_interrupt_ends_the_process_in_a_checkpoint(world: Any, hold: Hold) -> None:
    directory = world.open_run(world.job(steps=14, micro_positions=256, checkpoint_every=100))
    hold("step 2/14 ")

    def interrupt(line: str) -> None:
        if line.startswith("step 2/"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch_job(world.store, directory / "job.json", Launch(tell=interrupt))
    assert '"stopped": "cancelled"' in (directory / "report.json").read_text()
    assert list((directory / "checkpoints").glob("step=*/manifest.json"))


def test_a_job_ends_when_its_parent_is_gone(world: Any) -> None:
    directory = world.open_run(world.job())
    done = subprocess.run(
        [*COMMAND, str(directory / "job.json"), "--parent", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert os.getpid() != 1
    assert done.returncode == 1
    assert "process 1," in done.stderr
    assert not (directory / "checkpoints").exists()


def test_a_run_has_one_trainer_at_a_time(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "ENDING_SECONDS", 0.1)
    job = world.job()
    directory = world.open_run(job)
    with claim_directory(world.store, job, directory):
        me = RunState.model_validate_json((directory / "state.json").read_text())
        assert me.pid == os.getpid()
        assert is_held(train_lock(world.store.root, job.run_key, job.attempt))
        refused = pytest.raises(JobError, match=f"{os.getpid()} on .*;")
        with refused, claim_directory(world.store, job, directory):
            pytest.fail("a second owner got in")
    assert not (directory / "state.json").exists()


def test_a_trainer_that_was_killed_is_waited_for_until_the_system_lets_go_of_its_locks(
    world: Any,
) -> None:
    job, held, killed = world.job(), threading.Event(), threading.Event()
    directory = world.open_run(job)

    def end_slowly() -> None:
        with claim_directory(world.store, job, directory):
            held.set()
            assert killed.wait(60)
            time.sleep(0.5)

    dying = threading.Thread(target=end_slowly)
    dying.start()
    assert held.wait(60)
    killed.set()
    require_unclaimed(world.store, job, directory)
    dying.join()


def test_neither_names_nor_paths_nor_threads_change_a_runs_key(world: Any) -> None:
    key = run_recipe(world.job()).key
    same = {"specialist": "x", "branch": "b", "threads": 7, "attempt": 3, "checkpoint_every": 1}
    same |= {"processes": 4, "recompute": True, "workers": 3}
    assert run_recipe(world.job(**same, plan="elsewhere/plan.parquet")).key == key
    for changed in ({"seed": 4}, {"steps": 11}, {"plan_content": "0"}, {"backend": "math"}):
        assert run_recipe(world.job(**changed)).key != key


def test_a_frozen_job_is_what_counts(world: Any) -> None:
    directory = world.open_run(world.job(threads=1))
    assert freeze(directory, world.job(threads=5)).threads == 1


def test_a_run_goes_on_by_as_many_processes_as_are_asked_for_now(world: Any) -> None:
    directory = world.open_run(world.job(processes=4))
    assert freeze(directory, world.job(processes=2, recompute=True)).processes == 2
    again = freeze(directory, world.job(processes=1, threads=9))
    assert (again.processes, again.recompute, again.threads) == (1, True, 1)


def test_the_trainers_process_imports_what_a_gpu_machine_has() -> None:
    code = (
        "import sys, curriculum.train.__main__, curriculum.train.job_process, curriculum.train.job\n"
        "unwanted = {'prefect', 'polars', 'tree_sitter', 'duckdb', 'tokenizers', 'psutil'}\n"
        "print(sorted((unwanted | {'datasets'}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_torch_is_what_a_runs_key_names(world: Any) -> None:
    assert run_recipe(world.job()).tools == {"torch": torch.__version__}
