"""Files of a checkpoint, and their comparison with its manifest. The module doesn't need torch."""

from pathlib import Path

from curriculum.published_files import sha256_of
from curriculum.store.artefact import digest
from schemas.cures import run_of, set_aside
from schemas.errors import JobError
from schemas.job import ModelSpec
from schemas.json_text import Sealed, read_json
from schemas.manifest import MANIFEST_NAME, FileRecord
from schemas.text import Model

WEIGHTS, MOMENTS, SHARDS = "model.safetensors", "optimizer.safetensors", "shards"
SPEC, STATE, INDEX = "model.json", "state.json", "index.json"


class CheckpointManifest(Sealed):
    """Manifest of a complete checkpoint."""

    step: int
    files: tuple[FileRecord, ...]


def damage(checkpoint: Path) -> str | None:
    """Return the first fault of a checkpoint's files, or None. All files are read completely."""
    manifest = _listed(checkpoint)
    if isinstance(manifest, str):
        return manifest
    for record in manifest.files:
        if record_of(checkpoint, checkpoint / record.name) != record:
            return f"{record.name} isn't what was written"
    return None


def require_whole(checkpoint: Path) -> None:
    """Raise unless all files of a checkpoint have exactly the bytes that its manifest records.

    Raises:
        JobError: names the damaged or missing file.
    """
    fault = damage(checkpoint)
    if fault is not None:
        raise damaged(checkpoint, fault)


def require_listed(checkpoint: Path) -> None:
    """Raise unless all files listed in a checkpoint's manifest exist. Files are not read.

    Raises:
        JobError: names the missing file.
    """
    found = _listed(checkpoint)
    if isinstance(found, str):
        raise damaged(checkpoint, found)


def damaged(place: Path, fault: str) -> JobError:
    """Return the error for a damaged checkpoint or a damaged file of one."""
    run = run_of(place)
    cure = "Take another checkpoint"
    if run is not None:
        cure = f"Use another step of the run. To train the run again: {set_aside(run)}"
    return JobError(str(place), fault, cause="the checkpoint is damaged", cure=cure)


def content_of(checkpoint: Path) -> str:
    """Return the digest of a checkpoint's files; 64 hex digits."""
    manifest = manifest_of(checkpoint)
    return digest([[record.name, record.sha256] for record in manifest.files])


def read_part(model: type[Model], checkpoint: Path, name: str) -> Model:
    """Read a file of a checkpoint after verifying it against the manifest.

    The manifest also gives the schema version with which the file was written.

    Raises:
        JobError: if the file is damaged or of another kind.
    """
    require_part(checkpoint, name)
    return _read(model, checkpoint / name, version=manifest_of(checkpoint).schema_version)


def require_part(checkpoint: Path, name: str) -> None:
    """Raise unless a file of a checkpoint has exactly the bytes that its manifest records.

    Raises:
        JobError: names the file.
    """
    manifest, file = manifest_of(checkpoint), checkpoint / name
    record = next((record for record in manifest.files if record.name == name), None)
    if record is None or not file.is_file() or record != record_of(checkpoint, file):
        raise damaged(file, "it isn't what was written")


def read_spec(checkpoint: Path) -> ModelSpec:
    """Read the model specification of a checkpoint.

    Raises:
        JobError: for a checkpoint of another trainer.
    """
    if not (checkpoint / SPEC).is_file():
        raise JobError(
            str(checkpoint),
            cause="another trainer wrote this checkpoint, and its model isn't known here",
            cure="Read the checkpoint with that trainer",
        )
    return read_part(ModelSpec, checkpoint, SPEC)


def manifest_of(checkpoint: Path) -> CheckpointManifest:
    """Read the manifest of a checkpoint.

    Raises:
        JobError: if the manifest is missing or was changed.
    """
    return _read(CheckpointManifest, checkpoint / MANIFEST_NAME)


def _read(model: type[Model], file: Path, *, version: str | None = None) -> Model:
    """Read a small file of a checkpoint."""
    if not file.is_file():
        raise damaged(file, "the file doesn't exist")
    return read_json(
        model,
        file,
        error=JobError,
        cause="the checkpoint is damaged, or another version wrote it",
        cure="Train that phase again",
        version=version,
    )


def _listed(checkpoint: Path) -> CheckpointManifest | str:
    """Return the manifest of a checkpoint if all its files exist, or else a description of the fault."""
    if not (checkpoint / MANIFEST_NAME).is_file():
        return "it has no manifest"
    try:
        manifest = manifest_of(checkpoint)
    except JobError:
        return "its manifest can't be read or was changed"
    names = {record.name for record in manifest.files}
    # A checkpoint of another trainer may have any files.
    for name in sorted(names | ({STATE} if SPEC in names else set())):
        if not (checkpoint / name).is_file():
            return f"{name} isn't what was written"
    return manifest


def record_of(folder: Path, path: Path) -> FileRecord:
    """Return the record of a checkpoint's file for its manifest."""
    name = path.relative_to(folder).as_posix()
    return FileRecord(name=name, sha256=sha256_of(path), num_bytes=path.stat().st_size)
