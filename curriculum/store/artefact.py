"""Artefacts with their recipes, keys and manifests."""

import contextlib
import datetime
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from curriculum.published_files import damaged, footer_of, sha256_of
from curriculum.store.inside import files_of
from curriculum.whole_files import DRAFT, sync, write_whole
from schemas.corpus import is_name
from schemas.cures import run_of
from schemas.document import PARQUET_ENDINGS, PARTS
from schemas.errors import StoreError
from schemas.json_text import MAJOR, of_version
from schemas.json_text import digest as digest
from schemas.label_folders import label_folder, label_of
from schemas.manifest import (
    MANIFEST_NAME,
    FileRecord,
    InputRecord,
    Manifest,
    read_manifest,
)
from schemas.mixture import MixtureReport
from schemas.reports import StageReport
from schemas.run_folders import ATTEMPT, number_of

KEY_DIGITS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """An input of an artefact: its role, key and content."""

    name: str
    key: str
    content: str
    unverified: Path | None = field(default=None, compare=False)
    """Directory of the artefact if its files must be verified before use; not part of the key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Inputs and settings of an artefact.

    `config` has exactly the settings that change bytes: no paths, hosts or numbers of workers. `labels`
    only determine the artefact's folder (`family-v3_simple`); they are not part of the key.
    """

    stage: str
    labels: tuple[tuple[str, str], ...]
    revision: int
    """Version of the producer's code. Raise it whenever the code changes the bytes that it writes."""
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    alternate_folders: tuple[str, ...] = ()
    """Globs of other folders that may contain the same artefact (same key, same content)."""

    @property
    def key(self) -> str:
        """sha256 (64 hex digits) of everything that can change the artefact's bytes."""
        return key_of(
            stage=self.stage,
            revision=self.revision,
            config=self.config,
            inputs=self.inputs,
            tools=self.tools,
        )

    @property
    def folder(self) -> PurePosixPath:
        """Folder of all versions of this artefact, relative to the workspace."""
        for label, value in self.labels:
            assert is_name(label), label
            assert "-" not in label, label
            assert is_name(value), f"{label} {value} is not a safe path"
        return PurePosixPath(self.stage, *(label_folder(*label) for label in self.labels))

    @property
    def directory(self) -> PurePosixPath:
        """Directory of the artefact, relative to the workspace."""
        return self.folder / self.key[:KEY_DIGITS]


def key_of(
    *,
    stage: str,
    revision: int,
    config: Mapping[str, JsonValue],
    inputs: tuple[Input, ...],
    tools: Mapping[str, str],
) -> str:
    """Return the key of an artefact made from these ingredients.

    The order of the inputs and of the fields in `config` doesn't matter.
    """
    listed: list[JsonValue] = [
        [item.name, item.key, item.content] for item in sorted(inputs, key=_order)
    ]
    return digest(
        {
            "stage": stage,
            "revision": revision,
            "schema": MAJOR,
            "config": dict(config),
            "inputs": listed,
            "tools": dict(tools),
        }
    )


def _order(item: Input) -> tuple[str, str, str]:
    return item.name, item.key, item.content


