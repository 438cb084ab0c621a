"""Mismatches are named before the first step."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.published_files import sha256_of
from curriculum.train.checkpoint_files import CheckpointManifest
from curriculum.train.dataloader import PlannedRows, steps_of
from curriculum.train.launch.launcher import Launch, launch_job
from curriculum.train.run import freeze
from curriculum.train.run_directory import run_recipe
from curriculum.train.validate import require_fitting
from schemas.errors import JobError
from schemas.job import CheckpointRef, Job
from schemas.manifest import FileRecord
from schemas.structure import STRUCTURE_COLUMNS
from tests.sealing import artefact_around, republish


def refused(world: Any, said: str, **changes: Any) -> None:
    with pytest.raises(JobError, match=said):
        require_fitting(world.job(**changes), world.store.root)


def rewrite(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a published file, and what its manifest says of it."""
    table = pq.read_table(file, partitioning=None)
    pq.write_table(change(table), file, row_group_size=3)
    republish(artefact_around(file))


def with_column(name: str, values: Callable[[pa.Table], Any]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index(name)
        column = pa.array(values(table), table.schema.field(name).type)
        return table.set_column(at, table.schema.field(name), column)

    return change


def metadata(**changes: str) -> Callable[[pa.Table], pa.Table]:
    added = {name.encode(): value.encode() for name, value in changes.items()}
    return lambda table: table.replace_schema_metadata({**table.schema.metadata, **added})


def checkpoint(world: Any, job: Job, spec: str | None) -> CheckpointRef:
    path = world.store.root / "runs" / "before" / "checkpoints" / "step=1"
    path.mkdir(parents=True)
    if spec is not None:
        (path / "model.json").write_text(spec)
    seal(path)
    return CheckpointRef(run_key="k", run_content="c", path="runs/before/checkpoints/step=1")


def seal(checkpoint: Path) -> None:
    """Write the manifest of what lies in a checkpoint."""
    files = [each for each in checkpoint.iterdir() if each.name != "manifest.json"]
    listed = tuple(
        FileRecord(name=each.name, sha256=sha256_of(each), num_bytes=each.stat().st_size)
        for each in files
    )
    manifest = CheckpointManifest(step=1, files=listed)
    (checkpoint / "manifest.json").write_text(manifest.model_dump_json())


def test_what_fits_passes(world: Any) -> None:
    job = world.job()
    require_fitting(job, world.store.root)
    start = checkpoint(world, job, job.model.model_dump_json())
    require_fitting(world.job(start_from=start), world.store.root)


def test_sizes_that_hold_no_whole_row_are_refused(world: Any) -> None:
    refused(
        world,
        r"micro_positions: 128; .*some have 256 tokens. Raise micro_positions",
        micro_positions=128,
    )
    refused(world, r"tokens_per_step: 1000; .*slots of 256 .*such as 1024", tokens_per_step=1000)
    refused(world, r"rows: the job lists no rows", rows=())


def test_more_steps_than_the_plan_has_are_refused(world: Any) -> None:
    refused(
        world, r"steps: 16; the steps need 64 slots of 256 positions, and the plan has 60", steps=16
    )
    job = world.job(steps=16)
    steps = steps_of(job, PlannedRows.from_job(job, world.store.root), first_step=14, workers=0)
    assert len(next(steps)) > 0
    with pytest.raises(JobError, match="step 16"):
        next(steps)


def test_a_tokenizer_of_another_size_is_refused(world: Any) -> None:
    small = world.job().model.model_copy(update={"vocab_size": 60})
    refused(
        world, r"model small: 60 ids; the tokenizer has 64 ids, and the model must", model=small
    )
    other = world.job().tokenizer.model_copy(update={"vocab_size": 63})
    refused(world, r"token_bytes.parquet: 64 ids; the job's tokenizer has 63", tokenizer=other)
    missing = world.job().tokenizer.model_copy(update={"path": "tokenizers/none"})
    refused(world, r"token_bytes.parquet: the tokenizer is missing", tokenizer=missing)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (metadata(row_length="512"), r"rows of 512 tokens; the job expects rows of 256"),
        (metadata(vocab_size="99"), r"rows of 99 ids; the job's tokenizer has 64"),
        (metadata(row_length="many"), r"part-00000.parquet: metadata: .*row_length"),
        (metadata(schema_version="9.0"), r"part-00000.parquet: schema_version 9.0; this version"),
    ],
)
def test_rows_that_are_not_the_jobs_are_refused(
    world: Any, change: Callable[[pa.Table], pa.Table], said: str
) -> None:
    rewrite(world.rows[0].path / "data/part-00000.parquet", change)
    refused(world, said)


def test_rows_and_validation_rows_that_are_gone_are_named(world: Any) -> None:
    shutil.rmtree(world.val.path)
    refused(world, f"{world.val.path}: the folder contains no rows, but the job reads it")
    shutil.rmtree(world.rows[1].path)
    refused(world, f"{world.rows[1].path}: the folder contains no rows")


