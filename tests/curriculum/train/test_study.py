"""Runs of a study: the same rows and targets under other masks or positions, and what isn't made of them."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curriculum.leakcheck.job_proof import proven_file
from curriculum.leakcheck.subject import spread_constant_weights
from curriculum.model.decoder import Decoder, initialise
from curriculum.model.engram import Engram
from curriculum.train.batch import Batch, Row, collate
from curriculum.train.dataloader import PlannedRows, loader_of, steps_of
from curriculum.train.distributed import ALONE
from curriculum.train.job import require_same_study
from curriculum.train.masking_cost import measure_once
from curriculum.train.metrics import counts_of
from curriculum.train.optimizer import new_train_state
from curriculum.train.report import TrainingEnd, report_of
from curriculum.train.run_directory import run_recipe
from curriculum.train.step import FinitenessCheck
from curriculum.train.trainer import Trainer
from schemas.errors import JobError
from schemas.job import Backend, Job, ModelSpec
from schemas.progress import ignore_progress
from schemas.study import MaskFrom, Study
from tests.curriculum.train.test_batch import row, rows_of_one_length
from tests.curriculum.train.test_job import diet

CPU = torch.device("cpu")
OFF = Study(document_mask="off")
CONTINUED = Study(positions="continue")
HALF = Study(document_mask=MaskFrom(on_from=0.5))
PADDED = replace(
    row([5, 6, 7, 8, 9, 0, 0], [1, 1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 2, 2]),
    valid_token_count=5,
    attention_pairs=9,
)
"""Two documents and two positions of padding."""


def rotations(batch: Batch) -> list[list[int]]:
    boundaries = batch.boundaries
    counted = boundaries.position_ids if boundaries.rotated_by is None else boundaries.rotated_by
    values: list[list[int]] = counted.tolist()
    return values


def test_seven_positions_under_each_setting() -> None:
    found = {
        (masked, restart): collate([PADDED], masked=masked, restart=restart)
        for masked, restart in itertools.product((True, False), repeat=2)
    }
    documents, joined = [[0, 0, 0, 1, 1, 2, 2]], [[0, 0, 0, 0, 0, 1, 1]]
    restarting, counting = [[0, 1, 2, 0, 1, 0, 1]], [[0, 1, 2, 3, 4, 0, 1]]
    seen = {
        setting: (each.boundaries.doc_ids.tolist(), rotations(each))
        for setting, each in found.items()
    }
    assert seen == {
        (True, True): (documents, restarting),
        (True, False): (documents, counting),
        (False, True): (joined, restarting),
        (False, False): (joined, counting),
    }
    assert [each.attention_pairs for each in found.values()] == [9, 9, 15, 15]
    sizes = torch.ones(10, dtype=torch.int64)
    context = {setting: counts_of(each, sizes).context for setting, each in found.items()}
    assert context == {(True, True): 4, (True, False): 4, (False, True): 7, (False, False): 7}


@given(rows_of_one_length(), st.booleans(), st.booleans())
def test_targets_and_padding_are_those_of_a_run_without_a_study(
    rows: list[Row], masked: bool, restart: bool
) -> None:
    some = [replace(each, valid_token_count=max(1, len(each.input_ids) - 2)) for each in rows]
    usual, other = collate(some), collate(some, masked=masked, restart=restart)
    for name in ("input_ids", "target_ids", "loss_mask"):
        assert torch.equal(getattr(usual, name), getattr(other, name))
    assert (usual.pack_ids, usual.valid_tokens) == (other.pack_ids, other.valid_tokens)
    if masked:
        assert torch.equal(usual.boundaries.doc_ids, other.boundaries.doc_ids)
        return
    for ids, each in zip(other.boundaries.doc_ids.tolist(), some, strict=True):
        valid = each.valid_token_count
        assert ids == [0] * valid + [1] * (len(ids) - valid)


SPEC = ModelSpec(
    name="families", vocab_size=64, blocks="A", width=32, heads=2, kv_heads=1, mlp_width=48
)
LENGTHS = 40, 50, 38
"""Two documents and padding in a row of 128."""


def a_row() -> Row:
    generator = np.random.default_rng(5)
    doc_ids = np.repeat([0, 1, 2], LENGTHS)
    ids = generator.integers(3, 64, len(doc_ids))
    mask = np.append(doc_ids[1:] == doc_ids[:-1], False) & (doc_ids < 2)
    made = row(ids.tolist(), mask.astype(int).tolist(), doc_ids.tolist())
    return replace(made, valid_token_count=sum(LENGTHS[:2]))


def model_of(blocks: str, backend: Backend = "math", **changes: Any) -> Decoder:
    spec = SPEC.model_copy(update={"blocks": blocks, **changes})
    model = initialise(Decoder(spec, backend), 0).double()
    spread_constant_weights(model)
    return model


def influence(model: Decoder, batch: Batch, first: int, end: int) -> torch.Tensor:
    """The gradient [T] that outputs of positions from `first` to `end` have by each embedded token."""
    noted: list[torch.Tensor] = []

    def keep(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        noted.append(output.detach().requires_grad_())
        return noted[0]

    hook = model.embedding.register_forward_hook(keep)
    x_BTD = model.hidden(batch.input_ids, batch.boundaries)
    hook.remove()
    x_BTD[0, first:end].square().sum().backward()  # type: ignore[no-untyped-call]
    assert noted[0].grad is not None
    return noted[0].grad[0].abs().sum(-1)


@pytest.mark.parametrize(
    ("blocks", "backend", "changes"),
    [
        *((("A"), backend, {}) for backend in ("math", "sdpa", "documents", "flex")),
        ("A", "documents", {"softcap": 20.0}),
        ("A", "documents", {"streams": 2}),
        ("M", "math", {}),
        ("C", "math", {}),
        ("E", "math", {}),
    ],
)
def test_every_layer_reads_the_document_before_without_masks_and_not_with_them(
    blocks: str, backend: Backend, changes: dict[str, Any]
) -> None:
    model, one = model_of(blocks, backend, **changes), a_row()
    first, second, _ = LENGTHS
    for masked in (True, False):
        batch = collate([one], masked=masked)
        found = influence(model, batch, first, first + second)
        # Convolutions reach three tokens back, the others to the row's start.
        before = found[first - 3 : first] if blocks in "CE" else found[:first]
        assert bool((before == 0).all()) if masked else bool((before > 0).all())
        assert bool((found[first + second :] == 0).all())
        padding = influence(model, batch, first + second, sum(LENGTHS))
        assert bool((padding[: first + second] == 0).all())


def test_n_grams_go_on_over_a_start_without_masks() -> None:
    """Ids are hashed, and no gradient passes there: another id just before the start shows it."""
    (layer,) = (each for each in model_of("E").modules() if isinstance(each, Engram))
    one, first = a_row(), LENGTHS[0]
    ids = one.input_ids.copy()
    ids[first - 1] = 3 + (ids[first - 1] - 2) % 61
    other = replace(one, input_ids=ids)
    for masked in (True, False):
        with torch.no_grad():
            read = [
                layer.read(batch.input_ids, batch.boundaries)
                for batch in (collate([each], masked=masked) for each in (one, other))
            ]
        assert torch.equal(read[0][0, first], read[1][0, first]) is masked


@pytest.mark.parametrize("masked", [True, False])
def test_positions_that_continue_matter_only_where_documents_read_one_another(
    masked: bool,
) -> None:
    """Rotations are relative: within a document all of them turned further is the same attention."""
    model = model_of("A")
    batches = [collate([a_row()], masked=masked, restart=restart) for restart in (True, False)]
    with torch.no_grad():
        one, other = (model.hidden(each.input_ids, each.boundaries)[0] for each in batches)
    second = slice(LENGTHS[0], sum(LENGTHS[:2]))
    apart = (one[second] - other[second]).abs().max()
    assert apart < 1e-12 if masked else apart > 1e-3
    assert torch.equal(one[: LENGTHS[0]], other[: LENGTHS[0]])


@pytest.mark.parametrize("blocks", ["M", "C", "E"])
def test_positions_that_continue_reach_no_layer_but_attention(blocks: str) -> None:
    model = model_of(blocks)
    batches = [collate([a_row()], restart=restart) for restart in (True, False)]
    with torch.no_grad():
        one, other = (model.hidden(each.input_ids, each.boundaries) for each in batches)
    assert torch.equal(one, other)


def batches_of(world: Any, job: Job, **ranks: int) -> list[list[Batch]]:
    rows = PlannedRows.from_job(job, world.store.root)
    return [*steps_of(job, rows, first_step=0, workers=0, **ranks)]


def test_both_sides_of_a_comparison_read_the_same_rows_and_score_the_same_targets(
    world: Any,
) -> None:
    usual, other = (batches_of(world, world.job(study=study)) for study in (None, OFF))
    assert len(usual) == 12
    for one, two in zip(itertools.chain(*usual), itertools.chain(*other), strict=True):
        assert one.pack_ids == two.pack_ids
        for name in ("input_ids", "target_ids", "loss_mask"):
            assert torch.equal(getattr(one, name), getattr(two, name))
        assert len(two.boundaries.lengths) <= 2 * len(two.pack_ids) < len(one.boundaries.lengths)
        assert (one.masked, two.masked) == (True, False)


@pytest.mark.parametrize("ranks", [1, 2])
def test_masks_go_on_in_the_middle_of_the_plan(world: Any, ranks: int) -> None:
    job = world.job(study=HALF)
    for rank in range(ranks):
        steps = batches_of(world, job, rank=rank, ranks=ranks)
        assert [{each.masked for each in step} for step in steps] == [{False}] * 6 + [{True}] * 6


def test_a_study_enters_the_key_of_its_runs_and_no_other_key_changes(world: Any) -> None:
    plain = world.job()
    assert "study" not in run_recipe(plain).config
    assert "study" not in plain.model_dump_json()
    keys = {world.job(study=study).run_key for study in (OFF, CONTINUED, HALF)}
    assert len(keys | {plain.run_key}) == 4
    marked = world.job(study=HALF)
    assert Job.model_validate_json(marked.model_dump_json()) == marked
    assert (marked.plan_key, marked.rows) == (plain.plan_key, plain.rows)


def train(world: Any, directory: Path, stop: Callable[[], bool], job: Job) -> TrainingEnd:
    return Trainer(job, world.store.root, directory, CPU, stop, ALONE).train()


@pytest.mark.parametrize("stopped_at", [2, 3, 4])
def test_a_run_stopped_around_the_switch_resumes_with_the_same_bits(
    world: Any, tmp_path: Path, stopped_at: int
) -> None:
    job = world.job(study=HALF, steps=6, micro_positions=256)
    whole = train(world, tmp_path / "whole", lambda: False, job)
    count = itertools.count(1)
    broken = tmp_path / "broken"
    assert train(world, broken, lambda: next(count) > stopped_at + 8, job).stopped == "cancelled"
    resumed = train(world, broken, lambda: False, job)
    assert whole.checkpoint is not None
    assert resumed.checkpoint is not None
    names = sorted(each.name for each in whole.checkpoint.iterdir())
    assert "model.safetensors" in names
    for name in names:
        assert (whole.checkpoint / name).read_bytes() == (resumed.checkpoint / name).read_bytes()


def test_held_out_documents_are_measured_alike_whatever_the_study(
    world: Any, tmp_path: Path
) -> None:
    outcomes = [
        train(world, tmp_path / str(at), lambda: False, world.job(study=study, steps=1))
        for at, study in enumerate((None, OFF, CONTINUED))
    ]
    before = [[each for each in outcome.state.figures if each.step == 0] for outcome in outcomes]
    assert before[0]
    assert before[0] == before[1] == before[2]
    job = world.job(study=OFF, steps=1)
    report = report_of(job, tmp_path, tmp_path / "1", outcomes[1])
    assert report.study == OFF
    assert report.mean_context is not None
    usual = report_of(world.job(steps=1), tmp_path, tmp_path / "0", outcomes[0])
    assert usual.mean_context is not None
    assert report.mean_context > 2 * usual.mean_context
    assert "study" not in usual.model_dump_json()


def test_rows_that_are_to_blame_name_no_document_where_documents_read_one_another(
    world: Any,
) -> None:
    for study, named in ((None, True), (OFF, False)):
        job = world.job(study=study)
        (batch, *_), *_ = batches_of(world, job)
        model = new_train_state(job, CPU).model
        with torch.no_grad():
            model.embedding.weight[int(batch.input_ids[0, 5])] = torch.nan
        finite = FinitenessCheck(model=model, step=1, count=1, z_weight=0.0, folders={})
        found = finite.find_nonfinite("the loss", [batch])
        assert found.blamed
        assert any(each.documents for each in found.blamed) is named


def test_what_masks_cost_is_not_measured_where_they_are_off(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[Job] = []
    monkeypatch.setattr("curriculum.train.masking_cost.FROM_LENGTH", 256)
    monkeypatch.setattr(
        "curriculum.train.masking_cost._of_job", lambda job, *_: measured.append(job)
    )
    with pytest.raises(AttributeError):
        measure_once(world.job(), world.store.root, tmp_path, CPU)
    assert measure_once(world.job(study=OFF), world.store.root, tmp_path, CPU) is None
    assert len(measured) == 1


def test_rows_of_a_study_are_not_dealt_to_another_training_loop(world: Any) -> None:
    with pytest.raises(JobError, match="study: positions continue;"):
        loader_of(world.job(study=CONTINUED), world.store.root)


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (OFF, "mask off; document_mask is off in this run, so documents influence each other by"),
        (HALF, "mask off; document_mask is off in this run"),
        (CONTINUED, "study: positions continue; in this run positions count on over documents"),
    ],
)
def test_leakcheck_says_mask_off_and_not_leak(world: Any, study: Study, words: str) -> None:
    directory = world.open_run(world.job(study=study))
    with pytest.raises(JobError) as refused:
        proven_file(directory / "job.json", ignore_progress)
    assert words in str(refused.value)
    assert "leak" not in str(refused.value).replace("leakcheck", "").lower()


def test_a_study_is_carried_on_by_its_own_diet_alone(world: Any) -> None:
    before = world.job(study=OFF)
    require_same_study(before, diet(study={"document_mask": "off"}))
    require_same_study(world.job(), diet(study={"document_mask": "off"}))
    for other in ({}, {"study": {"document_mask": {"on_from": 0.5}}}):
        with pytest.raises(JobError, match="study: document_mask off;"):
            require_same_study(before, diet(**other))