Model = TypeVar("Model", bound=BaseModel)
Settings = TypeVar("Settings")
_RUNS = "runs"
_SHELF_OR_KEY = re.compile(rf"[^-=]+[-=].*|[0-9a-f]{{{KEY_DIGITS}}}")
PLANNED = "planned"
"""Content of a planned artefact: one that a dry store (see `Store`) would build."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Artefact:
    """A published artefact; `made` is True if this process has just built it."""

    path: Path
    manifest: Manifest
    made: bool = False

    @property
    def key(self) -> str:
        """Key: digest of everything that the artefact was built from."""
        return self.manifest.key

    @property
    def content(self) -> str:
        """Content: digest of the artefact's files."""
        return self.manifest.content

    @property
    def planned(self) -> bool:
        """True if the artefact doesn't exist, because a dry store only planned it."""
        return self.content == PLANNED

    @property
    def waits(self) -> bool:
        """True if the artefact is only planned, and so is one of its inputs."""
        return self.planned and any(record.content == PLANNED for record in self.manifest.inputs)

    def reported(self, model: type[Model]) -> Model:
        """Return the producer's report as an instance of `model`.

        Fields that a newer minor version added are ignored.
        """
        return of_version(model, self.manifest.report, self.manifest.schema_version)

    def configured(self, settings: type[Settings]) -> Settings:
        """Return the producer's config as an instance of `settings`; other fields are ignored.

        Raises:
            StoreError: if a field is missing or has another type.
        """
        try:
            return TypeAdapter(settings).validate_python(self.manifest.config)
        except ValidationError as invalid:
            fault = invalid.errors(include_url=False)[0]
            raise StoreError(
                str(self.path / MANIFEST_NAME),
                f"config.{'.'.join(map(str, fault['loc']))}",
                cause=fault["msg"],
                cure=f"Move {self.path} out of the workspace; a build recreates it",
            ) from None

    def as_input(self, name: str, *, verified: bool = False) -> Input:
        """Return this artefact as an input of another recipe, with the role `name`.

        The store verifies the files of this artefact before it builds the other one. Pass `verified` if
        the files were just published, or if the reader verifies everything that it reads.
        """
        done = verified or self.made or self.planned
        path = None if done else self.path
        return Input(name=name, key=self.key, content=self.content, unverified=path)

    def files(self) -> list[Path]:
        """Return the artefact's Parquet files, sorted by name."""
        names = (record.name for record in self.manifest.files)
        return [self.path / name for name in names if name.endswith(PARQUET_ENDINGS)]

    def shards(self) -> list[Path]:
        """Return the Parquet files of documents or rows, sorted by name."""
        names = (record.name for record in self.manifest.files)
        return [self.path / name for name in names if name.startswith(PARTS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingDirectory:
    """An unpublished artefact: its producer writes files below `path`, and passes the report to `record`."""

    recipe: Recipe
    path: Path
    report: dict[str, JsonValue] = field(default_factory=dict)
    """Report for the manifest, as JSON."""

    def record(self, report: StageReport | MixtureReport) -> None:
        """Add the fields that `report` sets to the fields that were recorded before."""
        self.record_fields(report.dump())

    def record_fields(self, fields: Mapping[str, JsonValue]) -> None:
        """Add fields of the report that another process counted."""
        self.report.update(fields)


def published(path: Path) -> Artefact:
    """Return the artefact at a path after checking that its manifest is consistent.

    Raises:
        StoreError: if the manifest is missing or was changed.
        SchemaError: if the manifest can't be read.
    """
    file = path / MANIFEST_NAME
    if not file.is_file():
        again = "Train the phase again" if run_of(path) else "Build it again"
        raise StoreError(str(path), cause="manifest.json is missing", cure=again)
    manifest = read_manifest(file)
    key = key_of(
        stage=manifest.stage,
        revision=manifest.revision,
        config=manifest.config,
        inputs=tuple(Input(**record.model_dump()) for record in manifest.inputs),
        tools=manifest.tools,
    )
    if key != manifest.key or _content_of(manifest.files) != manifest.content:
        raise damaged(file, "the manifest was changed after it was published")
    return Artefact(path=path, manifest=manifest)


def published_in(folder: Path) -> Iterator[Path]:
    """Yield the directories of a stage that have a manifest, in the store's layout: label-value, key."""
    found: list[os.DirEntry[str]] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        found += entries
    for entry in found:
        if not (_SHELF_OR_KEY.fullmatch(entry.name) and entry.is_dir()):
            continue
        path = Path(entry.path)
        if file_size(path / MANIFEST_NAME) is None:
            yield from published_in(path)
        else:
            yield path


def file_size(file: Path) -> int | None:
    """Return the size of a file; None if it doesn't exist."""
    try:
        return file.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_in_place(artefact: Artefact, root: Path) -> bool:
    """Return True if an artefact lies in the store's layout of its stage: stage/label-value/…/key."""
    stage, *labels, key = artefact.path.relative_to(root).parts
    if artefact.manifest.stage == _RUNS and number_of(key, ATTEMPT) is not None:
        key = labels.pop() if labels else ""
    return (stage, key) == (artefact.manifest.stage, artefact.key[:KEY_DIGITS]) and all(
        is_name(name) and is_name(value) for name, value in map(label_of, labels)
    )


def is_publishable(name: str) -> bool:
    """Return True if a manifest lists this path: it is neither a manifest nor an incomplete file."""
    steps = name.split("/")
    return steps[-1] != MANIFEST_NAME and not any(step.endswith(DRAFT) for step in steps)


def manifest_of(draft: StagingDirectory, *, content: str = "") -> Manifest:
    """Return the manifest for the files of `draft`.

    If `content` is given, only the files in this folder determine the content of the artefact.
    """
    names = sorted(_whole_files(draft.path))
    files = tuple(
        FileRecord(
            name=name,
            sha256=sha256_of(draft.path / name),
            num_bytes=(draft.path / name).stat().st_size,
            in_content=name.startswith(content),
            footer=footer_of(draft.path / name) if name.endswith(PARQUET_ENDINGS) else None,
        )
        for name in names
    )
    return _described(draft.recipe, files=files, content=_content_of(files), report=draft.report)


def _whole_files(folder: Path) -> Iterator[str]:
    yield from filter(is_publishable, files_of(folder))


def is_waiting(recipe: Recipe) -> bool:
    """Return True if one of the recipe's inputs is only planned."""
    return any(item.content == PLANNED for item in recipe.inputs)


def planned_manifest(recipe: Recipe) -> Manifest:
    """Return the manifest of an artefact that a dry store would build."""
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
            InputRecord(name=item.name, key=item.key, content=item.content)
            for item in recipe.inputs
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
    """Flush the files to disk, then write the manifest in a single rename."""
    files = [folder / record.name for record in manifest.files]
    for path in (*files, *sorted({file.parent for file in files})):
        sync(path)
    write_whole(folder / MANIFEST_NAME, manifest_text(manifest))


def manifest_text(manifest: Manifest) -> str:
    """Return the text of manifest.json."""
    return manifest.model_dump_json(indent=1)
