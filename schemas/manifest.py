"""Manifests, leases and export records: JSON files that describe artefacts.

A manifest publishes its directory. An export record describes tokens that were exported for other tools, so
that they can be imported again unchanged.
"""

from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AwareDatetime, Field, JsonValue, field_validator

from schemas.corpus import Name
from schemas.cures import cure_of
from schemas.document import SCHEMA_VERSION, list_of, required
from schemas.errors import SchemaError
from schemas.job import RunState
from schemas.json_text import Sealed, Versioned, read_json
from schemas.packed_row import MAX_ROW_LENGTH, PACKED_ROW_SCHEMA
from schemas.regular_files import PlainPath
from schemas.structure import ROW_CHUNK_TYPE, STRUCTURE_EDGE_TYPE
from schemas.text import Strict
from schemas.whole_numbers import whole_number


class Lease(RunState):
    """leases/<uuid>.json: a process, and the keys of the artefacts that it uses or builds."""

    begun: AwareDatetime
    heartbeat: AwareDatetime
    """UTC time by the clock of the owner. Times of files may change when a workspace is copied."""
    keys: tuple[str, ...]


MANIFEST_NAME = "manifest.json"
NUMBERS = frozenset(("row_length", "variant"))
"""Labels whose values are integers."""


class InputRecord(Strict):
    """An input of an artefact: its role, key and content."""

    name: str
    key: str
    content: str


class FileRecord(Strict):
    """A file of an artefact. Its path is relative to the artefact's directory."""

    name: PlainPath
    sha256: str
    num_bytes: int
    in_content: bool = True
    """True if the artefact's content depends on the file. It doesn't depend on logs and timings of a run."""
    footer: str | None = None
    """sha256 of the footer of a Parquet file. With the checksums of pages, it verifies parts of the file."""


class Manifest(Sealed):
    """Description of an artefact. It is written last, so that readers never see an incomplete artefact."""

    stage: Name
    labels: dict[Name, Name]
    """family=…, repository=… and others. They determine the artefact's path, but never its key."""
    key: str
    content: str
    revision: int
    config: dict[str, JsonValue]
    inputs: tuple[InputRecord, ...]
    tools: dict[str, str]
    files: tuple[FileRecord, ...]
    report: dict[str, JsonValue]
    """Counts of the stage: documents, tokens, skips by reason, yield …"""
    created: str
    """UTC time in ISO 8601."""

    @field_validator("labels")
    @classmethod
    def _numbers(cls, labels: dict[str, str]) -> dict[str, str]:
        """Raise if the value of a label in NUMBERS isn't an integer."""
        for name in NUMBERS & labels.keys():
            if whole_number(labels[name]) is None:
                raise ValueError(f"the label {name} must be a whole number")
        return labels


def read_manifest(file: Path) -> Manifest:
    """Return the manifest in a file.

    Raises:
        SchemaError: if the manifest is damaged or has another major version; names the file.
    """
    return read_json(
        Manifest,
        file,
        error=SchemaError,
        cause="the manifest is damaged or was written by another version",
        cure=cure_of(file),
    )


RECORD_NAME = "export.json"
BESIDE_NAME = "rows.parquet"
Made = Literal["rows", "mixtures", "tokens"]
TokenFormat = Literal["megatron", "flat"]


class ExportRecord(Versioned):
    """export.json: where exported tokens come from, and the files next to it."""

    format: TokenFormat
    stage: Made
    """Stage of the artefact that was exported."""
    key: str
    content: str
    labels: dict[str, str]
    vocab_size: int
    pad_id: int
    bos_id: int | None
    eos_id: int | None
    dtype: Literal["uint16", "uint32", "int32"]
    """numpy dtype of the ids."""
    tokens: int
    documents: int
    rows: int | None
    """Number of packed rows; None for documents that aren't packed."""
    row_lengths: tuple[Annotated[int, Field(ge=1, le=MAX_ROW_LENGTH)], ...]
    steps: int | None = None
    """Number of steps of a mixture, all of which are exported."""
    columns: tuple[Annotated[str, Field(pattern=r"^[a-z_]{1,50}$")], ...]
    """Columns with one value per token. Each is stored in a file `<column>.bin` as uint8."""
    files: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")], int]
    """Size of every file in bytes."""


BESIDE_SCHEMA = pa.schema(
    [
        required("row_length", pa.int32()),
        *(
            PACKED_ROW_SCHEMA.field(name)
            for name in (
                *("pack_id", "valid_token_count", "num_docs", "family", "objective", "variant"),
                *("domain", "split", "document_ids", "pieces"),
            )
        ),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""rows.parquet of an export: one row per packed row, in the order of the tokens. The counts say which tokens
belong to a row.
"""
BESIDE_STRUCTURE = (
    required("chunk_boundaries", list_of(ROW_CHUNK_TYPE)),
    required("call_edges", list_of(STRUCTURE_EDGE_TYPE)),
    required("type_edges", list_of(STRUCTURE_EDGE_TYPE)),
)
"""Additional columns for rows with structure."""
