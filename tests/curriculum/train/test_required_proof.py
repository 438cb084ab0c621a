"""The gate of a job: only a proof that ends without a leak opens it, and it leaves no trace in training."""

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.train import dataloader, required_proof
from curriculum.train.dataloader import Batch, collate
from curriculum.train.run_directory import LEAKCHECK
from schemas.errors import JobError
from schemas.leak import Finding, LeakReport, ProvenJob
from schemas.progress import Progress, ProgressCallback

PROVE = f"{required_proof.PROOF}.prove_file"


def finding(*, passed: bool) -> Finding:
    return Finding(
        subject="step A", dtype="float32", claim="it holds", passed=passed, row_length=256,
        mode="train", detail="" if passed else "hidden differ at token 3",
    )  # fmt: skip


def report(*, passed: bool, uncovered: tuple[str, ...] = ()) -> LeakReport:
    return LeakReport(findings=(finding(passed=passed),), uncovered=uncovered)


def sealed(job: Path, found: LeakReport) -> str:
    return ProvenJob(
        job=hashlib.sha256(job.read_bytes()).hexdigest(), result=found.result, report=found
    ).model_dump_json()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.json"
    file.write_text("{}")
    return file


@pytest.fixture
def gate(job: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[LeakReport], bool]:
    """The gate, where the proof finds this."""

    def gate(report: LeakReport) -> bool:
        def prove(path: Path, file: Path, watch: ProgressCallback) -> LeakReport:
            assert (path, file.exists()) == (job, False), "an old report is gone by now"
            file.write_text(sealed(job, report))
            return report

        monkeypatch.setattr(PROVE, prove)
        return required_proof.run_leakcheck(job, lambda: False)

    return gate


def test_a_proof_without_a_leak_opens_it(
    gate: Callable[[LeakReport], bool], job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(report(passed=True))
    assert gate(report(passed=True, uncovered=("2 processes",)))
    assert "cover: 2 processes" in capsys.readouterr().out
    assert not required_proof.is_refuted(job.parent)


def test_a_leak_keeps_it_closed_and_is_named(gate: Callable[[LeakReport], bool], job: Path) -> None:
    with pytest.raises(JobError) as closed:
        gate(report(passed=False))
    for words in ("1 claims fail", "T=256 train: it holds", "hidden differ at token 3"):
        assert words in str(closed.value)
    assert required_proof.is_refuted(job.parent)


def test_an_empty_proof_keeps_it_closed(gate: Callable[[LeakReport], bool]) -> None:
    with pytest.raises(JobError, match="nothing"):
        gate(LeakReport(findings=()))


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_stop_ends_the_proof_after_a_packing_or_at_its_end(
    job: Path, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    shown: list[int] = []
    stops = iter([False] * (asked - 1) + [True] * 3)

    def prove(path: Path, file: Path, watch: ProgressCallback) -> LeakReport:
        for done in (1, 2):
            watch(Progress(stage="leakcheck", item="", done=done, total=2, unit="packings"))
            shown.append(done)
        return report(passed=True)

    monkeypatch.setattr(PROVE, prove)
    assert not required_proof.run_leakcheck(job, lambda: next(stops))
    assert shown == [1, 2][: asked - 1]


@pytest.mark.system
@pytest.mark.usefixtures("in_this_process")
def test_a_proof_in_the_same_process_changes_no_bit_of_the_training(world: Any) -> None:
    from curriculum.train.run import train

    model = world.job().model.model_copy(update={"blocks": "EMFA"})
    plain = train(world.store, world.job(model=model, steps=3))
    proven = train(world.store, world.job(model=model, steps=3, require=("leakcheck",)), again=True)
    assert (plain.report.leakcheck, proven.report.leakcheck) == ("not run", "passed")
    assert plain.artefact is not None
    assert proven.artefact is not None
    assert proven.artefact.content == plain.artefact.content


def test_training_does_not_load_the_proof() -> None:
    import subprocess

    words = (
        "import sys, curriculum.train.job_process; "
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
    assert required_proof.run_leakcheck(file, lambda: False)
    read = read_json(ProvenJob, directory / LEAKCHECK, error=JobError, cause="broken", cure="mend")
    assert read.result == "not all covered"
    assert any("2 processes" in reason for reason in read.report.uncovered)
    trained = [finding for finding in read.report.findings if finding.mode]
    assert {finding.subject for finding in trained} == {"training F", "many documents F", "plan F"}
    assert all(", recompute, " in finding.mode for finding in trained)
    assert json.loads(read.report.json_text())["uncovered"]


@pytest.mark.system
def test_a_verdict_is_kept_until_something_that_it_depends_on_differs(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from curriculum.leakcheck import claims, kept_verdicts
    from curriculum.leakcheck.job_proof import prove_job

    model = world.job().model.model_copy(update={"blocks": "F"})
    job, device = world.job(model=model), torch.device("cpu")
    first = prove_job(job, world.store.root, device)
    assert first.passed
    kept = {
        file: file.read_bytes()
        for file in (world.store.root / kept_verdicts.FOLDER).rglob("*.json")
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
    monkeypatch.setattr(kept_verdicts, "code_digest", lambda: "of this loader")
    found = prove_job(job, world.store.root, device)
    assert {finding.claim for finding in found.failures} == {claims.REPACKED}
