"""JSON files beside what they describe: manifest.json, the lease on keys in use, and the record of an export.

A manifest publishes its directory. The record of an export lies beside tokens that were written for other
tools, so that they come back as they were.
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
    """leases/<uuid>.json: its owner, and the keys that the owner found or makes."""

    begun: AwareDatetime
    heartbeat: AwareDatetime
    """UTC, by the owner's clock: file times may change when a workspace is copied."""
    keys: tuple[str, ...]


MANIFEST_NAME = "manifest.json"
NUMBERS = frozenset(("row_length", "variant"))
"""Labels whose values are whole numbers."""


class InputRecord(Strict):
    """An input of an artefact: its role, and the key and content it had."""

    name: str
    key: str
    content: str


class FileRecord(Strict):
    """A file of an artefact, by its path inside the directory."""

    name: PlainPath
    sha256: str
    num_bytes: int
    in_content: bool = True
    """True if the artefact's content counts it; a run's log and clock are kept, but aren't what it is."""
    footer: str | None = None
    """sha256 of a Parquet file's footer; with checksums of pages it makes a part of the file sure."""


class Manifest(Sealed):
    """Everything that is known of one artefact; written last, so that no reader sees half of one."""

    stage: Name
    labels: dict[Name, Name]
    """family=…, repository=…: where it lies; never part of the key."""
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
    """UTC, ISO 8601."""

    @field_validator("labels")
    @classmethod
    def _numbers(cls, labels: dict[str, str]) -> dict[str, str]:
        """Refuse a label that names a number and is none."""
        for name in NUMBERS & labels.keys():
            if whole_number(labels[name]) is None:
                raise ValueError(f"{name} is no whole number")
        return labels


def read_manifest(file: Path) -> Manifest:
    """The manifest in a file; one of another major version, or changed since it was written, is refused.

    Raises:
        SchemaError: naming the file.
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
    """export.json: of what tokens were written, and what must lie beside it."""

    format: TokenFormat
    stage: Made
    """Stage of the artefact that was written."""
    key: str
    content: str
    labels: dict[str, str]
    vocab_size: int
    pad_id: int
    bos_id: int | None
    eos_id: int | None
    dtype: Literal["uint16", "uint32", "int32"]
    """Dtype of the ids, as numpy names it."""
    tokens: int
    documents: int
    rows: int | None
    """None where no rows are kept: documents that aren't packed."""
    row_lengths: tuple[Annotated[int, Field(ge=1, le=MAX_ROW_LENGTH)], ...]
    steps: int | None = None
    """Steps of a mixture, all of which are written."""
    columns: tuple[Annotated[str, Field(pattern=r"^[a-z_]{1,50}$")], ...]
    """A value a token, each in `<column>.bin` as uint8."""
    files: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")], int]
    """Bytes of every file."""


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
"""rows.parquet: one row a packed row, in the order of the tokens; which are whose follows from the counts."""
BESIDE_STRUCTURE = (
    required("chunk_boundaries", list_of(ROW_CHUNK_TYPE)),
    required("call_edges", list_of(STRUCTURE_EDGE_TYPE)),
    required("type_edges", list_of(STRUCTURE_EDGE_TYPE)),
)
"""Columns beside these where rows have structure."""
