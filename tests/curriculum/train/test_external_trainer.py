"""Trainers of other makes: two phases in a row, killed, stopped, and refused where something is missing."""

import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from curriculum.store import Store
from curriculum.train import run
from curriculum.train.checkpoint_files import read_spec
from curriculum.train.external_command import words_of
from curriculum.train.external_results import require_whole_run
from curriculum.train.external_trainer import open_run
from curriculum.train.launch import launcher
from curriculum.train.launch.launcher import Launch
from curriculum.train.launch.log_follower import read_heartbeat
from curriculum.train.metrics import read_metrics
from curriculum.train.run import freeze
from curriculum.train.run_directory import read_job, run_recipe
from schemas.diet import ExternalTrainer
from schemas.errors import JobError
from schemas.job import CLOCK_COLUMNS, CheckpointRef
from tests.sealing import sealed

HERE = Path(__file__).parent
Hold = Callable[[str], None]
FOREIGN = shlex.join([sys.executable, str(HERE / "foreign_trainer.py"), "{job}"])
OURS = (sys.executable, "-m", "curriculum.train")


def job_of(world: Any, **changes: Any) -> Any:
    return world.job(**({"trainer": FOREIGN, "steps": 4, "checkpoint_every": 2} | changes))


def train(store: Store, job: Any, **options: Any) -> Any:
    """Train a job whose command may run."""
    return run.train(store, job, launch=Launch(trainer=job.trainer), **options)


def launched(store: Store, path: Path, how: Launch) -> Any:
    """Launch a job whose command may run."""
    return launcher.launch_job(store, path, replace(how, trainer=read_job(path).trainer))


def script(folder: Path, body: str) -> str:
    """The command of a trainer made of these lines; `job` is the path of job.json."""
    file = folder / "trainer.py"
    file.write_text(f"import sys\nfrom pathlib import Path\njob = Path(sys.argv[1])\n{body}\n")
    return shlex.join([sys.executable, str(file), "{job}"])


def start_of(run: Any) -> CheckpointRef:
    return CheckpointRef(
        run_key=run.artefact.key, run_content=run.artefact.content, path=run.report.checkpoint
    )


