import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from curriculum.train import restore
from curriculum.train.batch import Shards
from curriculum.train.dataloader import PlannedRows, collate
from curriculum.train.optimizer import new_train_state
from curriculum.train.report import TrainingEnd
from curriculum.train.run import train as run_of
from curriculum.train.step import gradients
from curriculum.train.trainer import Trainer
from schemas.errors import JobError, SchemaError
from schemas.job import CheckpointRef
from schemas.structure import STRUCTURE_TOKENS
from tests.factories import shard_path

CPU = torch.device("cpu")


@pytest.fixture
def mixed(tmp_path: Path, make_world: Callable[..., Any]) -> Any:
    """Flat rows of 256 and rows of 128 with structure, in one plan; validation rows with structure."""
    return make_world(tmp_path / "workspace", enriched=(128,))


def job_of(world: Any, *, structure: bool, **changes: Any) -> Any:
    model = world.job().model.model_copy(update={"structure": structure})
    return world.job(model=model, **changes)


def train(world: Any, directory: Path, *, structure: bool, **changes: Any) -> TrainingEnd:
    job = job_of(world, structure=structure, **changes)
    return Trainer(job, world.store.root, directory, CPU, lambda: False).train()


def test_a_row_carries_its_structure_columns_where_they_are_asked_for(mixed: Any) -> None:
    rows = mixed.rows[1]
    stored = [row for file in rows.shards() for row in pq.read_table(file).to_pylist()]
    asked, unasked = Shards(rows.path, structure=True), Shards(rows.path)
    assert unasked.row(0, 0).structure is None
    for shard, row in ((0, 0), (0, 1), (0, 11), (1, 2)):
        found = asked.row(shard, row).structure
        assert found is not None
        expected = stored[12 * shard + row]
        for number, name in enumerate(STRUCTURE_TOKENS):
            assert found.tokens[:, number].tolist() == expected[name]
        assert found.tokens.dtype == np.uint8
        assert found.chunks.tolist() == [
            [*chunk.values()] for chunk in expected["chunk_boundaries"]
        ]
        assert found.call_edges.tolist() == [
            [edge["source"], edge["target"]] for edge in expected["call_edges"]
        ]
        assert len(found.call_edges) == len(found.chunks) / 2 >= 2
        assert found.type_edges.shape == (0, 2)


def test_rows_without_structure_have_none_though_it_is_asked_for(mixed: Any) -> None:
    assert Shards(mixed.rows[0].path, structure=True).row(0, 0).structure is None


def test_structure_that_is_stored_in_part_is_refused(mixed: Any, tmp_path: Path) -> None:
    table = pq.read_table(mixed.rows[1].shards()[0]).drop_columns(["call_edges"])
    pq.write_table(table, shard_path(tmp_path))
    with pytest.raises(SchemaError, match="call_edges;"):
        Shards(tmp_path, structure=True).row(0, 0)


def test_only_batches_of_rows_with_structure_have_any(mixed: Any) -> None:
    job = job_of(mixed, structure=True)
    rows = PlannedRows.from_job(job, mixed.store.root)
    first = [rows[position] for position in range(8)]
    flat, some = ([row for row in first if len(row.input_ids) == length] for length in (256, 128))
    assert collate(flat).structure is None
    batch = collate(some[:2])
    assert batch.structure is not None
    assert batch.structure.tokens.shape == (2, 128, 5)
    chunks, documents = batch.structure.chunks, batch.boundaries.doc_ids
    for row in range(2):
        for number in range(1, int(chunks[row].max()) + 1):
            assert len(set(documents[row][chunks[row] == number].tolist())) == 1
    assert int(chunks.max()) >= 4


def test_a_model_without_structure_is_given_none(mixed: Any) -> None:
    rows = PlannedRows.from_job(job_of(mixed, structure=False), mixed.store.root)
    assert all(rows[position].structure is None for position in range(6))


def test_a_worker_process_is_asked_for_structure_too(mixed: Any) -> None:
    here = PlannedRows.from_job(job_of(mixed, structure=True), mixed.store.root)
    there = pickle.loads(pickle.dumps(here))
    found = [there[position].structure for position in range(8)]
    assert [each is None for each in found].count(False) >= 2
    for position, structure in enumerate(found):
        expected = here[position].structure
        assert (structure is None) == (expected is None)
        if structure is not None and expected is not None:
            assert np.array_equal(structure.tokens, expected.tokens)
            assert np.array_equal(structure.chunks, expected.chunks)


