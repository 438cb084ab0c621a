"""The proof holds for our model on every backend, and goes red on every leak that is planted."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from curriculum.leakcheck import Build, check_decoder, claims, doc_ids_of, leakcheck
from curriculum.leakcheck.claims import subject_of
from curriculum.leakcheck.decoders import attention_mass
from curriculum.leakcheck.subject import layouts
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.masks import Boundaries
from curriculum.model.presets import model_spec
from schemas.errors import JobError
from schemas.job import Backend

BACKENDS: tuple[Backend, ...] = ("math", "sdpa", "documents", "flex")
SPEC = model_spec("tiny", 97).model_copy(update={"blocks": "AFAF", "width": 32, "mlp_width": 48})


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


ALWAYS = {
    claims.RECURRING,
    claims.POSITIONS,
    claims.REPEATS,
    claims.REACHES,
    claims.ALONE,
    *claims.PERTURBED,
    *claims.CAUSAL,
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_crosses_a_boundary(backend: Backend) -> None:
    everything = {"blocks": "EMCFAF", "streams": 2}
    report = check_decoder(model_spec("tiny", 4096).model_copy(update=everything), backend)
    assert report.passed, report.table()
    found = {finding.claim for finding in report.findings}
    own = {
        claims.READS_POSITIONS,
        claims.MASS,
        claims.CONVOLUTION,
        claims.STATE,
        claims.N_GRAMS,
        claims.PER_TOKEN,
    }
    scores = {claims.SCORES} if backend == "math" else set()
    assert found == ALWAYS | own | scores
    assert len(report.findings) == len(found)


def test_nothing_crosses_a_boundary_under_a_softcap() -> None:
    report = check_decoder(
        model_spec("tiny", 97, softcap=5.0).model_copy(update={"blocks": "AF"}), "math"
    )
    assert report.passed, report.table()


def decoder() -> Decoder:
    return initialise(Decoder(SPEC, "documents"), 0)


class Leaky(nn.Module):
    """The right model, and then something that must not be there."""

    def __init__(self, leak: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.decoder = decoder()
        self.leak = leak

    def forward(self, ids: Tensor, boundaries: Boundaries) -> Tensor:
        return self.leak(self.decoder.hidden(ids, boundaries))


class Unreset(nn.Module):
    """A model that counts positions by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = decoder()

    def forward(self, ids: Tensor, boundaries: Boundaries) -> Tensor:
        counted = torch.arange(ids.shape[1]).expand_as(ids)
        logits: Tensor = self.decoder(ids, dataclasses.replace(boundaries, position_ids=counted))
        return logits


def neighbour(x: Tensor) -> Tensor:
    return x + torch.cat([x[:, :1], x[:, :-1]], dim=1)


def pooled(x: Tensor) -> Tensor:
    return x + 1e-3 * x.mean(dim=1, keepdim=True)


def over_rows(x: Tensor) -> Tensor:
    return x + 1e-3 * x.mean(dim=0, keepdim=True)


def backward_only(x: Tensor) -> Tensor:
    ghost = 1e-3 * x.cumsum(dim=1)
    return x + (ghost - ghost.detach())


def by_rounding(x: Tensor) -> Tensor:
    sums = x.cumsum(dim=1)
    return x + 1e-3 * (sums - torch.cat([torch.zeros_like(sums[:, :1]), sums[:, :-1]], dim=1))


def ahead(x: Tensor) -> Tensor:
    return x + torch.cat([x[:, 1:], x[:, -1:]], dim=1)


