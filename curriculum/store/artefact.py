"""Artefacts and their manifests: a published directory as a value, and how one appears on disk whole."""

import datetime
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from curriculum.store.recipe import Input, Recipe, digest, key_of
from curriculum.store.verify import damaged, footer_of, sha256_of
from schemas.errors import StoreError
from schemas.json_text import of_version
from schemas.manifest import (
    MANIFEST_NAME,
    FileRecord,
    InputRecord,
    Manifest,
    read_manifest,
)

Model = TypeVar("Model", bound=BaseModel)
_DRAFT = ".draft"
"""The suffix of files that aren't whole yet; a killed writer may leave one."""
PLANNED = "planned"
"""The content of an artefact that a dry store would make."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Artefact:
    """A published directory; `made` says whether this process made it just now."""

    path: Path
    manifest: Manifest
    made: bool = False

    @property
    def key(self) -> str:
        """The digest of what it was made from."""
        return self.manifest.key

    @property
    def content(self) -> str:
        """The digest of what it is."""
        return self.manifest.content

    @property
    def planned(self) -> bool:
        """True where it is only planned, by a dry store."""
        return self.content == PLANNED

    @property
    def waits(self) -> bool:
        """True where it is planned, and made of something that is only planned itself."""
        return self.planned and any(each.content == PLANNED for each in self.manifest.inputs)

    def report_of(self, name: str) -> JsonValue:
        """Return what its producer counted under a name; a KeyError where it counted no such thing."""
        return self.manifest.report[name]

    def reported(self, model: type[Model]) -> Model:
        """Return what its producer counted, as a model; fields of a newer minor version are left out."""
        return of_version(model, self.manifest.report, self.manifest.schema_version)

    def as_input(self, name: str, *, verified: bool = False) -> Input:
        """This artefact in the role `name` of another's recipe.

        Its files are verified whole before the other is made, unless they were hashed just now as it was
        published, or its reader verifies what it reads.
        """
        done = verified or self.made or self.planned
        path = None if done else self.path
        return Input(name=name, key=self.key, content=self.content, unverified=path)

    def files(self, suffix: str = ".parquet") -> list[Path]:
        """Its files with a suffix, in name order."""
        return [
            self.path / record.name
            for record in self.manifest.files
            if record.name.endswith(suffix)
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """An artefact in the making: write files under `path`, and what you count into `report`."""

    recipe: Recipe
    path: Path
    report: dict[str, JsonValue] = field(default_factory=dict)


def published(path: Path) -> Artefact:
    """The artefact at a path, its manifest held against itself; its files aren't looked at.

    Raises:
        StoreError: for a missing or changed manifest.
        SchemaError: for a manifest that can't be read.
    """
    file = path / MANIFEST_NAME
    if not file.is_file():
        raise StoreError(str(path), cause="there is no manifest.json", cure="Build it again")
    manifest = read_manifest(file)
    key = key_of(
        stage=manifest.stage,
        revision=manifest.revision,
        config=manifest.config,
        inputs=tuple(Input(**each.model_dump()) for each in manifest.inputs),
        tools=manifest.tools,
    )
    if key != manifest.key or _content_of(manifest.files) != manifest.content:
        raise damaged(file, "the manifest was changed after it was published")
    return Artefact(path=path, manifest=manifest)


def manifest_of(draft: Draft, *, content: str = "") -> Manifest:
    """The manifest of a draft's files; `content` is the folder that alone makes up its content."""
    within = [path.relative_to(draft.path) for path in draft.path.rglob("*") if path.is_file()]
    names = sorted(
        path.as_posix()
        for path in within
        if path.name != MANIFEST_NAME and not any(part.endswith(_DRAFT) for part in path.parts)
    )
    files = tuple(
        FileRecord(
            name=name,
            sha256=sha256_of(draft.path / name),
            num_bytes=(draft.path / name).stat().st_size,
            in_content=name.startswith(content),
            footer=footer_of(draft.path / name) if name.endswith(".parquet") else None,
        )
        for name in names
    )
    return _described(draft.recipe, files=files, content=_content_of(files), report=draft.report)


def is_waiting(recipe: Recipe) -> bool:
    """Return True where something that the recipe is made from is only planned."""
    return any(each.content == PLANNED for each in recipe.inputs)


def planned_manifest(recipe: Recipe) -> Manifest:
    """The manifest of what a dry store would make."""
    return _described(recipe, files=(), content=PLANNED, report={})


def _described(
    recipe: Recipe, *, files: tuple[FileRecord, ...], content: str, report: dict[str, JsonValue]
) -> Manifest:
    return Manifest(
        stage=recipe.stage,
        labels=dict(recipe.labels),
        key=recipe.key,
        content=content,
        revision=recipe.revision,
        config=dict(recipe.config),
        inputs=tuple(
            InputRecord(name=each.name, key=each.key, content=each.content)
            for each in recipe.inputs
        ),
        tools=dict(recipe.tools),
        files=files,
        report=report,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
    )


def _content_of(files: Sequence[FileRecord]) -> str:
    pairs = sorted((record.name, record.sha256) for record in files if record.in_content)
    return digest([list(pair) for pair in pairs])


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Flush the files, then let the manifest appear in one rename."""
    for record in manifest.files:
        sync(folder / record.name)
    write_whole(folder / MANIFEST_NAME, manifest.model_dump_json(indent=1))


def write_whole(file: Path, text: str) -> None:
    """Let a file appear, or change, in one rename; after a loss of power it is the old or the new one."""
    # Builds of several machines write here, and their processes may have one number.
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}{_DRAFT}")
    draft.write_text(text)
    sync(draft)
    draft.replace(file)
    sync(file.parent)


def sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
