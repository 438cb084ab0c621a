"""The registry of stages: the folders of artefacts in a workspace, and their contents.

The code that builds them is in curriculum.stages, curriculum.mixing and curriculum.train.
"""

from dataclasses import dataclass

import pyarrow as pa
from pydantic import BaseModel

from schemas.ablation import ABLATION_SCHEMA, ARMS_SCHEMA
from schemas.document import (
    KEPT_SCHEMA,
    PARQUET_ENDINGS,
    PARTS,
    SELECTION_SCHEMA,
    TOKEN_PARTS_SCHEMA,
)
from schemas.job import EVALUATED_SCHEMA, METRICS_SCHEMA, Report
from schemas.mixture import LEFT_OUT_SCHEMA, PLAN_SCHEMA, MixtureReport
from schemas.packed_row import PACKED_ROW_SCHEMA, TOKEN_COLUMNS
from schemas.registry import Registry
from schemas.reports import (
    AblationReport,
    DocumentsReport,
    EstimateReport,
    IndexReport,
    MeasurementReport,
    RowsReport,
    SelectionReport,
    SurveyReport,
    TokenizerReport,
    TokensReport,
)
from schemas.structure import ENRICHED_SCHEMA, STRUCTURE_COLUMNS, STRUCTURE_TOKENS
from schemas.windows import WINDOWS_NAME, WINDOWS_SCHEMA


@dataclass(frozen=True, kw_only=True, slots=True)
class DataTable:
    """Parquet files of an artefact that an SQL view reads: all files whose names start with `prefix`."""

    name: str
    prefix: str
    schema: pa.Schema
    """Columns of the table. A column that a file of an earlier minor version lacks is null."""
    token_lists: tuple[str, ...] = ()
    """Columns with one value per token, most of a file's bytes. Views read them without verification."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StageSpec:
    """A kind of artefact. Its name is the name of the folder in the workspace."""

    name: str
    holds: str
    """Description of an artefact's content."""
    report: type[BaseModel]
    """Model of the counts in the manifest."""
    tables: tuple[DataTable, ...] = ()


STAGES: Registry[StageSpec] = Registry(
    [
        StageSpec(
            name="documents",
            holds="documents of one family of one repository, with their provenance",
            report=DocumentsReport,
            tables=(DataTable(name="documents", prefix=PARTS, schema=ENRICHED_SCHEMA),),
        ),
        StageSpec(
            name="indexes",
            holds="facts of a compiler frontend about one repository at its pinned commit",
            report=IndexReport,
        ),
        StageSpec(
            name="selections",
            holds="the documents that are kept, with their side of the split and their domain",
            report=SelectionReport,
            tables=(
                DataTable(name="selection", prefix="selection.", schema=SELECTION_SCHEMA),
                DataTable(name="kept", prefix="kept.", schema=KEPT_SCHEMA),
            ),
        ),
        StageSpec(
            name="rows",
            holds="packed rows of one family, objective, row length and side of the split",
            report=RowsReport,
            tables=(
                DataTable(
                    name="rows",
                    prefix=PARTS,
                    schema=pa.schema([*PACKED_ROW_SCHEMA, *STRUCTURE_COLUMNS]),
                    token_lists=(*TOKEN_COLUMNS, *STRUCTURE_TOKENS),
                ),
                DataTable(name="windows", prefix=WINDOWS_NAME, schema=WINDOWS_SCHEMA),
            ),
        ),
        StageSpec(
            name="mixtures",
            holds="the rows that a diet's phase selects, in training order",
            report=MixtureReport,
            tables=(
                DataTable(name="plan", prefix="plan.", schema=PLAN_SCHEMA),
                DataTable(name="left_out", prefix="left_out.", schema=LEFT_OUT_SCHEMA),
            ),
        ),
        StageSpec(
            name="runs",
            holds="one training run of a phase: job, metrics, evaluations, checkpoints and report",
            report=Report,
            tables=(
                DataTable(name="metrics", prefix="metrics/", schema=METRICS_SCHEMA),
                DataTable(name="evaluations", prefix="evaluations/", schema=EVALUATED_SCHEMA),
            ),
        ),
        StageSpec(
            name="measurements",
            holds="held-out documents in one format, measured by a finished run's last checkpoint",
            report=MeasurementReport,
        ),
        StageSpec(
            name="ablations",
            holds="arms that were trained with the same seeds, and verdicts on claims about them",
            report=AblationReport,
            tables=(
                DataTable(name="claims", prefix="claims.", schema=ABLATION_SCHEMA),
                DataTable(name="arms", prefix="arms.", schema=ARMS_SCHEMA),
            ),
        ),
        StageSpec(
            name="tokenizers",
            holds="a tokenizer, trained on the corpus or given",
            report=TokenizerReport,
        ),
        StageSpec(
            name="tokens",
            holds="the ids of an artefact of documents, each document encoded once",
            report=TokensReport,
            tables=(DataTable(name="token_parts", prefix="parts.", schema=TOKEN_PARTS_SCHEMA),),
        ),
        StageSpec(
            name="estimates",
            holds="about what a corpus has of one kind of rows, from a sample",
            report=EstimateReport,
        ),
        StageSpec(
            name="surveys",
            holds="the commits of one repository, sampled for an estimate of supply",
            report=SurveyReport,
        ),
    ]
)
DATA_TABLES: tuple[DataTable, ...] = tuple(
    table for stage in STAGES.values() for table in stage.tables
)


def data_table_of(stage: str, file: str) -> DataTable | None:
    """Return the table that a file of an artefact belongs to, or None.

    >>> data_table_of("rows", "data/part-00000.parquet").name, data_table_of("rows", "manifest.json")
    ('rows', None)
    """
    if stage not in STAGES or not file.endswith(PARQUET_ENDINGS):
        return None
    return next((table for table in STAGES[stage].tables if file.startswith(table.prefix)), None)