@pytest.mark.parametrize(
    ("leak", "claim"),
    [
        (neighbour, claims.OUTPUTS),
        (pooled, claims.OUTPUTS),
        (over_rows, claims.OUTPUTS),
        (by_rounding, claims.OUTPUTS),
        (backward_only, claims.FOREIGN_GRADIENTS),
        (ahead, claims.FUTURE),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_planted_leak_is_found(leak: Callable[[Tensor], Tensor], claim: str) -> None:
    report = leakcheck(lambda: Leaky(leak), vocab_size=97)
    assert claim in {finding.claim for finding in report.failures}, report.table()


def test_positions_of_the_models_own_making_are_found() -> None:
    report = leakcheck(Unreset, vocab_size=97)
    assert [each.claim for each in report.failures] == [claims.READS_POSITIONS]


def no_mask(doc_ids: Tensor) -> Boundaries:
    right, open_ = Boundaries.of(doc_ids), Boundaries.of(torch.zeros_like(doc_ids))
    return dataclasses.replace(open_, position_ids=right.position_ids)


def off_by_one(doc_ids: Tensor) -> Boundaries:
    return Boundaries.of(torch.cat([doc_ids[:, :1], doc_ids[:, :-1]], dim=1))


def unreset(doc_ids: Tensor) -> Boundaries:
    counted = torch.arange(doc_ids.shape[1]).expand_as(doc_ids).int()
    return dataclasses.replace(Boundaries.of(doc_ids), position_ids=counted)


def by_equal_ids(doc_ids: Tensor) -> Boundaries:
    return Boundaries.of(doc_ids.sort(dim=1).values)


@pytest.mark.parametrize("backend", ["math", "documents"])
@pytest.mark.parametrize("cut", [no_mask, off_by_one], ids=lambda each: each.__name__)
def test_a_wrong_mask_is_found(cut: Callable[[Tensor], Boundaries], backend: Backend) -> None:
    def build() -> nn.Module:
        return initialise(Decoder(SPEC, backend), 0)

    report = leakcheck(build, vocab_size=97, cut=cut)
    assert {finding.claim for finding in report.failures} >= claims.PERTURBED
    subject = subject_of(build(), name="wrong", vocab_size=97, dtype=torch.float32, cut=cut)
    assert not attention_mass(subject, backend).passed


@pytest.mark.parametrize(
    ("cut", "claim"),
    [
        (unreset, claims.POSITIONS),
        (by_equal_ids, claims.RECURRING),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_wrong_boundaries_are_found(cut: Callable[[Tensor], Boundaries], claim: str) -> None:
    report = leakcheck(decoder, vocab_size=97, cut=cut)
    assert claim in {finding.claim for finding in report.failures}, report.table()


def test_a_model_that_ignores_its_input_does_not_pass_vacuously() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(97, 4)

        def forward(self, ids: Tensor, boundaries: Boundaries) -> Tensor:
            constant: Tensor = self.embedding(ids) * 0 + 1
            return constant

    assert not leakcheck(Constant, vocab_size=97).passed


def test_a_model_without_an_embedding_is_refused() -> None:
    with pytest.raises(JobError, match=r"Give a module that embeds ids with nn\.Embedding"):
        leakcheck(lambda: nn.Linear(2, 2), vocab_size=97)


def test_a_strangers_model_of_single_tokens_passes_but_for_its_positions() -> None:
    class Bigram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(97, 16)

        def forward(self, ids: Tensor, boundaries: Boundaries) -> Tensor:
            rows: Tensor = self.table(ids)
            return rows

    build: Build = Bigram
    report = leakcheck(build, vocab_size=97, name="bigram")
    assert [each.claim for each in report.failures] == [claims.READS_POSITIONS]
    assert "LEAK  bigram" in report.table()


@pytest.mark.parametrize("row_length", [203, 256, 512, 1000])
def test_layouts_hold_the_shapes_that_go_wrong(row_length: int) -> None:
    rows = layouts(row_length)
    edges = {sum(each[:at]) for each in rows for at in range(len(each) + 1)}
    assert {63, 64, 65, 127, 128, 129} <= edges
    assert {1, 2, 3, row_length} <= {length for each in rows for length in each}
    assert all(sum(each) == row_length for each in rows)


def test_the_example_of_layouts() -> None:
    first, second, third, fourth, *_ = layouts(256)
    assert (first, second) == ((127, 1, 128), (64, 64, 64, 64))
    assert third == (63, 66, 62, 65)
    assert sum(fourth) == 256
    assert doc_ids_of(((2, 1), (3,))).tolist() == [[0, 0, 1], [0, 0, 0]]