def test_a_plan_of_other_rows_is_refused(world: Any) -> None:
    job = world.job()
    refused(world, r"plan: rows [0-9a-f]{12}; the job doesn't list these rows", rows=job.rows[:1])
    longer = (job.rows[0], job.rows[1].model_copy(update={"row_length": 256}))
    refused(world, r"rows of 128 tokens; the job expects rows of 256", rows=longer)
    refused(world, r"plan: .*nowhere; the plan doesn't exist", plan="mixtures/nowhere")


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        (
            "row",
            lambda table: np.full(len(table), 12),
            r"rows up to 12 of shard 0 .*has 12 rows, or",
        ),
        ("shard", lambda table: np.full(len(table), 2), r"of shard 2 .*doesn't exist, or"),
        (
            "pack_id",
            lambda table: [f"0123456789ab-{at:010d}" for at in range(len(table))],
            r"such as 0123456789ab-0000000000; .*don't match",
        ),
        (
            "row_length",
            lambda table: np.full(len(table), 256),
            r"rows of 256 tokens in .*expects rows of 128",
        ),
    ],
)
def test_a_plan_that_points_elsewhere_is_refused(
    world: Any, column: str, values: Callable[[pa.Table], Any], said: str
) -> None:
    rewrite(world.plan.path / "plan.parquet", with_column(column, values))
    refused(world, said)


def test_a_plan_without_a_column_is_refused(world: Any) -> None:
    rewrite(world.plan.path / "plan.parquet", lambda table: table.drop_columns(["shard"]))
    refused(world, r"plan: column shard; .*plan.parquet lacks this column")


def test_a_checkpoint_of_another_model_is_refused(world: Any) -> None:
    job = world.job()
    wider = job.model.model_copy(update={"width": 128, "heads": 8})
    start = checkpoint(world, job, wider.model_dump_json())
    said = r"model small: width 64, heads 4; the checkpoint .*step=1 has width 128, heads 8"
    refused(world, said, start_from=start)
    file = world.store.root / start.path / "model.json"
    file.write_text("{}")
    refused(world, r"model.json: it isn't what was written", start_from=start)
    seal(file.parent)
    refused(world, r"model.json: name: Field required; the checkpoint is damaged", start_from=start)
    file.unlink()
    refused(world, r"step=1: another trainer wrote this", start_from=start)
    require_fitting(world.job(start_from=start, trainer="python x.py {job}"), world.store.root)
    gone = start.model_copy(update={"path": "runs/none"})
    refused(
        world, r"start_from: .*runs/none; the checkpoint is missing or incomplete", start_from=gone
    )


def test_structure_that_no_row_has_is_refused_and_what_was_learnt_before_is_not(world: Any) -> None:
    model = world.job().model.model_copy(update={"structure": True})
    refused(world, r"model small: structure: true; neither the rows of the mixture", model=model)
    start = checkpoint(world, world.job(), model.model_dump_json())
    require_fitting(world.job(model=model, start_from=start), world.store.root)
    flat = r"model small: structure False; the checkpoint .*has structure True"
    refused(world, flat, start_from=start)


def test_some_of_the_structure_columns_are_too_few(world: Any) -> None:
    field = STRUCTURE_COLUMNS[0]

    def add(table: pa.Table) -> pa.Table:
        values = [[0] * 256] * len(table)
        return table.append_column(field, pa.array(values, field.type))

    rewrite(world.rows[0].path / "data/part-00000.parquet", add)
    model = world.job().model.model_copy(update={"structure": True})
    refused(
        world, r"part-00000.parquet: dep_levels, .*type_edges; the file lacks some", model=model
    )
    require_fitting(world.job(), world.store.root)


def spoil(world: Any, name: str, change: Callable[[Any], None]) -> str:
    """Change a column of row 4 of the first shard, which the plan takes early; returns its pack_id."""
    file = world.rows[0].path / "data/part-00000.parquet"

    def values(table: pa.Table) -> Any:
        rows = [np.array(row) for row in table[name].to_pylist()]
        change(rows[4])
        return rows

    rewrite(file, with_column(name, values))
    return str(pq.read_table(file, partitioning=None)["pack_id"][4])


@pytest.mark.parametrize("workers", [0, 1])
def test_an_id_that_the_model_lacks_is_named_by_row_and_place(world: Any, workers: int) -> None:
    pack_id = spoil(world, "input_ids", lambda ids: ids.__setitem__(7, 64))
    job = world.job()
    require_fitting(job, world.store.root)
    with pytest.raises(JobError, match=f"row {pack_id}: id 64 at token 7; .* 0"):
        list(
            steps_of(
                job, PlannedRows.from_job(job, world.store.root), first_step=0, workers=workers
            )
        )


def test_a_negative_id_is_named_too(world: Any) -> None:
    pack_id = spoil(world, "input_ids", lambda ids: ids.__setitem__(9, -1))
    job = world.job()
    with pytest.raises(JobError, match=f"row {pack_id}: id -1 at token 9"):
        list(steps_of(job, PlannedRows.from_job(job, world.store.root), first_step=0, workers=0))


def test_a_row_without_scored_targets_is_named(world: Any) -> None:
    pack_id = spoil(world, "loss_mask", lambda mask: mask.fill(0))
    job = world.job()
    with pytest.raises(JobError, match=f"row {pack_id}: .*target"):
        list(steps_of(job, PlannedRows.from_job(job, world.store.root), first_step=0, workers=0))


def test_a_job_that_does_not_fit_ends_before_its_first_step(world: Any) -> None:
    job = world.job(steps=16)
    directory = world.store.root / run_recipe(job).directory / "attempt=1"
    freeze(directory, job)
    with pytest.raises(JobError, match=r"JobError: steps: 16; .*64 slots"):
        launch_job(world.store, directory / "job.json", Launch())
    assert not list(directory.rglob("*.safetensors"))
    assert '"stopped": "failed"' in (directory / "report.json").read_text()
