"""Anyone's model is examined: good ones pass, each leak is told by its claim, mistakes say what to do."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from curriculum.leakcheck import claims, leakcheck
from curriculum.leakcheck.external_models import (
    UNCOVERED,
    WITHHELD,
    external,
    prove_external_model,
)
from curriculum.model.masks import Boundaries
from schemas.errors import JobError
from schemas.leak import LeakReport
from tests.error_fields import fields

MODELS = '''
import torch
from torch import nn

class Within(nn.Module):
    """Adds the mean of the document so far to each token, in whatever way it is told of documents."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(512, 16)
        self.table = nn.Embedding(97, 16)

    def mixed(self, ids, doc_ids, leak=None):
        x = self.table(ids)
        same = (doc_ids[:, :, None] == doc_ids[:, None]).tril()
        share = torch.where(same, 1.0, 0.0).to(x) / same.sum(-1, keepdim=True)
        return x + share @ x

class ByBoundaries(Within):
    def forward(self, ids, boundaries):
        places = self.places(boundaries.position_ids)
        return self.mixed(ids, boundaries.doc_ids) + places

class ByDocIds(Within):
    def forward(self, input_ids, doc_ids):
        return {"logits": self.mixed(input_ids, doc_ids)}

class ByPositions(Within):
    def forward(self, input_ids, attention_mask=None, position_ids=None):
        return (self.mixed(input_ids, (position_ids == 0).cumsum(1)),)

class ByEdges(Within):
    def forward(self, tokens, cu_seqlens, max_seqlen):
        assert tokens.shape[0] == 1 and cu_seqlens[-1] == tokens.numel() and max_seqlen > 0
        numbered = torch.arange(len(cu_seqlens) - 1).repeat_interleave(cu_seqlens.diff())
        return self.mixed(tokens, numbered[None])

class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(97, 16)
        self.conv = nn.Conv1d(16, 16, 4, padding=3)

    def forward(self, ids, boundaries):
        x = self.table(ids)
        return self.conv(x.mT)[..., : ids.shape[1]].mT

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(97, 16)
        self.gru = nn.GRU(16, 16, batch_first=True)

    def forward(self, ids, doc_ids):
        return self.gru(self.table(ids))[0]

class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(97, 16)

    def forward(self, ids, boundaries):
        return self.table(ids)

class Normed(nn.Module):
    """Statistics over the batch, which eval mode doesn't have."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 8)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, ids, cu_seqlens):
        x = self.table(ids)
        return self.norm(x.flatten(0, 1)).view(x.shape)

class Dropping(ByDocIds):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, input_ids, doc_ids):
        return self.drop(self.mixed(input_ids, doc_ids))

class Autocast(ByBoundaries):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, ids, boundaries):
        with torch.autocast("cpu", torch.bfloat16):
            return self.mix(super().forward(ids, boundaries))

class Constant(Tokens):
    def forward(self, ids, boundaries):
        return self.table(ids) * 0 + 1

class Experts(Within):
    """Tokens are sorted to experts, whose products are as large as their tokens are many."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, ids, boundaries):
        x = self.mixed(ids, boundaries.doc_ids)
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            chosen = ids % 2 == at
            out[chosen] = expert(x[chosen])
        return x + out

class Noisy(Tokens):
    def forward(self, ids, boundaries):
        return self.table(ids) + torch.rand(1)

class Deaf(Tokens):
    def forward(self, ids):
        return self.table(ids)

class Short(Tokens):
    def forward(self, ids, boundaries):
        if ids.shape[1] > 200:
            raise ValueError("too long for me")
        return self.table(ids)

def nothing():
    return 3

def hungry(size):
    return Tokens()

