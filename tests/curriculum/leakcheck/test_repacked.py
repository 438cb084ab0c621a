"""Packings of the same documents train the same weights; a leak is named by step, figure and layer."""

from typing import Any

import pytest
import torch
from torch import Tensor

from curriculum.leakcheck.claims import REPACKED
from curriculum.leakcheck.decoders import small_model
from curriculum.leakcheck.our_training import our_training
from curriculum.leakcheck.packings import packings
from curriculum.leakcheck.proof import CPU, repacked_findings
from curriculum.leakcheck.proof_documents import proof_documents
from curriculum.leakcheck.repacked import ProofSetting, disagreements, first_layer, traces
from curriculum.model import conv
from curriculum.model.decoder import MLP
from curriculum.model.presets import PRESETS, model_spec
from curriculum.train import dataloader
from curriculum.train.loader_workers import batches_of
from schemas.job import Backend, Job, ModelSpec
from tests.curriculum.leakcheck.leaks import InjectedLeak, overlooked, unforeseen


def spec(blocks: str, **changes: Any) -> ModelSpec:
    model = model_spec("tiny", 300).model_copy(update={"blocks": blocks, **changes})
    return small_model(model)


def setting(model: ModelSpec, **changes: Any) -> ProofSetting:
    given: dict[str, Any] = {
        "backend": "documents", "recompute": False, "dtype": torch.float64, **changes,
    }  # fmt: skip
    return ProofSetting(model=model, device=CPU, **given)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def all_hold(proven: ProofSetting, length: int = 256) -> bool:
    steps = proof_documents(proven.model, longest=length)
    found = repacked_findings(proven, steps, packings(steps, length))
    assert {finding.claim for finding in found} == {REPACKED}
    assert len(found) == 5
    assert all(finding.passed for finding in found), [finding.detail for finding in found]
    return True


def test_packings_agree_over_all_families_with_structure_streams_and_recomputation() -> None:
    assert all_hold(setting(spec("AMCEF", streams=2, structure=True), recompute=True))


@pytest.mark.parametrize("backend", ["math", "sdpa"])
def test_packings_agree_by_other_backends_and_under_a_softcap(backend: Backend) -> None:
    softcap = {"softcap": 5.0} if backend == "math" else {}
    assert all_hold(setting(spec("AF", **softcap), backend=backend), 128)


def test_packings_agree_in_float32_within_its_rounding() -> None:
    assert all_hold(setting(spec("AMCEF"), dtype=torch.float32), 128)


@pytest.mark.system
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("seed", range(3))
def test_packings_agree_for_every_preset_reduced(name: str, seed: int) -> None:
    proven = setting(small_model(model_spec(name, 300)), seed=seed)
    steps = proof_documents(proven.model, longest=256, seed=seed)
    assert all(finding.passed for finding in repacked_findings(proven, steps, packings(steps, 256)))


@pytest.mark.system
def test_packings_agree_in_rows_past_8192_and_micro_batches_past_32767() -> None:
    proven = setting(spec("AMCEF"))
    steps = proof_documents(proven.model, longest=8320, steps=2)
    assert 4 * 8320 > 32_767
    assert all(
        finding.passed for finding in repacked_findings(proven, steps, packings(steps, 8320))
    )


@pytest.mark.system
def test_packings_agree_if_other_processes_load_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def noted(loader: Any, workers: int) -> Any:
        started.append(workers)
        return batches_of(loader, workers)

    def train(given: ProofSetting, job: Job, *rest: Any) -> None:
        workers = 0 if rest[-1] is ways[0] else 2
        our_training(given, job.model_copy(update={"workers": workers}), *rest)

    monkeypatch.setattr(dataloader, "batches_of", noted)
    proven = setting(spec("AMCEF", structure=True))
    steps = proof_documents(proven.model, longest=256)
    ways = [way for at, way in enumerate(packings(steps, 256)) if at in (0, 2, 4, 5)]
    found = [each for _, each in disagreements(proven, steps, ways, train=train)]
    assert found == [None] * 3
    # Two of the runs are resumed.
    assert started == [0, 2, 2, 2, 2, 2]


def leaky(monkeypatch: pytest.MonkeyPatch) -> None:
    forward: Any = MLP.forward

    def pooling(self: MLP, x: Tensor, *rest: Any) -> Any:
        return forward(self, x + 1e-3 * x.mean(dim=1, keepdim=True), *rest)

    monkeypatch.setattr(MLP, "forward", pooling)


def test_a_leak_is_named_by_step_document_and_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    leaky(monkeypatch)
    proven = setting(spec("CF"))
    steps = proof_documents(proven.model, longest=128)
    found = [
        each for each in repacked_findings(proven, steps, packings(steps, 128)) if not each.passed
    ]
    assert found
    assert "step 1: " in found[0].detail
    assert "block 1 (F)" in found[0].detail


def test_a_leak_of_gradients_alone_is_named_by_its_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv, "_tails", lambda edges_S, reach: edges_S.new_zeros(0).long())
    proven = setting(spec("CF"))
    steps = proof_documents(proven.model, longest=128)
    ways = packings(steps, 128)
    way, found = next(
        each for each in disagreements(proven, steps, ways, train=our_training) if each[1]
    )
    assert found is not None
    assert found.figure.startswith("the gradient of ")
    assert "first in the gradient of the embedding" in first_layer(
        proven, steps, ways[0], way, found.step, train=our_training
    )


@pytest.mark.parametrize(
    "leak",
    [unforeseen.sent_ahead_and_lost, overlooked.spikes_against_a_fresh_history],
    ids=lambda leak: leak.words,
)
def test_a_leak_that_loses_documents_of_a_step_is_named_too(leak: InjectedLeak) -> None:
    proven = setting(spec("EF"))
    steps = proof_documents(proven.model, longest=128)
    ways = packings(steps, 128)
    with leak.injected():
        found = repacked_findings(proven, steps, ways)
    failed = [finding for finding in found if not finding.passed]
    assert failed
    assert all(finding.claim == REPACKED and finding.detail for finding in failed)


def test_a_leak_of_the_optimizer_is_left_when_blocks_agree(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Moments that depend on how often a run was resumed."""
    step: Any = torch.optim.AdamW.step
    runs: list[int] = []

    def counting(self: Any, *given: Any) -> Any:
        runs.append(1)
        for group in self.param_groups:
            group["lr"] *= 1 + 1e-4 * (len(runs) % 5)
        return step(self, *given)

    monkeypatch.setattr(torch.optim.AdamW, "step", counting)
    proven = setting(spec("F"))
    steps = proof_documents(proven.model, longest=128)
    ways = packings(steps, 128)
    assert any(found for _, found in disagreements(proven, steps, ways, train=our_training))


def test_the_trace_of_a_step_has_the_loss_of_each_document() -> None:
    proven = setting(spec("F"))
    steps = proof_documents(proven.model, longest=128, steps=2)
    (first, second) = traces(proven, steps, packings(steps, 128)[0], train=our_training)
    assert set(first.losses) == set(range(len(steps[0])))
    assert len(second.losses) == len(steps[1])
    for number, document in enumerate(steps[0]):
        assert (first.losses[number] > 0) == document.is_scored
    assert not first.fault
    assert first.gradients
    assert not second.gradients
    assert second.weights
