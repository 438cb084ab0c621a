"""Anyone's model is examined: good ones pass, each leak is told by its claim, mistakes say what to do."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum.leakcheck import claims
from curriculum.leakcheck.external_models import WITHHELD, external, prove_external_model
from schemas.errors import JobError
from schemas.leak import LeakReport

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
    yield "their_models"
    sys.modules.pop("their_models", None)


def examined(models: str, name: str, row_length: int = 96) -> LeakReport:
    return prove_external_model(external(f"{models}:{name}"), row_lengths=(row_length,))


@pytest.mark.parametrize("name", ["ByBoundaries", "ByDocIds", "ByPositions", "ByEdges"])
def test_a_right_model_passes_and_leaks_once_its_boundaries_are_withheld(
    models: str, name: str
) -> None:
    report = examined(models, name)
    assert report.passed, report.table()
    assert [each.leak for each in report.planted] == [WITHHELD]
    blind = {claims.EMBEDDING_GRADIENTS}  # of a model that is linear
    assert set(report.planted[0].red) == claims.PERTURBED - blind


@pytest.mark.parametrize(
    ("name", "blind"), [("Conv", {claims.EMBEDDING_GRADIENTS}), ("Recurrent", set())]
)
def test_a_model_that_mixes_over_the_row_fails_all_that_others_must_not_change(
    models: str, name: str, blind: set[str]
) -> None:
    """The gradients of a linear model are the same whatever it reads."""
    report = examined(models, name)
    assert {each.claim for each in report.failures} == claims.PERTURBED - blind | {claims.ALONE}
    outputs = next(each for each in report.failures if each.claim == claims.OUTPUTS)
    assert re.fullmatch(r"by up to \d\.\de[+-]\d\d of the largest", outputs.detail)
    assert report.planted == ()


def test_a_model_whose_tokens_never_meet_is_told_to_be_unproven(models: str) -> None:
    report = examined(models, "ready")
    assert not report.failures
    assert report.unproven[0].blind


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
    with pytest.raises(JobError, match=r"ValueError: too long for me; its forward fails on ids"):
        examined(models, "Short", 256)


def test_an_embedding_of_positions_is_not_taken_for_that_of_ids(models: str) -> None:
    report = examined(models, "ByBoundaries")
    reached = [each.passed for each in report.findings if each.claim == claims.REACHES]
    assert reached == [True]
