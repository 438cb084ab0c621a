"""Questions to a workspace: DuckDB views over the artefacts that stand.

A catalog is a snapshot: its views read the files that the manifests listed when it was opened, so a
build that goes on meanwhile can neither break nor change an answer. Token lists are scanned only where
a question names them.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import duckdb
import pyarrow as pa

from curriculum.store import Artefact, Store, garbage
from schemas.document import DOCUMENT_SCHEMA, SELECTION_SCHEMA
from schemas.errors import CurriculumError
from schemas.job import METRICS_SCHEMA, Figure, Report
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import PACKED_ROW_SCHEMA

REPORT_NAME = "report.json"

View = Literal[
    "documents",
    "selection",
    "rejected",
    "rows",
    "pieces",
    "mixtures",
    "mixture_rows",
    "runs",
    "figures",
    "metrics",
    "artefacts",
]
VIEWS: tuple[View, ...] = get_args(View)
MEANINGS: dict[View, str] = {
    "documents": "every document with its text, parts and provenance",
    "selection": "what of them is kept, on which side of the split, in which domain by which rule",
    "rejected": "what isn't kept, with the rule and the evidence",
    "rows": "packed rows; token lists cost time, the counts beside them don't",
    "pieces": "which tokens of a row encode which bytes of which document",
    "mixtures": "mixture plans, one line a plan, with what the mix counted",
    "mixture_rows": "the plans row by row, in training order",
    "runs": "closed training runs with val_bpb before and after",
    "figures": "every val_bpb that a run measured, by phase, family, domain and step",
    "metrics": "a line a training step: loss, gradient norm, rate, speed, context",
    "artefacts": "everything that was published, and whether gc would keep it",
}


_TYPES: dict[str, pa.DataType] = {
    "": pa.string(),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "int64": pa.int64(),
}


def _schema(columns: str) -> pa.Schema:
    """Columns by name, text unless a type follows: `phase step:int64`."""
    pairs = (column.partition(":") for column in columns.split())
    return pa.schema([pa.field(name, _TYPES[kind]) for name, _, kind in pairs])


_ARTEFACTS = _schema("""
    key stage family base repository corpus objective row_length:int64 split specialist branch phase
    current:bool created num_bytes:int64 path content config report
""")
_FILES = _schema("file key")
_RUNS = _schema("""
    key specialist branch phase attempt:int64 stopped reason
    phase_bpb_before:double phase_bpb_after:double anchor_bpb_before:double anchor_bpb_after:double
    steps:int64 positions:int64 valid_tokens:int64 scored_tokens:int64
    seconds:double tokens_per_second:double gpu_seconds:double cost:double masked_mfu:double
    mean_context:double attention_density:double masking_cost:double device backend checkpoint path
""")
_FIGURES = _schema("""
    key specialist run_phase attempt:int64 moment kind phase family domain step:int64
    val_bpb:double low:double high:double scored_tokens:int64 scored_bytes:int64
""")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Source:
    """A view over Parquet: the files of a stage whose names begin with `prefix`."""

    view: View
    stage: str
    prefix: str
    schema: pa.Schema
    labels: tuple[str, ...]
    key: str


_SOURCES = (
    _Source(
        view="documents",
        stage="documents",
        prefix="part-",
        schema=DOCUMENT_SCHEMA,
        labels=("repository", "base"),
        key="documents_key",
    ),
    _Source(
        view="selection",
        stage="selections",
        prefix="selection",
        schema=SELECTION_SCHEMA,
        labels=("corpus",),
        key="selection_key",
    ),
    _Source(
        view="rows",
        stage="rows",
        prefix="part-",
        schema=PACKED_ROW_SCHEMA,
        labels=("row_length", "base"),
        key="rows_key",
    ),
    _Source(
        view="mixture_rows",
        stage="mixtures",
        prefix="plan",
        schema=PLAN_SCHEMA,
        labels=("specialist", "branch", "phase"),
        key="mixture_key",
    ),
    _Source(
        view="metrics",
        stage="runs",
        prefix="metrics/",
        schema=METRICS_SCHEMA,
        labels=("specialist", "branch", "phase"),
        key="run_key",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a question gave: column names, and rows of plain Python values."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def open_catalog(root: Path | str | None = None) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with the views of a workspace, by default of $CURRICULUM_HOME.

    An empty workspace gives empty views with the right columns.

    Raises:
        StoreError: for an artefact that isn't what its manifest says.
    """
    home = Path(root or os.environ.get("CURRICULUM_HOME", "workspace"))
    store = Store(home, dry=True)
    artefacts = list(store.artefacts())
    dead = {artefact.path for artefact in garbage(store)}
    live = [artefact for artefact in artefacts if artefact.path not in dead]
    connection = duckdb.connect()
    _tables(connection, artefacts, dead)
    _views(connection, live)
    for view in VIEWS:
        kind = "TABLE" if view in ("artefacts", "runs", "figures") else "VIEW"
        connection.execute(f"COMMENT ON {kind} {view} IS {_quoted(MEANINGS[view])}")
    return connection


