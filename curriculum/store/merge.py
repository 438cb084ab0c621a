"""Artefacts of other workspaces, published in this one: for builds that share no storage."""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from curriculum.store.artefact import KEY_DIGITS, Artefact, Input, Recipe, StagingDirectory
from curriculum.store.store import WORKSPACE_NAME, Store
from schemas.errors import StoreError
from schemas.label_folders import label_folder

NOT_MERGED = "runs"
"""The stage whose directories hold attempts and checkpoints: they belong to where they were trained."""


def merge(store: Store, source: Path) -> Iterator[Artefact]:
    """Each artefact of another workspace but its runs, published here as it is there.

    Files are linked where one disk holds both workspaces, and copied elsewhere. Each is read again and held
    against its manifest before anything appears here; what is here already is only compared.

    Raises:
        StoreError: for a folder that is no workspace, for an artefact that isn't what its manifest says,
            and where the same was made with other bytes.
    """
    if not (source / WORKSPACE_NAME).is_file():
        raise StoreError(
            str(source), cause="it is no workspace", cure="Name a folder that holds workspace.json"
        )
    other = Store(source)
    for artefact in other.artefacts():
        if artefact.manifest.stage != NOT_MERGED:
            yield _take(store, other, artefact)


def _take(store: Store, other: Store, artefact: Artefact) -> Artefact:
    recipe = _recipe(other, artefact)

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        for record in artefact.manifest.files:
            _link(artefact.path, record.name, drafts[0].path)
        taken = Artefact(path=drafts[0].path, manifest=artefact.manifest)
        other.verify(taken)
        drafts[0].report.update(artefact.manifest.report)

    (here,) = store.produce([recipe], fill)
    if here.content != artefact.content:
        raise StoreError(
            str(here.path),
            f"content {here.content[:KEY_DIGITS]}, in {artefact.path} {artefact.content[:KEY_DIGITS]}",
            cause="the same key has other bytes in the two workspaces",
            cure="Run curriculum check on both, and move away the one that isn't what its manifest says",
        )
    return here


def _recipe(other: Store, artefact: Artefact) -> Recipe:
    """Return the recipe in the manifest of an artefact, which must lie where its labels say."""
    manifest = artefact.manifest
    labels = tuple(manifest.labels.items())
    place = (
        manifest.stage,
        *(label_folder(*label) for label in labels),
        manifest.key[:KEY_DIGITS],
    )
    if artefact.path.relative_to(other.root).parts != place:
        raise StoreError(
            str(artefact.path),
            cause=f"by its manifest it would lie under {'/'.join(place)}",
            cure="Move it back, or out of the workspace",
        )
    return Recipe(
        stage=manifest.stage,
        labels=labels,
        revision=manifest.revision,
        config=manifest.config,
        inputs=tuple(Input(**each.model_dump()) for each in manifest.inputs),
        tools=manifest.tools,
    )


def _link(folder: Path, name: str, target: Path) -> None:
    """Let a file of a folder stand in another too; the artefact was loaded, so it is a plain one."""
    file, place = folder / name, target / name
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place, follow_symlinks=False)
    except OSError as refused:
        # Another disk, one without links, or too many of them. A full disk is no reason to copy.
        if refused.errno not in {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}:
            raise
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
        shutil.copyfile(file, place)