ready = Tokens()
'''


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of models in the current folder."""
    (tmp_path / "their_models.py").write_text(MODELS)
    (tmp_path / "broken_models.py").write_text("import no_such_thing\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    torch.set_num_threads(1)
    yield "their_models"
    sys.modules.pop("their_models", None)


def examined(models: str, name: str, row_length: int = 128, **options: Any) -> LeakReport:
    return prove_external_model(external(f"{models}:{name}"), row_lengths=(row_length,), **options)


def failing(report: LeakReport) -> set[str]:
    return {finding.claim for finding in report.failures}


@pytest.mark.parametrize(
    "name", ["ByBoundaries", "ByDocIds", "ByPositions", "ByEdges", "Dropping", "Experts"]
)
def test_a_right_model_passes_and_leaks_once_its_boundaries_are_withheld(
    models: str, name: str
) -> None:
    report = examined(models, name)
    assert report.passed, report.table()
    assert [leak.leak for leak in report.planted] == [WITHHELD]
    assert report.planted[0].red == (claims.REPACKED,)
    assert report.result == "not all covered"
    assert report.uncovered == UNCOVERED


@pytest.mark.parametrize("name", ["Conv", "Recurrent", "Normed"])
def test_a_model_that_mixes_over_rows_or_the_batch_fails(models: str, name: str) -> None:
    report = examined(models, name)
    assert failing(report) - claims.CAUSAL == {claims.REPACKED}
    first = next(finding for finding in report.failures if finding.claim == claims.REPACKED)
    assert first.detail.startswith("step 1: ")
    assert report.planted == ()


def test_autocast_inside_a_model_is_compared_within_its_format(models: str) -> None:
    assert examined(models, "Autocast").passed


def test_a_model_whose_tokens_never_meet_is_told_to_be_unproven(models: str) -> None:
    report = examined(models, "ready")
    assert not report.failures
    assert report.unproven[0].blind == (claims.REPACKED,)


def test_a_model_that_ignores_its_input_does_not_pass_vacuously(models: str) -> None:
    report = examined(models, "Constant")
    assert not report.passed
    assert report.unproven[0].blind == (claims.REPACKED,)


def test_rows_of_another_length_are_said_not_to_be_packed(models: str) -> None:
    report = examined(models, "ByDocIds", 96)
    assert claims.REPACKED not in {finding.claim for finding in report.findings}
    assert any("rows of 96 tokens" in words for words in report.uncovered)


def test_a_test_of_ones_own_examines_a_module() -> None:
    class Bigram(nn.Module):
        def __init__(self, *, leaks: bool) -> None:
            super().__init__()
            self.table = nn.Embedding(97, 97)
            self.leaks = leaks

        def forward(self, ids: Tensor, boundaries: Boundaries) -> Tensor:
            rows: Tensor = self.table(ids)
            return rows + rows.roll(1, dims=1) if self.leaks else rows

    assert leakcheck(lambda: Bigram(leaks=False), vocab_size=97, row_length=128).passed
    report = leakcheck(lambda: Bigram(leaks=True), vocab_size=97, row_length=128, name="bigram")
    assert claims.REPACKED in failing(report)
    assert "LEAK  bigram" in report.table()


def test_a_module_without_an_embedding_is_refused() -> None:
    with pytest.raises(JobError, check=fields(value="Linear")):
        leakcheck(lambda: nn.Linear(2, 2), vocab_size=97)


def test_chance_is_not_mistaken_for_a_leak_alone(models: str) -> None:
    report = examined(models, "Noisy")
    assert claims.REPEATS in {each.claim for each in report.failures}


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("their_models", "Write package.module:builder"),
        ("their_models.py:Conv", "Write package.module:builder"),
        ("no_models:Conv", "no_models can't be imported"),
        ("broken_models:Conv", "No module named 'no_such_thing'"),
        ("their_models:Cnov", "Name one of Within, ByBoundaries"),
        ("their_models:nothing", "a int; what it builds is no torch.nn.Module"),
        ("their_models:hungry", "the builder fails when it is called without arguments"),
        ("their_models:Deaf", r"forward\(ids\); it isn't told where documents begin"),
    ],
)
def test_what_can_not_be_built_or_fed_is_refused_with_a_cure(
    models: str, where: str, words: str
) -> None:
    with pytest.raises(JobError, match=words):
        external(where)


def test_a_model_that_fails_in_its_forward_is_told_so(models: str) -> None:
    with pytest.raises(JobError, match="too long for me"):
        examined(models, "Short", 256)
