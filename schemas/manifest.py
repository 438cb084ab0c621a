"""The manifest: what publishes a directory, and says what it was made from and what it is."""

from pydantic import JsonValue, ValidationError

from schemas.document import SCHEMA_VERSION
from schemas.errors import SchemaError
from schemas.text import Strict

MANIFEST_NAME = "manifest.json"


class InputRecord(Strict):
    """An input of an artefact: its role, and the key and content it had."""

    name: str
    key: str
    content: str


class FileRecord(Strict):
    """A file of an artefact, by its path inside the directory."""

    name: str
    sha256: str
    num_bytes: int
    in_content: bool = True
    """Whether the artefact's content counts it; a run's log and clock are kept, but aren't what it is."""


class Manifest(Strict):
    """Everything that is known of one artefact; written last, so that no reader sees half of one."""

    schema_version: str = SCHEMA_VERSION
    stage: str
    labels: dict[str, str]
    """family=…, repository=…: where it lies; never part of the key."""
    key: str
    content: str
    revision: int
    config: dict[str, JsonValue]
    inputs: tuple[InputRecord, ...]
    tools: dict[str, str]
    files: tuple[FileRecord, ...]
    report: dict[str, JsonValue]
    """What the stage counted: documents, tokens, skips by reason, yield …"""
    created: str
    """UTC, ISO 8601."""


def read_manifest(text: str, *, file: str) -> Manifest:
    """The manifest in `text`; a file of another major version is refused by name.

    Raises:
        SchemaError: for broken JSON, unknown fields or another major version.
    """
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as broken:
        first = broken.errors(include_url=False)[0]
        raise SchemaError(
            file,
            f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}",
            cause="the manifest is damaged or was written by another version",
            cure="Delete the artefact's directory and build it again",
        ) from None
    major = manifest.schema_version.partition(".")[0]
    if major != SCHEMA_VERSION.partition(".")[0]:
        raise SchemaError(
            file,
            f"schema_version {manifest.schema_version}",
            cause=f"this version reads {SCHEMA_VERSION.partition('.')[0]}.x",
            cure="Use the version that wrote it, or build the artefact again",
        )
    return manifest