def query(root: Path, sql: str) -> Answer:
    """The answer to one SELECT (or SHOW, DESCRIBE) that can read the workspace and write nothing.

    Raises:
        CatalogError: for anything else than one SELECT, or one that DuckDB refuses.
    """
    connection = open_catalog(root)
    connection.execute(f"SET allowed_directories = [{_quoted(f'{root.absolute()}/')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    try:
        statements = connection.extract_statements(sql)
        if [statement.type.name for statement in statements] != ["SELECT"]:
            raise CatalogError(
                sql, cause="a question is exactly one SELECT", cure=f"Views: {', '.join(VIEWS)}"
            )
        # A COPY hidden in a WITH is a SELECT too; below top level DuckDB refuses it.
        asked = connection.execute(
            f"SELECT * FROM (\n{statements[0].query.rstrip().rstrip(';')}\n)"
        )
        columns = tuple(str(column[0]) for column in asked.description or ())
        return Answer(columns=columns, rows=asked.fetchall())
    except duckdb.Error as refused:
        message, _, hint = str(refused).partition("\n")
        raise CatalogError(sql, message, cause="DuckDB refuses it", cure=_cure(hint)) from None
    finally:
        connection.close()


class CatalogError(CurriculumError):
    """A question that the catalog can't answer."""


def _cure(hint: str) -> str:
    near = next((line for line in hint.splitlines() if "Did you mean" in line), "")
    return near.strip() or f"Views: {', '.join(VIEWS)}; DESCRIBE one to see its columns"


def _tables(
    connection: duckdb.DuckDBPyConnection, artefacts: list[Artefact], dead: set[Path]
) -> None:
    """What the manifests and reports say, as tables."""
    listed = [_artefact(each, current=each.path not in dead) for each in artefacts]
    reports = [(each, _report(each)) for each in artefacts if each.manifest.stage == "runs"]
    files = [
        {"file": str(file), "key": each.key}
        for each in artefacts
        for file in each.files(".parquet")
    ]
    connection.execute("CREATE SCHEMA internal")
    _table(connection, "internal.files", files, _FILES)
    _table(connection, "artefacts", listed, _ARTEFACTS)
    _table(connection, "runs", [_run(each, report) for each, report in reports], _RUNS)
    figures = [line for each, report in reports for line in _figures(each, report)]
    _table(connection, "figures", figures, _FIGURES)


def _views(connection: duckdb.DuckDBPyConnection, live: list[Artefact]) -> None:
    """What lies in Parquet, as views over explicit lists of files."""
    for source in _SOURCES:
        files = [
            file
            for artefact in live
            if artefact.manifest.stage == source.stage
            for file in artefact.files(".parquet")
            if file.relative_to(artefact.path).as_posix().startswith(source.prefix)
        ]
        _view(connection, source, files)
    connection.execute("CREATE VIEW rejected AS SELECT * FROM selection WHERE NOT keep")
    connection.execute(_PIECES)
    connection.execute(_MIXTURES)


_PIECES = """
CREATE VIEW pieces AS
SELECT pack_id, family, objective, domain, split, doc, document_ids[doc + 1] AS document_id,
       CASE kind WHEN 0 THEN 'text' ELSE 'generated' END AS kind,
       token_start, token_end, byte_start, byte_end
FROM (SELECT pack_id, family, objective, domain, split, document_ids,
             unnest(pieces, recursive := true) FROM rows)
"""
_MIXTURES = """
CREATE VIEW mixtures AS
SELECT key, specialist, branch, phase, current, created, path, report
FROM artefacts WHERE stage = 'mixtures'
"""


def _view(connection: duckdb.DuckDBPyConnection, source: _Source, files: list[Path]) -> None:
    """One view; the key and the labels that its files don't hold come from their artefact."""
    if files:
        listed = ", ".join(_quoted(str(file)) for file in files)
        options = "filename = 'file', union_by_name = true, hive_partitioning = false"
        read = f"read_parquet([{listed}], {options})"
    else:
        read = f"internal.no_{source.view}"
        _table(connection, read, [], source.schema.append(pa.field("file", pa.string())))
    added = "".join(f"a.{label}, " for label in source.labels)
    connection.execute(
        f"CREATE VIEW {source.view} AS SELECT d.* EXCLUDE (file), {added}a.key AS {source.key} "
        f"FROM {read} d JOIN internal.files f ON f.file = d.file JOIN artefacts a ON a.key = f.key"
    )


def _table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    lines: list[dict[str, Any]],
    schema: pa.Schema,
) -> None:
    connection.register("incoming", pa.Table.from_pylist(lines, schema=schema))
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
    connection.unregister("incoming")


