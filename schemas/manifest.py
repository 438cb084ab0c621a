"""The manifest, which publishes a directory with its files, and the lease of a process on keys in use."""

from pathlib import Path

from pydantic import AwareDatetime, JsonValue

from schemas.corpus import Name
from schemas.errors import SchemaError
from schemas.job import RunState
from schemas.json_text import Sealed, read_json
from schemas.regular_files import PlainPath
from schemas.text import Strict


class Lease(RunState):
    """leases/<uuid>.json: its owner, and the keys that the owner found or makes."""

    begun: AwareDatetime
    heartbeat: AwareDatetime
    """UTC, by the owner's clock: file times may change when a workspace is copied."""
    keys: tuple[str, ...]


MANIFEST_NAME = "manifest.json"


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
        cure=f"Delete {file.parent} and build again",
    )
