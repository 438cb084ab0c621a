"""Tables of the catalog. Queries on them need no data files.

`TABLES` lists the tables of published artefacts, which are read from manifests, reports and jobs. Their
column `path` is the artefact's path in the workspace. By this path, the rows of unchanged artefacts are
reused and those of changed artefacts are replaced. `OPEN_TABLES` lists the tables of open runs, closed
gates and status, which are read again for each snapshot.
"""

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import pyarrow as pa
from pydantic import ValidationError

from curriculum import parquet
from curriculum.store import Artefact
from curriculum.store.attempt_state import state_of_attempt
from schemas import regular_files
from schemas.errors import StoreError
from schemas.job import METRICS_SCHEMA, Figure, Job, Report
from schemas.manifest import NUMBERS
from schemas.mixture import MixtureReport
from schemas.phase_status import STATUS_NAME, STATUS_SCHEMA, ClosedGate
from schemas.run_folders import ATTEMPT, STEP, number_of
from schemas.specialist import format_reference
from schemas.study import study_words
from schemas.whole_numbers import whole_number

JOB_NAME, REPORT_NAME = "job.json", "report.json"

Line = dict[str, Any]
"""Row of a table: values by column."""
Lines = dict[str, list[Line]]
"""Rows of several tables, by table."""

_TYPES: dict[str, pa.DataType] = {
    "": pa.string(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "int64": pa.int64(),
    "texts": pa.list_(pa.string()),
}


def _schema(columns: str) -> pa.Schema:
    """Return the schema of the listed columns. `phase step:int64` has a text column and an int64 column."""
    pairs = (column.partition(":") for column in columns.split())
    return pa.schema([pa.field(name, _TYPES[kind]) for name, _, kind in pairs])


_RUN = """
    path key specialist phase attempt:int64 ordinal:int64 state stopped reason created
    phase_bpb_before:double phase_bpb_after:double anchor_bpb_before:double anchor_bpb_after:double
    steps:int64 planned_steps:int64 positions:int64 valid_tokens:int64 scored_tokens:int64
    scored_bytes:int64 seconds:double tokens_per_second:double gpu_seconds:double gpu_price:double
    cost:double masked_mfu:double causal_mfu:double padded_positions:int64 mean_context:double
    attention_density:double masking_cost:double
    model device backend study tokens_per_step:int64 slots_per_step:int64 plan_key
    parent_run parent_run_key parent_attempt:int64 parent_step:int64 checkpoint
"""
TABLES: dict[str, pa.Schema] = {
    "artefacts": _schema("""
        path key stage family base repository corpus objective variant:int64 row_length:int64 packer score
        beside split specialist phase created num_bytes:int64 content schema_version revision:int64
        config report
    """),
    "inputs": _schema("path key stage name input_key input_content"),
    "files": _schema("path key file name num_bytes:int64 sha256 in_content:bool"),
    "runs": _schema(_RUN),
    "figures": _schema("""
        path key specialist run_phase attempt:int64 moment set phase family domain step:int64
        val_bpb:double low:double high:double scored_tokens:int64 scored_bytes:int64
        documents:int64 lineages:int64
        effective_documents:double effective_lineages:double is_sure:bool
    """),
    "mixtures": _schema("""
        path key slot_length:int64 slots:int64 rows:int64 tokens:int64 budget:int64
        tokens_per_step:int64 steps:int64 continued_run continued_step:int64 continued_tokens:int64
        left_out_rows:int64 left_out_tokens:int64
        scored_tokens:int64 distinct_tokens:int64 new_tokens:int64 token_repetition:double
        max_token_repetition:double warnings:texts
    """),
    "strata": _schema("""
        path key stratum:int64 serving:int64 family objective domain row_length:int64 rows_key
        rows:int64 rows_tokens:int64 share:double served:double slots:int64 drawn:int64
        drawn_before:int64 tokens:int64 repetition:double
    """),
}
"""Tables of published artefacts. The cache stores each table as one Parquet file."""
OPEN_TABLES: dict[str, pa.Schema] = {
    "open_runs": _schema(_RUN),
    # Metrics of trainers that write fewer columns are null in the other columns.
    "open_metrics": pa.schema(
        [*(field.with_nullable(True) for field in METRICS_SCHEMA), pa.field("path", pa.string())]
    ),
    "closed_gates": _schema("run content kind why cure"),
    "status": STATUS_SCHEMA,
}
"""Tables of open runs, closed gates and status, which are read again for each snapshot."""


def table_of(lines: Sequence[Line], schema: pa.Schema) -> pa.Table:
    """Convert rows to an Arrow table.

    If pandas is installed, pyarrow imports it to convert Python values to an array, which takes half a
    second. Therefore, empty tables, which are the most frequent ones, are created without an array.
    """
    if not lines:
        return pa.Table.from_batches([], schema=schema)
    return pa.Table.from_pylist(list(lines), schema=schema)


def lines_of(artefact: Artefact, path: str) -> Lines:
    """Return all rows about one artefact; `path` is its path in the workspace.

    If the report of a run or mixture can't be read, the artefact's inputs and files are still listed. A row
    in `problems` gives the reason.
    """
    manifest = artefact.manifest
    lines: Lines = {
        "artefacts": [_artefact(artefact)],
        "inputs": [
            {
                "stage": manifest.stage,
                "name": record.name,
                "input_key": record.key,
                "input_content": record.content,
            }
            for record in manifest.inputs
        ],
        "files": [{"file": f"{path}/{file.name}", **file.model_dump()} for file in manifest.files],
    }
    try:
        if manifest.stage == "runs":
            lines |= _run(artefact)
        if manifest.stage == "mixtures":
            lines |= _mixture(artefact.reported(MixtureReport))
    except ValidationError as invalid:
        lines["problems"] = [{"problem": f"no report that can be read: {_first_fault(invalid)}"}]
    for line in itertools.chain(*lines.values()):
        line |= {"path": path, "key": artefact.key}
    return lines


def _artefact(artefact: Artefact) -> Line:
    manifest = artefact.manifest
    numbers = {
        name: whole_number(manifest.labels[name]) for name in NUMBERS & manifest.labels.keys()
    }
    return {
        **manifest.labels,
        **numbers,
        "specialist": format_reference(
            (manifest.labels.get("specialist", ""), manifest.labels.get("branch"))
        )
        or None,
        "stage": manifest.stage,
        "created": manifest.created,
        "num_bytes": sum(record.num_bytes for record in manifest.files),
        "content": artefact.content,
        "schema_version": manifest.schema_version,
        "revision": manifest.revision,
        "config": json.dumps(manifest.config),
        "report": json.dumps(manifest.report),
    }


def _run(artefact: Artefact) -> Lines:
    """Return the row of a finished run and the rows of its measurements."""
    manifest, report = artefact.manifest, artefact.reported(Report)
    job, fault = _job_of(artefact.path)
    specialist = format_reference((report.specialist, manifest.labels.get("branch")))
    run = {
        "specialist": specialist,
        "phase": report.phase,
        "attempt": report.attempt,
        "ordinal": 0,
        "state": "finished",
        "created": manifest.created,
        "plan_key": next((record.key for record in manifest.inputs if record.name == "plan"), None),
        "stopped": report.stopped,
        "reason": report.reason,
        "phase_bpb_before": _mean_bpb(report, report.before, "phase"),
        "phase_bpb_after": _mean_bpb(report, report.after, "phase"),
        "anchor_bpb_before": _mean_bpb(report, report.before, "anchor"),
        "anchor_bpb_after": _mean_bpb(report, report.after, "anchor"),
        "steps": report.steps,
        "positions": report.tokens.positions,
        "valid_tokens": report.tokens.valid,
        "scored_tokens": report.tokens.scored,
        "scored_bytes": report.tokens.bytes,
        "masking_cost": report.masking_cost.ratio if report.masking_cost else None,
        **{name: getattr(report, name) for name in _MEASURED},
        **(_job_columns(job) if job else {}),
    }
    moments = {"before": report.before, "after": report.after, "during": report.history}
    about = {
        "specialist": specialist,
        "run_phase": report.phase,
        "attempt": report.attempt,
    }
    figures = [
        {**about, "moment": moment, **figure.model_dump(), "is_sure": figure.is_sure}
        for moment, figures in moments.items()
        for figure in figures
    ]
    return {"runs": [run], "figures": figures} | ({"problems": [fault]} if fault else {})


_MEASURED = (
    *("seconds", "tokens_per_second", "gpu_seconds", "cost", "masked_mfu", "causal_mfu"),
    *("padded_positions", "mean_context"),
    *("attention_density", "device", "backend", "checkpoint"),
)
"""Columns of a run that are also fields of its report."""


def _mean_bpb(
    report: Report, figures: Sequence[Figure], kind: Literal["phase", "anchor"]
) -> float | None:
    found = report.own_mean(figures, kind)
    return found.val_bpb if found else None


def _job_of(run: Path) -> tuple[Job | None, Line | None]:
    """Return a run's job, or the reason why it can't be read. Both are None if the run has no job."""
    try:
        return Job.model_validate_json(regular_files.read(run / JOB_NAME, follow_links=True)), None
    except FileNotFoundError:
        return None, None
    except (OSError, ValidationError) as refused:
        fault = _first_fault(refused) if isinstance(refused, ValidationError) else refused.strerror
        return None, {"problem": f"no job that can be read: {fault}"}


def _job_columns(job: Job) -> Line:
    """Return the columns of a run whose values depend on its job."""
    columns: Line = {
        "ordinal": job.ordinal,
        "planned_steps": job.steps,
        "tokens_per_step": job.tokens_per_step,
        "slots_per_step": job.tokens_per_step // max(row.row_length for row in job.rows),
        "gpu_price": job.gpu_price,
        "model": job.model.name,
        "study": study_words(job.study) or None,
        "plan_key": job.plan_key,
    }
    if job.start_from is None:
        return columns
    # runs/…/attempt=1/checkpoints/step=45
    checkpoint = PurePosixPath(job.start_from.path)
    run = checkpoint.parent.parent
    return columns | {
        "parent_run": str(run),
        "parent_run_key": job.start_from.run_key,
        "parent_attempt": number_of(run.name, ATTEMPT),
        "parent_step": number_of(checkpoint.name, STEP),
    }


def _mixture(report: MixtureReport) -> Lines:
    """Return the row of a mixture and the rows of its strata."""
    names = ("slot_length", "slots", "rows", "tokens", "budget", "tokens_per_step", "steps")
    continued, read, left_out = report.continued, report.repetition, report.left_out
    mixture = {
        **{name: getattr(report, name) for name in names},
        "continued_run": continued.run if continued else None,
        "continued_step": continued.step if continued else None,
        "continued_tokens": continued.tokens if continued else None,
        "left_out_rows": left_out.rows if left_out else 0,
        "left_out_tokens": left_out.tokens if left_out else 0,
        "scored_tokens": read.scored,
        "distinct_tokens": read.distinct,
        "new_tokens": read.new,
        "token_repetition": read.repetition,
        "max_token_repetition": read.limit,
        "warnings": list(report.warnings),
    }
    return {
        "mixtures": [mixture],
        "strata": [
            {
                **stratum.model_dump(exclude={"variants", "imported"}),
                "repetition": stratum.repetition,
            }
            for stratum in report.strata
        ],
    }


def open_run(home: Path, path: str, job: Job) -> Line:
    """Return the row of a run that isn't closed."""
    found = state_of_attempt(home, home / path, job)
    owner, beat = found.owner, found.beat
    return {
        "path": path,
        "key": job.run_key,
        "specialist": format_reference((job.specialist, job.branch)),
        "phase": job.phase,
        "attempt": job.attempt,
        "state": found.state,
        "stopped": found.stopped,
        "reason": found.why or None,
        "device": owner.device if owner and owner.device else job.device,
        "backend": owner.backend if owner and owner.backend else job.backend,
        **_job_columns(job),
        "steps": found.steps,
        "valid_tokens": found.valid_tokens,
        "tokens_per_second": beat.tokens_per_second if beat else None,
        "phase_bpb_after": beat.val_bpb if beat else None,
    }


GATES_FOLDER = "gates"


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTables:
    """Tables that are read again for each snapshot, and problems with unreadable parts."""

    tables: dict[str, pa.Table]
    problems: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of a path and the reason why it can't be read."""


def closed_gates(home: Path) -> OpenTables:
    """Return the table of closed gates. Gates that are removed at the same time are skipped."""
    lines: list[Line] = []
    problems: list[tuple[str, str]] = []
    folder = home / GATES_FOLDER
    for file in sorted(folder.glob("*.json")):
        try:
            text = regular_files.read(file, follow_links=True)
            lines.append(ClosedGate.model_validate_json(text).model_dump())
        except FileNotFoundError:
            continue  # The gate has just been approved.
        except ValidationError as invalid:
            problems.append((f"{GATES_FOLDER}/{file.name}", _first_fault(invalid)))
        except OSError as refused:
            problems.append((f"{GATES_FOLDER}/{file.name}", str(refused.strerror)))
    gates = table_of(lines, OPEN_TABLES["closed_gates"])
    return OpenTables(tables={"closed_gates": gates}, problems=problems)


def _first_fault(invalid: ValidationError) -> str:
    first = invalid.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"


STATUS_FILE = f"current/{STATUS_NAME}"


def written_status(home: Path) -> OpenTables:
    """Read the stored status of a workspace; the table is empty if none was stored yet."""
    empty = {"status": table_of([], STATUS_SCHEMA)}
    try:
        table = parquet.read_table(home / STATUS_FILE, columns=STATUS_SCHEMA.names)
        table = table.select(STATUS_SCHEMA.names)
        # Avoid a needless cast, which imports all of pyarrow.compute.
        same = table.schema.equals(STATUS_SCHEMA)
        return OpenTables(tables={"status": table if same else table.cast(STATUS_SCHEMA)})
    except FileNotFoundError:
        return OpenTables(tables=empty)
    except (OSError, StoreError, KeyError, ValueError, pa.ArrowException) as refused:
        return OpenTables(tables=empty, problems=[(STATUS_FILE, str(refused).partition("\n")[0])])


METRICS_NAME = "metrics"


def open_tables(home: Path, paths: Sequence[str]) -> OpenTables:
    """Return the tables of the open runs at `paths`.

    Files that a trainer removes at the same time are skipped.
    """
    lines: list[Line] = []
    problems: list[tuple[str, str]] = []
    metrics = [table_of([], OPEN_TABLES["open_metrics"])]
    for path in paths:
        job, fault = _job_of(home / path)
        if fault is not None:
            problems.append((path, fault["problem"]))
        if job is None:
            continue
        lines.append(open_run(home, path, job))
        for file in _metrics_files(home, path):
            try:
                metrics.append(_metrics(home / file, path))
            except (OSError, StoreError, pa.ArrowException) as broken:
                if (
                    home / file
                ).exists():  # A trainer that resumes from an earlier step removes later parts.
                    said = str(broken).partition("\n")[0]
                    problems.append((file, f"{said}: its lines are left out"))
    runs = table_of(lines, OPEN_TABLES["open_runs"])
    tables = {"open_runs": runs, "open_metrics": pa.concat_tables(metrics)}
    return OpenTables(tables=tables, problems=problems)


def _metrics_files(home: Path, path: str) -> Iterator[str]:
    """Yield the paths of a run's metrics files in the workspace."""
    for file in sorted((home / path / METRICS_NAME).glob("[0-9]*.parquet")):
        yield f"{path}/{METRICS_NAME}/{file.name}"


def _metrics(file: Path, path: str) -> pa.Table:
    """Read a metrics file of the run at `path`. Columns that the file doesn't have are null."""
    found = parquet.read_table(file)
    columns = [
        found[field.name].cast(field.type)
        if field.name in found.column_names
        else pa.nulls(len(found), field.type)
        for field in METRICS_SCHEMA
    ]
    columns.append(pa.repeat(path, len(found)))
    return pa.table(columns, schema=OPEN_TABLES["open_metrics"])
