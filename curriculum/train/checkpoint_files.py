"""The files of a checkpoint held against its manifest; nothing here needs torch."""

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
    """The manifest of a complete checkpoint."""

    step: int
    files: tuple[FileRecord, ...]


def damage(checkpoint: Path) -> str | None:
    """Find the first fault of a checkpoint's files, or None; reads every byte of them."""
    manifest = _listed(checkpoint)
    if isinstance(manifest, str):
        return manifest
    for record in manifest.files:
        if record_of(checkpoint, checkpoint / record.name) != record:
            return f"{record.name} isn't what was written"
    return None


def require_whole(checkpoint: Path) -> None:
    """Let a checkpoint pass whose files are those of its manifest, byte by byte.

    Raises:
        JobError: naming the file that is damaged or missing.
    """
    fault = damage(checkpoint)
    if fault is not None:
        raise damaged(checkpoint, fault)


def require_listed(checkpoint: Path) -> None:
    """Let a checkpoint pass whose manifest lists files that are there; none is read.

    Raises:
        JobError: naming the file that is missing.
    """
    found = _listed(checkpoint)
    if isinstance(found, str):
        raise damaged(checkpoint, found)


def damaged(place: Path, fault: str) -> JobError:
    """The error of a checkpoint, or of a file of one, that isn't what was written."""
    run = run_of(place)
    cure = "Take another checkpoint"
    if run is not None:
        cure = f"Use another step of that run. For this one: {set_aside(run)}"
    return JobError(str(place), fault, cause="the checkpoint is damaged", cure=cure)


def content_of(checkpoint: Path) -> str:
    """The digest of a checkpoint's files; 64 hex digits."""
    manifest = manifest_of(checkpoint)
    return digest([[record.name, record.sha256] for record in manifest.files])


def read_part(model: type[Model], checkpoint: Path, name: str) -> Model:
    """A file of a checkpoint, verified against its manifest, which says what version wrote it.

    Raises:
        JobError: for a file that isn't what was written, or isn't one of these.
    """
    require_part(checkpoint, name)
    return _read(model, checkpoint / name, version=manifest_of(checkpoint).schema_version)


def require_part(checkpoint: Path, name: str) -> None:
    """Raise unless a file of a checkpoint is the one that its manifest records.

    Raises:
        JobError: naming the file.
    """
    manifest, file = manifest_of(checkpoint), checkpoint / name
    record = next((each for each in manifest.files if each.name == name), None)
    if record is None or not file.is_file() or record != record_of(checkpoint, file):
        raise damaged(file, "it isn't what was written")


def read_spec(checkpoint: Path) -> ModelSpec:
    """The model that a checkpoint is of.

    Raises:
        JobError: for one that another trainer left.
    """
    if not (checkpoint / SPEC).is_file():
        raise JobError(
            str(checkpoint),
            cause="another trainer left this checkpoint, of a model that ours doesn't know",
            cure="Read it with that trainer",
        )
    return read_part(ModelSpec, checkpoint, SPEC)


def manifest_of(checkpoint: Path) -> CheckpointManifest:
    """The manifest of a checkpoint.

    Raises:
        JobError: for one that isn't there, or was changed.
    """
    return _read(CheckpointManifest, checkpoint / MANIFEST_NAME)


def _read(model: type[Model], file: Path, *, version: str | None = None) -> Model:
    """A small file of a checkpoint."""
    if not file.is_file():
        raise damaged(file, "there is no such file")
    return read_json(
        model,
        file,
        error=JobError,
        cause="the checkpoint is damaged, or another version wrote it",
        cure="Train that phase again",
        version=version,
    )


def _listed(checkpoint: Path) -> CheckpointManifest | str:
    """The manifest of a checkpoint whose files are there, or why it isn't whole."""
    if not (checkpoint / MANIFEST_NAME).is_file():
        return "it has no manifest"
    try:
        manifest = manifest_of(checkpoint)
    except JobError:
        return "its manifest can't be read, or was changed"
    names = {record.name for record in manifest.files}
    # Another trainer's checkpoint has what files it will.
    for name in sorted(names | ({STATE} if SPEC in names else set())):
        if not (checkpoint / name).is_file():
            return f"{name} isn't what was written"
    return manifest


def record_of(folder: Path, path: Path) -> FileRecord:
    """A file of a checkpoint as its manifest records it."""
    name = path.relative_to(folder).as_posix()
    return FileRecord(name=name, sha256=sha256_of(path), num_bytes=path.stat().st_size)