def _artefact(artefact: Artefact, *, current: bool) -> dict[str, Any]:
    manifest = artefact.manifest
    length = manifest.labels.get("row_length")
    return {
        **manifest.labels,
        "row_length": int(length) if length else None,
        "key": artefact.key,
        "stage": manifest.stage,
        "current": current,
        "created": manifest.created,
        "num_bytes": sum(record.num_bytes for record in manifest.files),
        "path": str(artefact.path),
        "content": artefact.content,
        "config": json.dumps(manifest.config),
        "report": json.dumps(manifest.report),
    }


def _report(artefact: Artefact) -> Report:
    return Report.model_validate_json((artefact.path / REPORT_NAME).read_text())


def _run(artefact: Artefact, report: Report) -> dict[str, Any]:
    return {
        "key": artefact.key,
        "specialist": report.specialist,
        "branch": artefact.manifest.labels.get("branch"),
        "phase": report.phase,
        "attempt": report.attempt,
        "stopped": report.stopped,
        "reason": report.reason,
        "phase_bpb_before": _mean(report.before, "phase"),
        "phase_bpb_after": _mean(report.after, "phase"),
        "anchor_bpb_before": _mean(report.before, "anchor"),
        "anchor_bpb_after": _mean(report.after, "anchor"),
        "steps": report.steps,
        "positions": report.tokens.positions,
        "valid_tokens": report.tokens.valid,
        "scored_tokens": report.tokens.scored,
        "seconds": report.seconds,
        "tokens_per_second": report.tokens_per_second,
        "gpu_seconds": report.gpu_seconds,
        "cost": report.cost,
        "masked_mfu": report.masked_mfu,
        "mean_context": report.mean_context,
        "attention_density": report.attention_density,
        "masking_cost": report.masking_cost.ratio if report.masking_cost else None,
        "device": report.device,
        "backend": report.backend,
        "checkpoint": report.checkpoint,
        "path": str(artefact.path),
    }


def _mean(figures: Iterable[Figure], kind: Literal["phase", "anchor"]) -> float | None:
    """The weighted mean of the anchor, or of the phase that came last."""
    means = [each.val_bpb for each in figures if (each.kind, each.family) == (kind, "*")]
    return means[-1] if means else None


def _figures(artefact: Artefact, report: Report) -> Iterator[dict[str, Any]]:
    moments = (("before", report.before), ("after", report.after), ("during", report.history))
    for moment, figures in moments:
        for figure in figures:
            yield {
                "key": artefact.key,
                "specialist": report.specialist,
                "run_phase": report.phase,
                "attempt": report.attempt,
                "moment": moment,
                **figure.model_dump(),
            }


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
