"""Steps of anyone's model: what shows only in train mode is seen, and right models pass."""

import sys
from pathlib import Path

import pytest
import torch

from curriculum.leakcheck import claims
from curriculum.leakcheck.external_models import UNCOVERED, external, prove_external_model
from schemas.leak import LeakReport

MODELS = '''
import torch
from torch import nn

class Alone(nn.Module):
    """Single tokens, with dropout."""
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.mix = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.1)
        self.between = nn.Identity()
    def forward(self, ids, doc_ids):
        x = self.table(ids)
        return self.between(self.drop(x + self.mix(x).tanh()))

class Normed(nn.Module):
    """Statistics over the batch, which eval mode doesn't have."""
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.norm = nn.BatchNorm1d(8)
    def forward(self, ids, cu_seqlens):
        x = self.table(ids)
        return self.norm(x.flatten(0, 1)).view(x.shape)
'''


@pytest.fixture(autouse=True)
def _models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_steps.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("their_steps", None)
    torch.set_num_threads(1)


def examined(name: str, row_length: int) -> LeakReport:
    return prove_external_model(
        external(f"their_steps:{name}"), row_lengths=(row_length,), mutations=False
    )


def test_a_right_model_with_dropout_passes_in_train_mode() -> None:
    report = examined("Alone", 128)
    assert report.passed, report.table()
    assert {each.claim for each in report.findings if each.mode} == {
        claims.SCORED, claims.MUTED, claims.FED, claims.CHANGES_REACH,
    }  # fmt: skip
    assert report.result == "not all covered"
    assert report.uncovered == UNCOVERED


def test_statistics_over_the_batch_are_seen_in_train_mode_alone() -> None:
    report = examined("Normed", 128)
    assert {claims.SCORED, claims.MUTED} <= {each.claim for each in report.failures}
    assert all(each.mode for each in report.failures), report.table()


def test_rows_that_are_not_packed_rows_have_no_steps_and_the_report_says_so() -> None:
    report = examined("Alone", 64)
    assert not [each for each in report.findings if each.mode]
    assert any(each.startswith("steps: ") for each in report.uncovered)