def started(directory: Path) -> "subprocess.Popen[bytes]":
    file = directory / "job.json"
    log = (directory / "train.log").open("ab")
    with log:
        return subprocess.Popen(
            [*OURS, str(file), "--trainer", str(read_job(file).trainer)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(directory: Path, text: str, process: "subprocess.Popen[bytes]") -> None:
    while text not in (directory / "train.log").read_text() and process.poll() is None:
        time.sleep(0.005)


def trainer_below(process: "subprocess.Popen[bytes]") -> int:
    """The pid of the command that our process started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0])


def test_a_foreign_trainer_fits_sixty_lines() -> None:
    lines = (HERE / "foreign_trainer.py").read_text().splitlines()
    assert 40 < len([line for line in lines if line.strip()]) <= 60


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, make_world: Callable[..., Any]
) -> tuple[Any, run.Run]:
    """A workspace, and its run of eight steps that nothing interrupted."""
    world = make_world(tmp_path_factory.mktemp("trained") / "workspace")
    return world, train(world.store, job_of(world, steps=8))


@pytest.mark.system
def test_two_phases_are_trained_by_it_the_second_from_the_end_of_the_first(
    trained: tuple[Any, run.Run],
) -> None:
    world, first = trained
    assert first.artefact is not None
    assert (first.report.stopped, first.report.steps) == ("budget", 8)
    assert first.report.tokens.positions == 8 * 1024
    assert first.report.after[-1].val_bpb < first.report.before[-1].val_bpb
    assert first.report.mean_context is not None
    assert len(read_metrics(first.directory / "metrics")) == 8
    assert not (first.directory / "state.json").exists()
    second = train(world.store, job_of(world, phase="graph", start_from=start_of(first), seed=9))
    assert second.artefact is not None
    assert second.report.before[-1].val_bpb == first.report.after[-1].val_bpb
    assert "previous" in {each.name for each in second.artefact.manifest.inputs}
    in_content = {each.name for each in second.artefact.manifest.files if each.in_content}
    assert in_content == {f"checkpoints/step=4/{name}" for name in ("model.pt", "state.json")}
    again = train(world.store, job_of(world, steps=8))
    assert again.report == first.report


@pytest.mark.system
def test_killed_and_resumed_it_ends_as_if_nothing_had_happened(
    world: Any, trained: tuple[Any, run.Run], hold: Hold, let_go: Callable[[], None]
) -> None:
    _, uninterrupted = trained
    job = job_of(world, steps=8)
    directory = world.open_run(job)
    hold("step 5/8 ")
    process = started(directory)
    wait_for(directory, "step 5/8 ", process)
    let_go()
    os.kill(trainer_below(process), signal.SIGKILL)
    assert process.wait() == 69
    assert "signal SIGKILL" in (directory / "train.log").read_text()
    left = json.loads((directory / "report.json").read_text())
    assert (left["stopped"], left["failure"]) == ("failed", "killed")
    resumed = train(world.store, job)
    ends = [
        torch.load(run.directory / "checkpoints" / "step=8" / "model.pt")["model"]
        for run in (resumed, uninterrupted)
    ]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    columns = [
        read_metrics(run.directory / "metrics").drop_columns(list(CLOCK_COLUMNS))
        for run in (resumed, uninterrupted)
    ]
    assert columns[0].equals(columns[1])
    assert resumed.report.after == uninterrupted.report.after
    assert resumed.report.tokens == uninterrupted.report.tokens


@pytest.fixture
def stop_and_go_on(hold: Hold, let_go: Callable[[], None]) -> Callable[[Path], None]:
    """A job of 14 steps stopped after the second leaves a checkpoint, and the same command ends it."""

    def stop_and_go_on(directory: Path) -> None:
        hold("step 2/14 ")
        process = started(directory)
        wait_for(directory, "step 2/14 ", process)
        let_go()
        process.terminate()
        assert process.wait() == 75
        report = json.loads((directory / "report.json").read_text())
        assert report["stopped"] == "cancelled"
        assert 2 <= report["steps"] < 14
        finished = launched(Store.containing(directory), directory / "job.json", Launch())
        assert (finished.stopped, finished.steps) == ("budget", 14)

    return stop_and_go_on


@pytest.mark.slow
def test_stopped_it_leaves_a_checkpoint_and_goes_on(
    world: Any, stop_and_go_on: Callable[[Path], None]
) -> None:
    job = job_of(world, steps=14, checkpoint_every=1000)
    directory = world.open_run(job)
    stop_and_go_on(directory)


@pytest.mark.slow
def test_under_torchrun_which_hides_its_exit_code_it_is_stopped_and_goes_on(
    world: Any, stop_and_go_on: Callable[[Path], None]
) -> None:
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--nproc-per-node", "1"]
    command = shlex.join([*torchrun, str(HERE / "foreign_trainer.py"), "{job}"])
    directory = world.open_run(job_of(world, steps=14, checkpoint_every=1000, trainer=command))
    stop_and_go_on(directory)


@pytest.mark.slow
def test_it_dies_with_the_process_that_watches_it(world: Any, hold: Hold) -> None:
    directory = world.open_run(job_of(world, steps=14, checkpoint_every=1000))
    hold("step 2/14 ")
    process = started(directory)
    wait_for(directory, "step 2/14 ", process)
    below = trainer_below(process)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 120
    while Path(f"/proc/{below}/cmdline").is_file() and time.monotonic() < deadline:
        state = Path(f"/proc/{below}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            break
        time.sleep(0.02)
    else:
        assert time.monotonic() < deadline, "the trainer goes on alone"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory, make_world: Callable[..., Any]) -> Path:
    """The folder in which a command was called that prints its words, leaves a process, and fails."""
    folder = tmp_path_factory.mktemp("failed")
    body = (
        "import subprocess\n"
        "below = subprocess.Popen(['sleep', '6000'], start_new_session=True)\n"
        f"Path({str(folder / 'pid')!r}).write_text(str(below.pid))\n"
        "print([str(Path.cwd()), *sys.argv[2:]])\n"
        "sys.exit(3)"
    )
    command = f"{script(folder, body)} '$HOME; ls' --name={{job}}"
    world = make_world(folder / "workspace")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(JobError, match="exit code 3; "):
            train(world.store, job_of(world, trainer=command))
    return folder


@pytest.mark.system
def test_what_the_command_left_running_ends_with_it(failed: Path) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(int((failed / "pid").read_text()), 0)


def test_it_runs_where_curriculum_was_called_without_a_shell(failed: Path) -> None:
    (directory,) = (failed / "workspace/runs").rglob("attempt=1")
    log = (directory / "train.log").read_text()
    assert str([str(failed), "$HOME; ls", f"--name={directory}/job.json"]) in log


def test_words_of_a_command() -> None:
    assert words_of("python 'my train.py' --job={job}", Path("/a/job.json")) == [
        *("python", "my train.py", "--job=/a/job.json")
    ]


@pytest.mark.system
def test_a_program_that_is_not_there_is_named(world: Any) -> None:
    with pytest.raises(JobError, match="no-such-program"):
        train(world.store, job_of(world, trainer="no-such-program {job}"))


def ended(world: Any) -> Path:
    """A run of two steps whose trainer left everything."""
    directory: Path = world.open_run(job_of(world, steps=2, checkpoint_every=1))
    run = open_run(directory / "job.json")
    for batches in run.steps():
        run.record(run.counts(batches), loss=1.0, learning_rate=0.1)
        assert run.is_due
        run.publish_checkpoint(lambda folder: (folder / "model.pt").write_text("weights"))
    assert run.write_report("budget") == 0
    return directory


def test_what_is_whole_is_accepted(world: Any) -> None:
    directory = ended(world)
    job = read_job(directory / "job.json")
    report = require_whole_run(job, world.store.root, directory)
    assert report.steps == 2
    assert report.tokens.scored > 1000
    assert open_run(directory / "job.json").step == 2


def test_its_steps_are_a_sign_of_life(world: Any) -> None:
    beat = read_heartbeat(ended(world))
    assert beat is not None
    assert (beat.step, beat.steps) == (1, 2)
    assert beat.valid_tokens > 500


def test_its_checkpoint_is_of_no_model_that_ours_knows(world: Any) -> None:
    with pytest.raises(JobError, match="step=2: another trainer"):
        read_spec(ended(world) / "checkpoints" / "step=2")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("file.unlink()", r"report.json: the trainer exited with 0, but wrote no report"),
        ("del report['tokens']", r"report.json: tokens: Field required; it isn't a report"),
        ("report['phase'] = 'other'", r"report.json: phase: other; the job has syntax"),
        ("report['stopped'] = 'failed'", r"report.json: stopped: failed; a trainer that exits"),
        ("report['stopped'] = 'gate'", r"report.json: stopped: gate; the job has no gate"),
        ("report['steps'] = 1", r"report.json: steps: 1; the job has a budget of 2 steps"),
        ("report['checkpoint'] = ''", r"report.json: checkpoint: empty; the next phase needs"),
        ("report['checkpoint'] = 'x/y'", r"report.json: checkpoint: x/y; the next phase needs"),
        ("report['checkpoint'] = '../x'", r"report.json: checkpoint: .* must be a relative path"),
        (
            "(home / 'checkpoints/step=2/model.pt').write_bytes(b'')",
            r"step=2: model.pt isn't what was written; the checkpoint is damaged",
        ),
        (
            "(home / 'checkpoints/step=2/manifest.json').unlink()",
            r"step=2: it has no manifest; the checkpoint is damaged",
        ),
        ("shutil.rmtree(home / 'metrics')", r"metrics: the folder contains no metrics"),
        (
            "part = sorted((home / 'metrics').glob('*'))[0]\n"
            "pq.write_table(pq.read_table(part, partitioning=None).drop_columns(['loss']), part)",
            r"0000000001.parquet: loss; the column is missing or isn't of type double",
        ),
        (
            "sorted((home / 'metrics').glob('*'))[-1].unlink()",
            r"metrics: 1 step, the last 1; the metrics must have one row for each of the steps 1 to 2",
        ),
    ],
)
def test_what_a_trainer_did_not_leave_is_named(world: Any, change: str, said: str) -> None:
    home = ended(world)
    file = home / "report.json"
    report = json.loads(file.read_text())
    exec(change, {"home": home, "file": file, "report": report, "shutil": shutil, "pq": pq})
    if file.exists():
        file.write_text(sealed(report))
    with pytest.raises(JobError, match=said):
        require_whole_run(read_job(home / "job.json"), world.store.root, home)


@pytest.mark.system
def test_a_run_that_is_not_whole_has_failed(world: Any, tmp_path: Path) -> None:
    job = job_of(world, trainer=script(tmp_path, "print('done')"))
    with pytest.raises(JobError, match=r"JobError: .*report\.json: .* 0\b"):
        train(world.store, job)
    (directory,) = (world.store.root / "runs").rglob("attempt=1")
    assert not (directory / "manifest.json").exists()
    assert json.loads((directory / "report.json").read_text())["stopped"] == "failed"


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        ("leakcheck", "leakcheck: not run; the diet requires"),
        ("masking_cost", "masking_cost: the diet requires a measured masking cost"),
    ],
)
def test_a_proof_that_the_diet_requires_must_be_in_the_report(
    world: Any, proof: str, said: str
) -> None:
    directory = ended(world)
    job = read_job(directory / "job.json").model_copy(update={"require": (proof,)})
    with pytest.raises(JobError, match=said):
        require_whole_run(job, world.store.root, directory)


def test_figures_of_its_own_open_the_gate(world: Any) -> None:
    rule = {"val_bpb": {"stops_improving_by": 0.01, "over_evaluations": 1}}
    directory = world.open_run(job_of(world, steps=3, advance_when=rule))
    run = open_run(directory / "job.json")
    for batches in run.steps():
        run.record(run.counts(batches), loss=1.0, learning_rate=0.1)
        run.evaluate(lambda batch: torch.ones(int(batch.loss_mask.sum())))
        reason = run.gate() or ""
        if reason:
            break
    assert (run.step, reason) == (2, "val_bpb fell by 0.0000 over 1 evaluation")
    run.publish_checkpoint(lambda folder: (folder / "weights").write_text("weights"))
    assert run.write_report("gate", reason) == 0
    report = require_whole_run(run.job, world.store.root, directory)
    assert report.stopped == "gate"
    # One nat a token of two bytes.
    assert report.after[-1].val_bpb == pytest.approx(0.5 / math.log(2), rel=0.05)


def test_the_command_is_part_of_what_a_run_is(world: Any) -> None:
    keys = {
        run_recipe(world.job(trainer=each)).key for each in (None, FOREIGN, f"{FOREIGN} --other")
    }
    assert len(keys) == 3


def test_workers_are_no_part_of_what_a_run_is(world: Any) -> None:
    assert run_recipe(world.job(workers=3)).key == run_recipe(world.job()).key
    directory = world.open_run(world.job())
    assert freeze(directory, world.job(workers=3)).workers == 3
    assert read_job(directory / "job.json").workers == 3


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("python my_train.py", r"has no placeholder \{job\}"),
        ("{job}", r"has no placeholder \{job\}"),
        ("python 'my_train.py {job}", r"can't be split into words: No closing quotation"),
    ],
)
def test_a_command_that_could_not_work_is_refused_in_the_diet(command: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ExternalTrainer(command=command)


@pytest.mark.parametrize("permitted", [None, "python other.py {job}"])
def test_a_job_alone_runs_no_command(world: Any, tmp_path: Path, permitted: str | None) -> None:
    fired = tmp_path / "fired"
    job = job_of(world, trainer=shlex.join(["touch", str(fired), "{job}.touched"]))
    directory = world.open_run(job)
    with pytest.raises(JobError, match=r"job.json: trainer = .touch"):
        launcher.launch_job(world.store, directory / "job.json", Launch(trainer=permitted))
    given = [] if permitted is None else ["--trainer", permitted]
    done = subprocess.run(
        [*OURS, str(directory / "job.json"), *given], capture_output=True, text=True, check=False
    )
    assert (done.returncode, fired.exists()) == (2, False), done.stderr
    assert "job.json: trainer = " in done.stderr
    # The command would have done it.
    subprocess.run(words_of(job.trainer, directory / "job.json"), check=True)
    assert fired.exists()


def test_an_open_attempt_that_is_another_job_does_not_go_on(world: Any, tmp_path: Path) -> None:
    fired = tmp_path / "fired"
    job = world.job()
    directory = world.open_run(job)
    planted = job.model_copy(
        update={"trainer": shlex.join(["touch", str(fired), "{job}"])}
    ).model_dump_json()
    (directory / "job.json").write_text(planted)
    with pytest.raises(JobError, match=r"job\.json"):
        run.train(world.store, job)
    assert not fired.exists()
