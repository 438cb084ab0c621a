"""Artefacts, their recipes and keys, and their manifests: how a published directory appears on disk whole."""

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
    """An input by its role, and the key and content that it has."""

    name: str
    key: str
    content: str
    unverified: Path | None = field(default=None, compare=False)
    """The artefact's directory, where its files must be verified before they are read; no part of the key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """Inputs and settings of an artefact.

    `config` holds the fields that change bytes and no others: never paths, hosts, numbers of workers.
    `labels` say where it lies (`family-v3_simple`) and are no part of the key.
    """

    stage: str
    labels: tuple[tuple[str, str], ...]
    revision: int
    """Raised by hand when the producer's code changes the bytes it writes."""
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    alternate_folders: tuple[str, ...] = ()
    """Patterns of other shelves on which the same may stand: what is of one key is one artefact."""

    @property
    def key(self) -> str:
        """sha256 over all that can change the bytes; 64 hex digits."""
        return key_of(
            stage=self.stage,
            revision=self.revision,
            config=self.config,
            inputs=self.inputs,
            tools=self.tools,
        )

    @property
    def folder(self) -> PurePosixPath:
        """The folder, relative to the workspace, in which all versions of this artefact lie."""
        for label, value in self.labels:
            assert is_name(label), label
            assert "-" not in label, label
            assert is_name(value), f"{label} {value} is no safe path"
        return PurePosixPath(self.stage, *(label_folder(*label) for label in self.labels))

    @property
    def directory(self) -> PurePosixPath:
        """The artefact's directory, relative to the workspace."""
        return self.folder / self.key[:KEY_DIGITS]


def key_of(
    *,
    stage: str,
    revision: int,
    config: Mapping[str, JsonValue],
    inputs: tuple[Input, ...],
    tools: Mapping[str, str],
) -> str:
    """The key of these ingredients; the order of inputs and of fields doesn't matter."""
    listed: list[JsonValue] = [
        [each.name, each.key, each.content] for each in sorted(inputs, key=_order)
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
"""The suffix of files that aren't whole yet; a killed writer may leave one."""
_RUNS = "runs"
_SHELF_OR_KEY = re.compile(rf"[^-=]+[-=].*|[0-9a-f]{{{KEY_DIGITS}}}")
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

    def reported(self, model: type[Model]) -> Model:
        """Return what its producer counted, as a model; fields of a newer minor version are left out."""
        return of_version(model, self.manifest.report, self.manifest.schema_version)

    def configured(self, settings: type[Settings]) -> Settings:
        """Return what its producer was set to, as a value of a class; other fields are left out.

        Raises:
            StoreError: for a config that lacks a field, or has another type; no producer writes one.
        """
        try:
            return TypeAdapter(settings).validate_python(self.manifest.config)
        except ValidationError as invalid:
            fault = invalid.errors(include_url=False)[0]
            raise StoreError(
                str(self.path / MANIFEST_NAME),
                f"config.{'.'.join(map(str, fault['loc']))}",
                cause=fault["msg"],
                cure=f"Move {self.path} out of the workspace; a build makes it again",
            ) from None

    def as_input(self, name: str, *, verified: bool = False) -> Input:
        """This artefact in the role `name` of another's recipe.

        Its files are verified whole before the other is made, unless they were hashed just now as it was
        published, or its reader verifies what it reads.
        """
        done = verified or self.made or self.planned
        path = None if done else self.path
        return Input(name=name, key=self.key, content=self.content, unverified=path)

    def files(self) -> list[Path]:
        """Return its Parquet files, in name order."""
        names = (record.name for record in self.manifest.files)
        return [self.path / name for name in names if name.endswith(PARQUET_ENDINGS)]

    def shards(self) -> list[Path]:
        """Return the Parquet files of its documents or rows, in name order."""
        names = (record.name for record in self.manifest.files)
        return [self.path / name for name in names if name.startswith(PARTS)]


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingDirectory:
    """An artefact in the making: its files go under `path`, its report into `record`."""

    recipe: Recipe
    path: Path
    report: dict[str, JsonValue] = field(default_factory=dict)
    """The JSON for the manifest."""

    def record(self, report: StageReport | MixtureReport) -> None:
        """Add the fields of a report that are filled in, after those that were recorded before."""
        self.record_fields(report.dump())

    def record_fields(self, fields: Mapping[str, JsonValue]) -> None:
        """Add fields of a report that another process filled in."""
        self.report.update(fields)


def published(path: Path) -> Artefact:
    """The artefact at a path, its manifest held against itself.

    Raises:
        StoreError: for a missing or changed manifest.
        SchemaError: for a manifest that can't be read.
    """
    file = path / MANIFEST_NAME
    if not file.is_file():
        again = "Train the phase again" if run_of(path) else "Build it again"
        raise StoreError(str(path), cause="there is no manifest.json", cure=again)
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


def published_in(folder: Path) -> Iterator[Path]:
    """The directories of a stage that have a manifest, as the store lays them: label-value, key."""
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
    """The size of a file; None where there is none."""
    try:
        return file.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_in_place(artefact: Artefact, root: Path) -> bool:
    """Return True where an artefact lies as the store lays its stage: stage/label-value/…/key."""
    stage, *labels, key = artefact.path.relative_to(root).parts
    if artefact.manifest.stage == _RUNS and number_of(key, ATTEMPT) is not None:
        key = labels.pop() if labels else ""
    return (stage, key) == (artefact.manifest.stage, artefact.key[:KEY_DIGITS]) and all(
        is_name(name) and is_name(value) for name, value in map(label_of, labels)
    )


def is_publishable(name: str) -> bool:
    """Return True for a path that a manifest lists: no manifest's, and none of what wasn't written whole."""
    steps = name.split("/")
    return steps[-1] != MANIFEST_NAME and not any(step.endswith(DRAFT) for step in steps)


def manifest_of(draft: StagingDirectory, *, content: str = "") -> Manifest:
    """The manifest of a draft's files; `content` is the folder that alone makes up its content."""
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
    """The paths of a folder's files that are published with it."""
    yield from filter(is_publishable, files_of(folder))


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
    files = [folder / record.name for record in manifest.files]
    for path in (*files, *sorted({file.parent for file in files})):
        sync(path)
    write_whole(folder / MANIFEST_NAME, manifest_text(manifest))


def manifest_text(manifest: Manifest) -> str:
    """Return the text of manifest.json."""
    return manifest.model_dump_json(indent=1)
