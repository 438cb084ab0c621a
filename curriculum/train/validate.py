"""Checks before the first step: job, plan, rows, tokenizer and start checkpoint must match each other."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.packing.read import load_format
from curriculum.store import published
from curriculum.train.checkpoint_files import read_spec
from schemas.errors import JobError, SchemaError
from schemas.job import EvaluationStratum, Job, ModelSpec, RowsSource
from schemas.manifest import MANIFEST_NAME
from schemas.mixture import PLAN_SCHEMA
from schemas.structure import STRUCTURE_COLUMNS

_PLANNED = ["slot", "row_length", "rows_key", "shard", "row", "pack_id"]
_KEY_DIGITS = 12
_MIX_AGAIN = "Mix the phase again, and start a new run of it"


def require_fitting(job: Job, workspace: Path) -> None:
    """Raise unless the parts of a job match each other. Some columns of the whole plan are read.

    Raises:
        JobError: names the part that doesn't match, its value, and the cure.
        StoreError: for a link on the path to a part, and a file that isn't in the previous run's manifest.
    """
    _require_sizes(job)
    if job.start_from is not None:
        run = (workspace / job.start_from.path).parents[1]
        if (run / MANIFEST_NAME).is_file():
            published(run)
    _require_tokenizer(job, workspace)
    for rows in {source.path: source for source in _rows_of(job)}.values():
        _require_rows(rows, job, workspace)
    for stratum in (stratum for evaluation in job.evaluations for stratum in evaluation.strata):
        _require_measured(stratum, workspace)
    started = _require_checkpoint(job, workspace)
    _require_structure(job, workspace, started)
    _require_plan(job, workspace)


def _require_sizes(job: Job) -> None:
    if not job.rows:
        raise JobError("rows", cause="the job lists no rows", cure=_MIX_AGAIN)
    slot = job.slot_length
    if job.micro_positions < slot:
        raise JobError(
            "micro_positions",
            job.micro_positions,
            cause=f"a micro-batch must fit whole rows, and some have {slot} tokens",
            cure=f"Raise micro_positions to {slot} or more",
        )
    if job.tokens_per_step < slot or job.tokens_per_step % slot:
        raise JobError(
            "tokens_per_step",
            job.tokens_per_step,
            cause=f"a step consists of whole slots of {slot} positions",
            cure=f"Use a multiple of {slot}, such as {-(-job.tokens_per_step // slot) * slot}",
        )


def require_shared_rows(job: Job, processes: int) -> None:
    """Raise unless `processes` processes can share the job's rows, as many per row as context_parallel says.

    Raises:
        JobError: for another trainer, a context_parallel that doesn't divide processes or rows, or too
            short parts.
    """
    sharing = job.context_parallel
    if sharing == 1:
        return
    if job.trainer is not None:
        raise JobError(
            "context_parallel",
            sharing,
            cause="the diet names another trainer, and only our trainer can split rows",
            cure="Remove --context-parallel; if the other trainer can split rows, configure this in the "
            "diet's command",
        )
    if processes % sharing:
        raise JobError(
            "context_parallel",
            sharing,
            cause=f"the number of processes, {processes}, isn't a multiple of context_parallel",
            cure=f"Use --processes {-(-processes // sharing) * sharing}, or another --context-parallel",
        )
    for length in sorted({rows.row_length for rows in _rows_of(job)}):
        if length % sharing or length // sharing < job.model.conv_kernel:
            raise JobError(
                "context_parallel",
                sharing,
                cause=f"rows of {length} tokens can't be split into {sharing} equal parts of at least "
                f"{job.model.conv_kernel} tokens",
                cure="Use a --context-parallel that divides every row length",
            )


def _rows_of(job: Job) -> list[RowsSource]:
    """Return the rows on which a job trains, followed by the rows on which it is evaluated."""
    held_out = (stratum.rows for evaluation in job.evaluations for stratum in evaluation.strata)
    return [*job.rows, *held_out]


def _require_tokenizer(job: Job, workspace: Path) -> None:
    file = workspace / job.tokenizer.path / "token_bytes.parquet"
    if not file.is_file():
        raise JobError(str(file), cause="the tokenizer is missing", cure="Build the phase again")
    with parquet.File(file) as opened:
        found = opened.metadata.num_rows
    if found != job.tokenizer.vocab_size:
        raise _other_ids(
            str(file), f"{found} ids", f"the job's tokenizer has {job.tokenizer.vocab_size} ids"
        )
    if found > job.model.vocab_size:
        raise _other_ids(
            f"model {job.model.name}",
            f"{job.model.vocab_size} ids",
            f"the tokenizer has {found} ids, and the model must have at least as many",
        )


def _require_rows(rows: RowsSource, job: Job, workspace: Path) -> None:
    folder = workspace / rows.path
    files = parquet.shards_of(folder)
    if not files:
        raise JobError(
            str(folder),
            cause="the folder contains no rows, but the job reads it",
            cure="Build the phase again",
        )
    try:
        layout = load_format(files[0])
    except SchemaError as broken:
        raise JobError(str(files[0]), broken.value, cause=broken.cause, cure=broken.cure) from None
    if layout.row_length != rows.row_length:
        raise JobError(
            str(folder),
            f"rows of {layout.row_length} tokens",
            cause=f"the job expects rows of {rows.row_length} tokens",
            cure=_MIX_AGAIN,
        )
    if layout.vocab_size != job.tokenizer.vocab_size:
        raise _other_ids(
            str(folder),
            f"rows of {layout.vocab_size} ids",
            f"the job's tokenizer has {job.tokenizer.vocab_size} ids",
        )


def _require_measured(stratum: EvaluationStratum, workspace: Path) -> None:
    """Raise unless all rows exist that a stratum names."""
    folder = workspace / stratum.rows.path
    count = sum(_sizes(folder))
    if not stratum.measured or stratum.measured[-1] >= count:
        raise JobError(
            f"evaluation of {stratum.family}, {stratum.domain}",
            f"row {stratum.measured[-1]:,}" if stratum.measured else "no rows",
            cause=f"{folder} has {count:,} rows",
            cure=_MIX_AGAIN,
        )


def _require_checkpoint(job: Job, workspace: Path) -> ModelSpec | None:
    """Return the model of the start checkpoint. None if there is none, or if another trainer wrote it."""
    if job.start_from is None:
        return None
    path = workspace / job.start_from.path
    if not (path / MANIFEST_NAME).is_file():
        raise JobError(
            "start_from",
            path,
            cause="the checkpoint is missing or incomplete",
            cure="Train the previous phase again",
        )
    if job.trainer is not None:
        return None
    there = read_spec(path)
    # Weights fit only if these fields are equal; structure weights may be added.
    same = {"name"} | ({"structure"} if job.model.structure else set())
    differing = [
        name
        for name in ModelSpec.model_fields
        if name not in same and getattr(job.model, name) != getattr(there, name)
    ]
    if differing:
        raise JobError(
            f"model {job.model.name}",
            ", ".join(f"{name} {getattr(job.model, name)}" for name in differing),
            cause=f"the checkpoint {path} has "
            + ", ".join(f"{name} {getattr(there, name)}" for name in differing),
            cure="Use the same model and tokenizer in all phases of a specialist",
        )
    return there


def _require_structure(job: Job, workspace: Path, started: ModelSpec | None) -> None:
    wanted = [field.name for field in STRUCTURE_COLUMNS]
    any_has = False
    for rows in job.rows:
        file = parquet.shards_of(workspace / rows.path)[0]
        there = set(parquet.read_schema(file).names)
        lacking = [name for name in wanted if name not in there]
        any_has |= not lacking
        if job.model.structure and 0 < len(lacking) < len(wanted):
            raise JobError(
                str(file),
                ", ".join(lacking),
                cause="the file lacks some structure columns, and the model reads all of them",
                cure="Build the rows again, or remove all structure columns",
            )
    attached = started is not None and started.structure
    if job.model.structure and not any_has and not attached and job.trainer is None:
        raise JobError(
            f"model {job.model.name}",
            "structure: true",
            cause="neither the rows of the mixture nor those of earlier phases have structure columns",
            cure="Serve v6_enriched in this phase, or set structure_inputs: false in the diet",
        )


def _require_plan(job: Job, workspace: Path) -> None:
    file = workspace / job.plan
    if not file.is_file():
        raise JobError("plan", file, cause="the plan doesn't exist", cure="Mix the phase again")
    plan = parquet.File(file, read_dictionary=["rows_key"])
    for name in _PLANNED:
        if name not in plan.schema_arrow.names:
            raise JobError(
                "plan",
                f"column {name}",
                cause=f"{file} lacks this column; a plan has {', '.join(PLAN_SCHEMA.names)}",
                cure="Mix the phase again",
            )
    sources = {rows.key: rows for rows in job.rows}
    sizes = {key: _sizes(workspace / rows.path) for key, rows in sources.items()}
    wanted = job.steps * job.slots_per_step
    slots = 0
    for group in range(plan.num_row_groups):
        table = plan.read_row_group(group, columns=_PLANNED, use_threads=False)
        for used in _used(table):
            _require_source(used, sources, sizes)
        slots = pc.max(table["slot"]).as_py() + 1 if len(table) else slots
        if slots >= wanted:
            return
    raise JobError(
        "steps",
        job.steps,
        cause=f"the steps need {wanted} slots of {job.slot_length} positions, and the plan has {slots}",
        cure=_MIX_AGAIN,
    )


def _used(table: pa.Table) -> Iterator[dict[str, object]]:
    """Yield for each shard in a part of the plan: the highest row number, the row lengths, one pack_id."""
    plain = table.set_column(2, "rows_key", pc.cast(table["rows_key"], pa.string()))
    grouped = plain.group_by(["rows_key", "shard"], use_threads=False).aggregate(
        [("row", "max"), ("row_length", "min"), ("row_length", "max"), ("pack_id", "min")]
    )
    yield from grouped.to_pylist()


def _require_source(
    used: dict[str, object], sources: dict[str, RowsSource], sizes: Mapping[str, Sequence[int]]
) -> None:
    key, shard, row = str(used["rows_key"]), int(str(used["shard"])), int(str(used["row_max"]))
    source = sources.get(key)
    if source is None:
        raise JobError(
            "plan",
            f"rows {key[:_KEY_DIGITS]}",
            cause="the job doesn't list these rows, so job and plan don't match",
            cure=_MIX_AGAIN,
        )
    lengths = {used["row_length_min"], used["row_length_max"]}
    if lengths != {source.row_length}:
        raise JobError(
            "plan",
            f"rows of {' and '.join(sorted(map(str, lengths)))} tokens in {source.path}",
            cause=f"the job expects rows of {source.row_length} tokens",
            cure=_MIX_AGAIN,
        )
    there = sizes[key]
    is_of_key = str(used["pack_id_min"]).rpartition("-")[0] == key[:_KEY_DIGITS]
    if shard >= len(there) or row >= there[shard] or not is_of_key:
        rows = f"has {there[shard]} rows" if shard < len(there) else "doesn't exist"
        raise JobError(
            "plan",
            f"rows up to {row} of shard {shard} in {source.path}, such as {used['pack_id_min']}",
            cause=f"the shard {rows}, or its rows are others: plan and rows don't match",
            cure=_MIX_AGAIN,
        )


def _sizes(folder: Path) -> list[int]:
    return [parquet.read_metadata(file).num_rows for file in parquet.shards_of(folder)]


def _other_ids(name: str, value: str, cause: str) -> JobError:
    return JobError(
        name,
        value,
        cause=cause,
        cure="Build, mix and train all phases of a specialist with the same tokenizer",
    )
