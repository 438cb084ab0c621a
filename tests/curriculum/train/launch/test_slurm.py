"""Jobs in Slurm's hands: handed in once, followed, cancelled, and what their states mean."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from curriculum.train.launch import launcher, slurm
from curriculum.train.launch.gpu_slots import Machine, Slots
from curriculum.train.launch.launcher import Launch, launch_job
from curriculum.train.launch.slurm import SbatchTemplate, read_template, submit_job
from schemas.errors import JobError, JobKilledError, JobMemoryError
from schemas.job import Report, TokenCounts
from schemas.progress import Progress
from tests import factories

SBATCH = """
jobs={jobs}
echo "$@" >> $jobs/submitted
for each in "$@"; do case "$each" in
  --output=*) output=${{each#--output=}};;
  --comment=*) comment=${{each#--comment=}};;
esac; done
id=$((100 + $(wc -l < $jobs/submitted)))
cat > $jobs/$id.sh
# sbatch reads options in the head of a script, and nothing but a script.
read -r first < $jobs/$id.sh
case "$first" in "#!"*) ;; *) echo "sbatch: error: This does not look like a batch script" >&2; exit 1;; esac
if grep -q "^#SBATCH --account=none" $jobs/$id.sh; then echo "sbatch: error: Invalid account" >&2; exit 1; fi
if grep -q "^#SBATCH --hold" $jobs/$id.sh; then held=1; fi
echo "$comment" > $jobs/$id.comment
if [ -n "$held" ]; then echo PENDING > $jobs/$id.state; echo $id; exit; fi
echo RUNNING > $jobs/$id.state
setsid sh {begin} $jobs/$id "$output" > /dev/null 2>&1 < /dev/null &
echo "$id;cluster"
"""
BEGIN = """
sh -c 'echo $$ > $0.pid; exec sh $0.sh' $1 >> "$2" 2>&1
code=$?
if [ "$(cat $1.state)" = RUNNING ]; then
  if [ $code = 0 ]; then state=COMPLETED; else state=FAILED; fi
  # Whoever reads it meanwhile reads the one or the other.
  echo $state > $1.draft && mv $1.draft $1.state
fi
"""
SQUEUE = """
jobs={jobs}
if [ -e $jobs/down ]; then echo "Unable to contact slurm controller" >&2; exit 1; fi
if [ "$2" = --me ]; then
  for state in $jobs/*.state; do
    id=$(basename $state .state); echo "$id $(cat $jobs/$id.comment)"
  done
elif [ -e $jobs/$3.state ]; then cat $jobs/$3.state
else echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1
fi
"""
WELL = "echo step 1; cp {report} report.json"
SCANCEL = """
jobs={jobs}
echo CANCELLED > $jobs/$1.draft && mv $jobs/$1.draft $jobs/$1.state
if [ -e $jobs/$1.pid ]; then kill -TERM $(cat $jobs/$1.pid); fi
"""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Slurm of shell scripts, and a trainer of one."""

    jobs: Path
    trainer: Path

    def submitted(self) -> list[str]:
        file = self.jobs / "submitted"
        return file.read_text().splitlines() if file.exists() else []

    def play(self, body: str) -> None:
        self.trainer.write_text(f'cd "$(dirname "$1")"\n{body}\n')

    def command(self, directory: Path) -> list[str]:
        return ["sh", str(self.trainer), str(directory / "job.json")]

    def state(self, number: int, state: str) -> None:
        draft = self.jobs / "draft"
        draft.write_text(f"{state}\n")
        draft.replace(self.jobs / f"{number}.state")

    def play_once_seen(self, body: str) -> Callable[[str], None]:
        """Play it when somebody was told that the job runs; returns who is to be told."""
        seen = self.jobs / "seen"
        self.play(f"until [ -e {seen} ]; do sleep 0.02; done; {body}")
        return lambda line: seen.touch() if line.endswith(" is RUNNING") else None


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    programs, jobs = tmp_path / "programs", tmp_path / "jobs"
    programs.mkdir()
    jobs.mkdir()
    begin = programs / "begin"
    for name, body in {"sbatch": SBATCH, "squeue": SQUEUE, "scancel": SCANCEL}.items():
        program = programs / name
        program.write_text(f"#!/bin/sh{body.format(jobs=jobs, begin=begin)}")
        program.chmod(0o755)
    begin.write_text(BEGIN)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(slurm, "SECONDS_TO_APPEAR", 0.3)
    made = Cluster(jobs=jobs, trainer=tmp_path / "trainer.sh")
    monkeypatch.setattr(launcher, "COMMAND", ("sh", str(made.trainer)))
    (tmp_path / "report").write_text(
        factories.run_report(
            specialist="tester",
            reason="12 steps",
            steps=12,
            tokens=TokenCounts(positions=1, valid=1, scored=1, bytes=1),
            seconds=1.0,
            leakcheck="not run",
        ).model_dump_json()
    )
    made.play(WELL.format(report=tmp_path / "report"))
    return made


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def template(options: str = "--gres=gpu:1", before: str = "", after: str = "") -> SbatchTemplate:
    script = f"#!/bin/sh\n#SBATCH {options}\n{before}\n{{command}}\n{after}\n"
    return SbatchTemplate(file=Path("cluster.sh"), script=script, gpus=1)


def run(world: Any, directory: Path, script: SbatchTemplate | None = None, **how: Any) -> Report:
    return launch_job(
        world.store, directory / "job.json", Launch(sbatch=script or template(), **how)
    )


def test_a_job_is_handed_in_followed_and_takes_no_slot(
    world: Any, cluster: Cluster, tmp_path: Path
) -> None:
    directory, heard = world.open_run(world.job()), list[str]()
    seen = cluster.play_once_seen(WELL.format(report=tmp_path / "report"))

    def tell(line: str) -> None:
        heard.append(line)
        seen(line)

    slots = Slots(world.store.root / "slots", 1)
    with slots.hold("another", lambda _: None):
        options = "-p 'gpu long' -c 4"
        report = run(world, directory, template(options), tell=tell, slots=slots)
    assert (report.stopped, report.steps) == ("budget", 12)
    assert "step 1" in heard
    assert "Slurm job 101 is RUNNING" in heard
    (submitted,) = cluster.submitted()
    assert f"#SBATCH {options}" in (cluster.jobs / "101.sh").read_text().splitlines()
    assert f"--output={directory / 'train.log'}" in submitted
    assert f"--comment={directory.resolve()}" in submitted
    assert not list(directory.glob("sbatch.*"))


def test_a_launcher_that_comes_again_follows_the_job_that_runs(
    world: Any, cluster: Cluster, tmp_path: Path
) -> None:
    seen = cluster.play_once_seen(WELL.format(report=tmp_path / "report"))
    directory = world.open_run(world.job())
    job = world.job()
    submit_job(job, directory, template(), cluster.command(directory))
    assert json.loads((directory / "sbatch.json").read_text())["id"] == "101"
    assert run(world, directory, tell=seen).stopped == "budget"
    assert len(cluster.submitted()) == 1


def test_a_job_of_which_only_slurm_knows_is_found_by_its_run(
    world: Any, cluster: Cluster, tmp_path: Path
) -> None:
    directory = world.open_run(world.job())
    seen = cluster.play_once_seen(WELL.format(report=tmp_path / "report"))
    submit_job(world.job(), directory, template(), cluster.command(directory))
    (directory / "sbatch.json").unlink()
    assert run(world, directory, tell=seen).stopped == "budget"
    assert len(cluster.submitted()) == 1
    assert slurm.find_submitted(tmp_path) is None


def test_a_job_that_ended_while_nobody_looked_is_not_handed_in_again(
    world: Any, cluster: Cluster
) -> None:
    directory = world.open_run(world.job())
    handed = submit_job(world.job(), directory, template(), cluster.command(directory))
    until(lambda: not handed.is_active())
    assert run(world, directory).stopped == "budget"
    assert len(cluster.submitted()) == 1


def test_a_job_that_was_killed_while_nobody_looked_is_handed_in_again(
    world: Any, cluster: Cluster
) -> None:
    directory = world.open_run(world.job())
    submit_job(world.job(), directory, template("--hold"), cluster.command(directory))
    cluster.state(101, "NODE_FAIL")
    assert run(world, directory).stopped == "budget"
    assert len(cluster.submitted()) == 2


def test_an_interrupt_cancels_the_job_which_leaves_its_checkpoint(
    world: Any, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.play(
        f"trap 'touch {tmp_path / 'checkpoint'}; exit 75' TERM; echo on\n"
        "while true; do sleep 0.02; done"
    )
    directory = world.open_run(world.job())

    def interrupt(line: str) -> None:
        if line == "on":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(world, directory, tell=interrupt)
    assert (cluster.jobs / "101.state").read_text() == "CANCELLED\n"
    until((tmp_path / "checkpoint").exists)
    assert not (directory / "sbatch.json").exists()


@pytest.mark.parametrize(
    ("state", "body", "kind"),
    [
        ("TIMEOUT", "exit 75", JobKilledError),
        ("RUNNING", "exit 75", JobKilledError),
        ("PREEMPTED", "kill -9 $$", JobKilledError),
        ("RUNNING", "kill -9 $$", JobKilledError),
        ("OUT_OF_MEMORY", "kill -9 $$", JobMemoryError),
        ("RUNNING", "exit 71", JobMemoryError),
        ("RUNNING", "exit 3", JobError),
    ],
)
def test_what_slurm_says_of_an_end_becomes_an_error_of_its_kind(
    world: Any, cluster: Cluster, state: str, body: str, kind: type[JobError]
) -> None:
    cluster.play(f"echo {state} > {cluster.jobs / '101.state'}; {body}")
    directory = world.open_run(world.job())
    with pytest.raises(JobError) as raised:
        run(world, directory)
    assert type(raised.value) is kind
    # What the job says of its own end may come after Slurm's word; the next job takes it away.
    assert not list(directory.glob("sbatch.json"))


def test_a_job_that_somebody_cancels_in_slurm_is_cancelled(world: Any, cluster: Cluster) -> None:
    directory, heard = world.open_run(world.job()), list[Progress]()

    def cancel(progress: Progress) -> None:
        heard.append(progress)
        if "PENDING" in progress.note:
            cluster.state(101, "CANCELLED")

    assert run(world, directory, template("--hold"), watch=cancel).stopped == "cancelled"
    assert heard[0].note == "Slurm job 101 is PENDING"


def test_a_slurm_that_does_not_answer_is_waited_for(
    world: Any, cluster: Cluster, tmp_path: Path
) -> None:
    directory, heard = world.open_run(world.job()), list[str]()
    down, up = cluster.jobs / "down", cluster.jobs / "up"

    def restart(line: str) -> None:
        heard.append(line)
        if line == "Slurm job 101 is RUNNING":
            down.touch()
        if "doesn't answer" in line:
            down.unlink()
            up.touch()

    waits = f"until [ -e {up} ]; do sleep 0.02; done; "
    cluster.play(waits + WELL.format(report=tmp_path / "report"))
    assert run(world, directory, tell=restart).stopped == "budget"
    assert any("job 101 " in line and "Unable to contact" in line for line in heard)
    assert len(cluster.submitted()) == 1


def test_what_sbatch_refuses_and_a_machine_without_it_are_named(
    world: Any, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = world.open_run(world.job())
    with pytest.raises(JobError, match=r"CURRICULUM_SBATCH: cluster.sh; .*Invalid account"):
        run(world, directory, template("--account=none"))
    shutil.rmtree(cluster.trainer.parent / "programs")
    with pytest.raises(JobError, match="squeue;"):
        run(world, directory)


def test_lines_around_the_command_are_run_and_may_be_strict(
    world: Any, cluster: Cluster, tmp_path: Path
) -> None:
    directory = world.open_run(world.job())
    around = template(
        before=f"set -eu; export LOADED=cuda; echo before >> {tmp_path / 'said'}",
        after=f"echo after >> {tmp_path / 'said'}",
    )
    cluster.play(f"echo $LOADED >> {tmp_path / 'said'}; {WELL.format(report=tmp_path / 'report')}")
    assert run(world, directory, around).stopped == "budget"
    until(lambda: (tmp_path / "said").read_text().split() == ["before", "cuda", "after"])
    cluster.play("exit 71")
    with pytest.raises(JobMemoryError):
        run(world, directory, around)


SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:a100:4 --cpus-per-task=32
#   gpus: 4
# cores:32
if [ -n "${command}" ]; then exit 1; fi
  {command}
"""


def test_a_job_made_without_a_gpu_is_for_those_that_the_template_names(tmp_path: Path) -> None:
    file = tmp_path / "cluster.sh"
    file.write_text(SCRIPT)
    read = read_template(file)
    machine = Machine.in_slurm(read)
    assert (machine.device, machine.processes) == ("cuda", 4)
    assert (machine.threads, machine.workers) == (8, 2)
    filled = read.filled("train\nit").splitlines()
    assert filled == [*SCRIPT.splitlines()[:-1], "train", "it"]
    file.write_text(SCRIPT.replace("gpus: 4", "gpus: 0").replace("cores:32", "cores: 6"))
    plain = Machine.in_slurm(read_template(file), 2)
    assert (plain.device, plain.processes, plain.threads) == ("cpu", 2, 3)


@pytest.mark.parametrize(
    ("found", "instead", "value"),
    [
        ("#   gpus: 4\n", "", ""),
        ("gpus: 4", "gpus: a100:4", ": # gpus: a100:4"),
        ("cores:32", "cores: many", ": # cores: many"),
        ("  {command}\n", "{command} --more\n", ""),
        ("  {command}\n", "{command}\n{command}\n", ""),
    ],
)
def test_a_template_that_does_not_say_what_it_must_is_refused(
    tmp_path: Path, found: str, instead: str, value: str
) -> None:
    file = tmp_path / "cluster.sh"
    file.write_text(SCRIPT.replace(found, instead))
    with pytest.raises(JobError) as raised:
        read_template(file)
    assert (raised.value.name, raised.value.value) == ("$CURRICULUM_SBATCH", f"{file}{value}")


def test_a_template_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cluster.sh"
    with pytest.raises(JobError, match=r"cluster\.sh; .*read"):
        read_template(file)
    file.write_bytes(b"#!/bin/sh\n\xff")
    with pytest.raises(JobError, match=r"cluster\.sh; .*read"):
        read_template(file)


def test_the_script_that_the_documents_show_is_a_template(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "docs" / "prefect.md").read_text()
    (script,) = re.findall(r"```text\n(#!.*?)```", text, re.DOTALL)
    file = tmp_path / "cluster.sh"
    file.write_text(script)
    assert (read_template(file).gpus, read_template(file).cores) == (4, 32)


@pytest.mark.parametrize(
    "answer", ["", "Welcome", "-u root", "1" * 21], ids=["none", "banner", "option", "long"]
)
def test_an_answer_of_sbatch_without_a_number_is_refused(
    world: Any, cluster: Cluster, answer: str
) -> None:
    program = cluster.trainer.parent / "programs" / "sbatch"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    directory = world.open_run(world.job())
    with pytest.raises(JobError) as refused:
        run(world, directory)
    assert (refused.value.name, refused.value.value) == (slurm.NAME, answer)
    assert not (directory / slurm.SUBMITTED).exists()


@pytest.mark.parametrize("written", ["", "no number", "\xff"])
def test_an_exit_code_that_was_not_written_completely_counts_as_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    monkeypatch.setattr(slurm, "SECONDS_TO_APPEAR", 0)
    (tmp_path / slurm.EXIT).write_text(written, encoding="latin-1")
    assert slurm.SlurmHandle("1", tmp_path).code("FAILED") == -9


@pytest.mark.parametrize(("written", "code"), [("137", -9), ("3", 3), ("255", 255)])
def test_a_code_above_the_signals_is_no_signal(tmp_path: Path, written: str, code: int) -> None:
    (tmp_path / slurm.EXIT).write_text(written)
    assert slurm.SlurmHandle("1", tmp_path).code("FAILED") == code


def test_a_program_of_slurm_that_hangs_or_forges_lines_does_not_answer(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = cluster.trainer.parent / "programs" / "squeue"
    bodies = ["exec sleep 60", "printf 'a\\nwarning: b' >&2; exit 1", "printf '\\377' >&2; exit 1"]
    for body in bodies:
        program.write_text(f"#!/bin/sh\n{body}\n")
        monkeypatch.setattr(slurm, "ANSWER_SECONDS", 0.2 if "sleep" in body else 60)
        with pytest.raises(ConnectionError) as silent:
            slurm.SlurmHandle("1", tmp_path).state()
        assert "\n" not in str(silent.value)


def test_a_task_of_an_array_that_squeue_lists_is_no_number_of_a_job(
    world: Any, cluster: Cluster
) -> None:
    directory = world.open_run(world.job())
    program = cluster.trainer.parent / "programs" / "squeue"
    program.write_text(f"#!/bin/sh\necho '12_3 {directory.resolve()}'\n")
    with pytest.raises(JobError) as refused:
        slurm.find_submitted(directory)
    assert (refused.value.name, refused.value.value) == (slurm.NAME, "12_3")
