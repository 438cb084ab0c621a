"""The gate of a job: its proof runs in a process of its own, and only a whole report opens it."""

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.train import dataloader, proof
from curriculum.train.dataloader import Batch, collate
from curriculum.train.run_directory import LEAKCHECK
from schemas.errors import JobError
from schemas.leak import Finding, LeakReport, ProvenJob

WRITES = """
import shutil, sys
shutil.copy({source!r}, sys.argv[sys.argv.index("--report") + 1])
sys.exit({code})
"""


def finding(*, passed: bool) -> Finding:
    return Finding(
        subject="step A", dtype="float32", claim="it holds", passed=passed, row_length=256,
        mode="train", detail="" if passed else "hidden differ at token 3",
    )  # fmt: skip


def sealed(
    job: Path, *, passed: bool = True, result: Any = None, uncovered: tuple[str, ...] = ()
) -> str:
    report = LeakReport(findings=(finding(passed=passed),), uncovered=uncovered)
    return ProvenJob(
        job=hashlib.sha256(job.read_bytes()).hexdigest(),
        result=result or report.result,
        report=report,
    ).model_dump_json()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.json"
    file.write_text("{}")
    return file


@pytest.fixture
def gate(job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], bool]:
    """The gate, where the proof leaves this text and ends by this code."""

    def gate(text: str, code: int) -> bool:
        (tmp_path / "made").write_text(text)
        words = WRITES.format(source=str(tmp_path / "made"), code=code)
        monkeypatch.setattr(proof, "COMMAND", (sys.executable, "-c", words))
        return proof.proven(job, lambda: False)

    return gate


def test_a_whole_report_without_a_leak_opens_it(
    gate: Callable[[str, int], bool], job: Path
) -> None:
    assert gate(sealed(job), 0)
    assert gate(sealed(job, uncovered=("2 processes",)), 0)
    assert (job.parent / LEAKCHECK).is_file()


def test_a_leak_keeps_it_closed_and_is_named(gate: Callable[[str, int], bool], job: Path) -> None:
    with pytest.raises(JobError) as closed:
        gate(sealed(job, passed=False), 1)
    for words in ("1 claims fail", "T=256 train: it holds", "hidden differ at token 3"):
        assert words in str(closed.value)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (lambda text: text[:-9], 0, "no whole report"),
        (lambda text: text.replace('"passed":true', '"passed":false'), 0, "no whole report"),
        (lambda text: "{}", 0, "no whole report"),
        (lambda text: text, 1, "its findings say covered"),
        (lambda text: text, 2, "ended without a report"),
        (lambda text: text, 77, "ended without a report"),
    ],
)
def test_a_broken_report_keeps_it_closed(
    gate: Callable[[str, int], bool], job: Path, change: Callable[[str], str], code: int, said: str
) -> None:
    with pytest.raises(JobError, match=said):
        gate(change(sealed(job)), code)
    assert gate(sealed(job), 0)


def test_a_report_of_another_job_keeps_it_closed(
    gate: Callable[[str, int], bool], job: Path
) -> None:
    text = sealed(job)
    job.write_text('{"other": 1}')
    with pytest.raises(JobError, match="about another job"):
        gate(text, 0)


def test_a_report_that_gives_itself_a_better_result_keeps_it_closed(
    gate: Callable[[str, int], bool], job: Path
) -> None:
    with pytest.raises(JobError, match="its findings say not all covered"):
        gate(sealed(job, uncovered=("2 processes",), result="covered"), 0)
    with pytest.raises(JobError, match="its findings say leaks"):
        gate(sealed(job, passed=False, result="covered"), 0)


def test_an_old_report_is_not_taken_for_that_of_a_proof_that_left_none(
    gate: Callable[[str, int], bool], job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gate(sealed(job), 0)
    monkeypatch.setattr(proof, "COMMAND", (sys.executable, "-c", ""))
    with pytest.raises(JobError, match="ended without a report"):
        proof.proven(job, lambda: False)


def test_a_stop_ends_the_proof(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = job.parent / "pid"
    words = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    monkeypatch.setattr(proof, "COMMAND", (sys.executable, "-c", words))
    assert not proof.proven(job, lambda: pid.is_file() and bool(pid.read_text()))
    assert not Path("/proc", pid.read_text()).exists()


def test_training_does_not_load_the_proof() -> None:
    import subprocess

    words = (
        "import sys, curriculum.train.trainer; "
        "sys.exit(any(name.startswith('curriculum.leakcheck') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


@pytest.mark.system
def test_a_job_is_proven_with_rows_of_its_plan_and_says_what_is_not_covered(world: Any) -> None:
    from curriculum.train.run_directory import JOB
    from schemas.json_text import read_json

    directory = world.store.root / "proven"
    directory.mkdir()
    model = world.job().model.model_copy(update={"blocks": "F"})
    file = directory / JOB
    file.write_text(world.job(model=model, workers=2, recompute=True).model_dump_json())
    assert proof.proven(file, lambda: False)
    read = read_json(ProvenJob, directory / LEAKCHECK, error=JobError, cause="broken", cure="mend")
    assert read.result == "not all covered"
    assert any("2 processes that load rows" in each for each in read.report.uncovered)
    trained = [finding for finding in read.report.findings if finding.mode]
    assert {finding.subject for finding in trained} == {"training F", "many documents F", "plan F"}
    assert all(", recompute, " in finding.mode for finding in trained)
    assert json.loads(read.report.json_text())["uncovered"]


@pytest.mark.system
def test_a_verdict_is_kept_until_something_that_it_depends_on_differs(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from curriculum.leakcheck import claims, verdicts
    from curriculum.leakcheck.proof import prove_job

    model = world.job().model.model_copy(update={"blocks": "F"})
    job, device = world.job(model=model), torch.device("cpu")
    first = prove_job(job, world.store.root, device)
    assert first.passed
    kept = {
        file: file.read_bytes() for file in (world.store.root / verdicts.FOLDER).rglob("*.json")
    }
    assert len(kept) == 4, "the layers, made-up documents, many of them, and the plan's documents"
    assert (
        prove_job(job, world.store.root, device)
        == first
        == prove_job(job, world.store.root, device, anew=True)
    )

    def shifted(rows: Any) -> Batch:
        batch = collate(rows)
        return dataclasses.replace(batch, input_ids=batch.input_ids.roll(1, dims=1))

    monkeypatch.setattr(dataloader, "collate", shifted)
    monkeypatch.setattr(verdicts, "code_digest", lambda: "of this loader")
    found = prove_job(job, world.store.root, device)
    assert {finding.claim for finding in found.failures} == {claims.REPACKED}
