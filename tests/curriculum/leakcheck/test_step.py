"""The step that trains: both claims hold of it, and a leak that only it has is seen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from curriculum.leakcheck import claims
from curriculum.leakcheck.rows import RowsFile, random_rows
from curriculum.leakcheck.step import thinned
from curriculum.leakcheck.step_claims import HALVES, mutable, positions, prove_step
from curriculum.leakcheck.subject import LONG_ROW, Sizes, muted_layouts, step_layouts
from curriculum.model import loss
from curriculum.model.loss import LossSums, loss_sums
from curriculum.model.masks import Boundaries
from curriculum.model.presets import PRESETS, model_spec
from curriculum.train import dataloader
from curriculum.train.batch import Batch, Row, collate
from schemas.job import ModelSpec
from schemas.leak import Finding

T = 256


def spec(blocks: str, vocab_size: int = 300) -> ModelSpec:
    return model_spec("tiny", vocab_size).model_copy(update={"blocks": blocks})


def red(found: Sequence[Finding]) -> set[str]:
    return {each.claim for each in found if not each.passed}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_claims_hold_of_all_families_with_structure_and_recomputation(
    dtype: torch.dtype,
) -> None:
    found = prove_step(
        spec("AMCEF"), backend="documents", row_length=T, dtype=dtype, recompute=True,
        structure=True,
    )  # fmt: skip
    assert not red(found), [each for each in found if not each.passed]
    assert {each.claim for each in found} == {
        claims.SCORED, claims.MUTED, claims.FED, claims.CHANGES_REACH,
    }  # fmt: skip
    assert all(each.mode.startswith("train, recompute, ") for each in found)
    assert all(each.mode.endswith("300 ids") for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("dtype", "recompute"), [(torch.float32, True), (torch.bfloat16, False)])
def test_both_claims_hold_of_every_shipped_model(
    name: str, dtype: torch.dtype, recompute: bool
) -> None:
    """With structure where a block attends, which takes its biases."""
    model = model_spec(name, 300)
    found = prove_step(
        model, backend="documents", row_length=T, dtype=dtype, recompute=recompute,
        structure="A" in model.blocks,
    )  # fmt: skip
    assert not red(found), [each for each in found if not each.passed]
    assert len(found) == 4


def test_a_loader_that_joins_documents_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def joining(rows: Sequence[Row]) -> Batch:
        batch = collate(rows)
        return replace(batch, boundaries=Boundaries.of(batch.boundaries.doc_ids // 2))

    monkeypatch.setattr(dataloader, "collate", joining)
    found = prove_step(spec("A"), backend="documents", row_length=T)
    assert {claims.SCORED, claims.MUTED} <= red(found)
    (scored,) = (each for each in found if each.claim == claims.SCORED)
    assert "first at token" in scored.detail
    assert "in document" in scored.detail


def test_a_loader_that_feeds_other_ids_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(rows: Sequence[Row]) -> Batch:
        batch = collate(rows)
        return replace(batch, input_ids=batch.input_ids.roll(1, dims=1))

    monkeypatch.setattr(dataloader, "collate", other)
    found = prove_step(spec("F"), backend="documents", row_length=T)
    assert claims.FED in red(found)
    assert claims.SCORED in red(found)


def test_a_loss_that_is_centred_over_the_batch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def centred(*arguments: Any, **named: Any) -> LossSums:
        sums = loss_sums(*arguments, **named)
        x_BTD, head_VD, _, mask_BT = arguments
        mean_V = (x_BTD[mask_BT.bool()].mean(0) @ head_VD.T).logsumexp(-1)
        return replace(sums, total=sums.total - mean_V)

    monkeypatch.setattr(loss, "loss_sums", centred)
    found = prove_step(spec("F"), backend="documents", row_length=T)
    assert {claims.SCORED, claims.FED} <= red(found)


def test_a_state_carried_from_micro_batch_to_micro_batch_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from curriculum.model.decoder import MLP

    forward: Callable[..., torch.Tensor] = MLP.forward
    state: list[torch.Tensor] = []

    def carrying(self: MLP, x: torch.Tensor, *rest: Any) -> torch.Tensor:
        before = state.pop() if state and self.training else x.new_zeros(())
        state.append(x.detach().mean())
        return forward(self, x + before, *rest)

    monkeypatch.setattr(MLP, "forward", carrying)
    assert claims.SCORED in red(prove_step(spec("F"), backend="documents", row_length=T))


@pytest.mark.parametrize("row_length", [128, 256, 512, 2048, 4096, 16_384, 65_536])
def test_layouts_reach_the_sizes_of_the_job(row_length: int) -> None:
    sizes = Sizes.of(spec("AMCEF"), row_length)
    layouts = step_layouts(sizes)
    assert all(0 < sum(each) <= row_length for each in layouts)
    assert (row_length,) in layouts
    assert all(len(each) > 1 for each in muted_layouts(sizes))
    lengths = {n for each in layouts for n in each}
    assert {n for n in sizes.edges if n < row_length - 400} <= lengths
    assert {3, 4, 5, 63, 64, 65, 127, 128, 129, 2113} == set(sizes.edges)
    assert 1 in lengths
    assert row_length < 512 or max(map(len, layouts)) > 256
    assert len(layouts) == 4 or row_length <= 2048


def test_the_file_says_which_position_is_of_which_document(tmp_path: Path) -> None:
    rows = random_rows(spec("F"), 128, [(3, 1, 60)])
    rows.write(tmp_path / "rows")
    file = RowsFile.read(tmp_path / "rows")
    assert file.documents[0].tolist() == [0] * 3 + [1] + [2] * 60 + [-1] * 64
    assert file.mask[0].nonzero().flatten().tolist() == [0, 1, *range(4, 63)]
    assert positions(file, lambda row, at: at == 1).nonzero().tolist() == [[0, 3]]


def test_thinned_rows_score_each_document_that_was_scored() -> None:
    layouts = step_layouts(Sizes.of(spec("AMCEF"), LONG_ROW * 2))
    rows = random_rows(spec("AMCEF"), LONG_ROW * 2, layouts)
    thin = thinned(rows, len(layouts), 2560)
    kept = sum(int(each.loss_mask.sum()) for row in thin.rows for each in row)
    assert 2048 < kept <= 4096
    for one, other in zip(rows.rows, thin.rows, strict=True):
        for full, few in zip(one, other, strict=True):
            assert full.loss_mask.any() == few.loss_mask.any()
            assert (few.loss_mask <= full.loss_mask).all()


def test_a_changed_document_differs_at_each_position_and_others_nowhere() -> None:
    rows = random_rows(spec("F", 7), 128, [(3, 1, 60), (128,)])
    changed = rows.changed(lambda row, at: at == 2, seed=1)
    for row, (before, after) in enumerate(zip(rows.rows, changed.rows, strict=True)):
        for at, (one, other) in enumerate(zip(before, after, strict=True)):
            assert (one.ids != other.ids).all() == (row == 0 and at == 2)
            assert (one.ids == other.ids).all() != (row == 0 and at == 2)


def test_no_row_is_left_without_a_target() -> None:
    rows = random_rows(spec("F"), 128, [(3, 1, 60), (128,), (1, 100)])
    for half in HALVES:
        muted = rows.muted(mutable(rows, half))
        assert all(any(each.loss_mask.any() for each in row) for row in muted.rows)