def begun(outcome: TrainingEnd, world: Any) -> CheckpointRef:
    """Return a job's reference to the checkpoint that it starts from."""
    assert outcome.checkpoint is not None
    path = outcome.checkpoint.relative_to(world.store.root).as_posix()
    return CheckpointRef(run_key="k" * 64, run_content="c" * 64, path=path)


def weights_of(outcome: TrainingEnd) -> dict[str, torch.Tensor]:
    assert outcome.checkpoint is not None
    return {
        name: tensor
        for file in ("model", "optimizer")
        for name, tensor in load_file(outcome.checkpoint / f"{file}.safetensors").items()
    }


def test_structure_joins_a_trained_model_without_a_change_and_then_learns(mixed: Any) -> None:
    """A flat phase, then one of rows with structure beside flat ones: one set of weights."""
    runs = mixed.store.root / "runs"
    flat = train(mixed, runs / "flat", structure=False, steps=4)
    start = begun(flat, mixed)
    changes = {"phase": "structure", "start_from": start, "seed": 8, "steps": 3}
    both = train(mixed, runs / "both", structure=True, **changes)
    ends = [figure.val_bpb for figure in flat.state.figures if figure.step == 4]
    begins = [figure.val_bpb for figure in both.state.figures if figure.step == 0]
    assert begins == ends
    assert len(begins) == 6
    before, after = weights_of(flat), weights_of(both)
    assert before["head.weight.step"] == 4
    assert after["head.weight.step"] == 7
    attached = sorted(name for name in after.keys() - before.keys() if ".step" not in name)
    tables = [name for name in attached if name.endswith("table")]
    layers = [f"blocks.{number}.layer.relations.table" for number in (0, 2)]
    assert tables == [*layers, "structure.table"]
    for name in (*tables, "structure.project.weight"):
        assert after[f"{name}.step"] == 3
        assert after[name].any()
    assert not torch.equal(
        before["blocks.0.layer.query.weight"], after["blocks.0.layer.query.weight"]
    )


def test_what_is_learnt_of_structure_changes_the_figures(mixed: Any, tmp_path: Path) -> None:
    """The same rows and weights without their structure end elsewhere."""
    figures = [
        train(mixed, tmp_path / str(structure), structure=structure, steps=3).state.figures[-1]
        for structure in (False, True)
    ]
    assert figures[0].val_bpb != figures[1].val_bpb


def test_a_run_with_structure_that_is_stopped_goes_on_to_the_same_bytes(
    mixed: Any, tmp_path: Path
) -> None:
    whole = train(mixed, tmp_path / "whole", structure=True, steps=8)
    cut = tmp_path / "cut"
    job = job_of(mixed, structure=True, steps=8, checkpoint_every=2)
    stopped = Trainer(
        job, mixed.store.root, cut, CPU, (cut / "checkpoints" / "step=2").exists
    ).train()
    assert stopped.stopped == "cancelled"
    # It is written while training goes on.
    assert 2 < stopped.state.step <= 8
    resumed = train(mixed, cut, structure=True, steps=8)
    for name, tensor in weights_of(whole).items():
        assert torch.equal(tensor, weights_of(resumed)[name]), name


def test_a_model_that_reads_structure_is_not_carried_on_without(mixed: Any, tmp_path: Path) -> None:
    outcome = train(mixed, tmp_path, structure=True, steps=1)
    assert outcome.checkpoint is not None
    flat = new_train_state(job_of(mixed, structure=False), CPU)
    with pytest.raises(JobError, match=r"^model small: .*; .* structure_inputs: true"):
        restore.carry_over(outcome.checkpoint, flat)


def test_all_ranks_have_a_gradient_of_every_weight_of_structure(mixed: Any) -> None:
    """A step of flat rows alone gives zeros, where a missing gradient would leave ranks waiting."""
    job = job_of(mixed, structure=True)
    train_state = new_train_state(job, CPU)
    rows = PlannedRows.from_job(job, mixed.store.root)
    batch = collate([rows[0]])
    assert batch.structure is None
    gradients(train_state, [batch], job, step=1)
    assert all(weight.grad is not None for weight in train_state.model.parameters())


@pytest.mark.slow
def test_two_ranks_learn_structure_as_one_does(mixed: Any) -> None:
    """Also where one of them has flat rows only, and the other rows with structure."""
    ends = []
    for processes in (1, 2):
        changes = {"processes": processes, "micro_positions": 256, "steps": 3}
        run = run_of(mixed.store, job_of(mixed, structure=True, **changes))
        ends.append(load_file(mixed.store.root / run.report.checkpoint / "model.safetensors"))
    alone, shared = ends
    assert alone["structure.table"].any()
    for name, weight in alone.items():
        assert torch.allclose(weight, shared[name], atol=2e-4), name
