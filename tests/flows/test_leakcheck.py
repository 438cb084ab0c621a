"""curriculum leakcheck on the command line: tables for eyes, JSON for machines, 1 for a leak."""

import json
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from curriculum.leakcheck import claims
from flows.cli import app
from flows.cli.leakcheck import show
from schemas.leak import Finding, InjectedLeakReport, LeakReport, Skipped

SMALL = ("--dtype", "float32", "--row-length", "128", "--backend", "math")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def leakcheck(*words: str) -> Result:
    return CliRunner().invoke(app, ["leakcheck", *words])


@pytest.mark.system
def test_a_pattern_is_proven_and_its_report_written(tmp_path: Path) -> None:
    file = tmp_path / "reports" / "leaks.json"
    done = leakcheck(*SMALL, "--model", "CE", "--json", str(file))
    assert done.exit_code == 0, done.output
    assert "No leak found" in done.output
    report = json.loads(file.read_text())
    assert report["passed"]
    assert report["environment"]["torch"] == torch.__version__
    assert {finding["subject"] for finding in report["findings"]} == {
        "convolution", "engram", "mHC", "whole CE", "training CE", "many documents CE"
    }  # fmt: skip
    assert all(finding["passed"] for finding in report["findings"])
    assert report["planted"] == []


def test_a_leaking_model_ends_with_1_and_says_which_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "row_mean.py").write_text(
        "from torch import nn\n"
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.table = nn.Embedding(50, 8)\n"
        "    def forward(self, ids, doc_ids):\n"
        "        x = self.table(ids)\n"
        "        return x + x.mean(1, keepdim=True)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    done = leakcheck("row_mean:Model", "--row-length", "128")
    assert done.exit_code == 1
    assert "Leak found" in done.output
    assert claims.REPACKED in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--dtype float8", "unknown dtype. Choose float64, float32"),
        ("--backend fast", "unknown backend. Choose math, sdpa"),
        ("--model tinny", "no preset has this name. Did you mean 'tiny'?"),
        ("no_such:thing", "no_such can't be imported"),
        ("a:b --backend math", "--model and --backend apply to the built-in models only"),
    ],
)
def test_mistakes_end_with_2_and_a_cure(words: str, said: str) -> None:
    done = leakcheck(*words.split())
    assert done.exit_code == 2
    assert said in done.output


def test_the_tables_tell_leaks_blindness_and_what_was_skipped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    finding = Finding(
        subject="mamba", dtype="float32", claim="it holds", passed=False, row_length=64,
        detail="by 0.5",
    )  # fmt: skip
    blind = InjectedLeakReport(
        leak="a hole", subject="mamba", dtype="float32", expected=("x",), red=()
    )
    skipped = Skipped(subject="attention", backend="varlen", reason="GPUs only")
    show(LeakReport(findings=(finding,), planted=(blind,), skipped=(skipped,)))
    shown = capsys.readouterr().out
    for words in (
        "1 of 1 LEAK",
        "mamba float32 T=64: it holds  by 0.5",
        "undetected: x still hold",
        "skipped  varlen (attention): GPUs only",
        "0 of 1 checks passed; 0 of 1 planted leaks were found",
    ):
        assert words in shown


@pytest.mark.parametrize(
    ("finding", "uncovered", "result", "said"),
    [
        (True, (), "covered", "No leak found. 1 of 1"),
        (True, ("2 processes",), "not all covered", "No leak found in the part that was checked"),
        (False, (), "leaks", "Leak found: documents influence each other."),
    ],
)
def test_there_are_three_results(
    capsys: pytest.CaptureFixture[str], finding: bool, uncovered: tuple[str, ...], result: str,
    said: str,
) -> None:  # fmt: skip
    found = Finding(
        subject="step A", dtype="float32", claim="it holds", passed=finding, row_length=256,
        mode="train, recompute, 9 documents, 300 ids",
    )  # fmt: skip
    report = LeakReport(findings=(found,), uncovered=uncovered)
    assert report.result == result
    assert json.loads(report.json_text())["result"] == result
    assert report.passed == (result != "leaks")
    show(report)
    shown = capsys.readouterr().out
    assert said in shown
    for words in uncovered:
        assert f"not covered  {words}" in shown
    if result == "leaks":
        assert "T=256 train, recompute, 9 documents, 300 ids: " in " ".join(shown.split())


def test_a_job_takes_no_sizes_and_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = leakcheck("nobody/syntax", "--home", str(tmp_path))
    assert done.exit_code == 2
    assert "nobody/syntax" in done.output
    job = tmp_path / "job.json"
    job.write_text("{}")
    done = leakcheck(str(job), "--row-length", "256")
    assert done.exit_code == 2
    assert "the job determines" in done.output
    done = leakcheck(str(job))
    assert done.exit_code == 2
    assert "this version" in done.output
