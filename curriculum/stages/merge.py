"""Import of artefacts from other workspaces, for builds on machines without shared storage.

The other workspace may be untrusted. All its files must be regular, be where their manifests say, and have
the digests listed there. Before anything is published, everything is checked in a sandbox: each Parquet
file is decoded completely, each artefact is compared with the schema of its stage, and each tokenizer is
exercised.
"""

import contextlib
import errno
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from curriculum.foreign_artefacts import check_foreign
from curriculum.foreign_decoding import decode_foreign
from curriculum.stages.tokens import exercise_tokenizer
from curriculum.store.artefact import (
    KEY_DIGITS,
    Artefact,
    Input,
    Recipe,
    StagingDirectory,
    file_size,
    is_in_place,
    is_publishable,
    manifest_text,
    published_in,
)
from curriculum.store.inside import require_plain
from curriculum.store.store import WORKSPACE_NAME, Store
from schemas import regular_files
from schemas.document import DATA, PARTS
from schemas.errors import StoreError
from schemas.manifest import MANIFEST_NAME
from schemas.regular_files import IrregularFileError
from schemas.stages import STAGES

NOT_MERGED = {"runs"}
"""Stages with attempts and checkpoints, which belong to the workspace in which they were trained."""
NOT_TAKEN = NOT_MERGED | {"ablations", "estimates", "measurements", "surveys"}
"""Stages that aren't imported from untrusted workspaces.

These artefacts only describe data, and are quickly rebuilt.
"""
MAX_MANIFEST_BYTES = 4 << 20
"""Maximum size in bytes of an untrusted manifest, as received and as rewritten: about 15,000 files. The
largest manifest of the sample has 98 KB. Reading takes about 140 times as much memory.
"""
MAX_MANIFESTS_BYTES = 64 << 20
"""Maximum size in bytes of all manifests of an untrusted workspace: about 10,000 typical ones. All of them
are in memory at the same time.
"""
_PART = re.compile(rf"{PARTS}[0-9]{{5,}}\.parquet")
_BLOCK_BYTES = 1 << 12


def merge(store: Store, source: Path, *, own: bool = False) -> Iterator[Artefact]:
    """Publish the artefacts of another workspace here, except its runs, and yield each of them.

    Estimates, surveys and ablations of an untrusted workspace are not imported either. All manifests are
    checked before the first file is copied. If the other workspace is the user's `own` and on the same
    disk, its files are hard-linked. Each artefact is verified against its manifest before it is published;
    artefacts that already exist are only compared.

    Raises:
        StoreError: for a folder that isn't a workspace; for an untrusted workspace with irregular files,
        oversized manifests, more bytes than free space, or an undecodable Parquet file; for an artefact
        that doesn't match its manifest or schema; and if the same key has other bytes here.
        TokenizerError: for an untrusted tokenizer that loses bytes, or takes too much time or memory.
    """
    if not (source / WORKSPACE_NAME).is_file():
        raise StoreError(
            str(source),
            cause="the folder is not a workspace",
            cure="Name a folder that contains workspace.json",
        )
    if not own:
        require_plain(source)
        _require_small_manifests(source)
    other = Store(source)
    left = NOT_MERGED if own else NOT_TAKEN
    taken = [artefact for artefact in other.artefacts() if artefact.manifest.stage not in left]
    recipes = [_recipe(other, artefact) for artefact in taken]
    if not own:
        _require_room(store, taken, recipes)
    known: dict[str, Path] = {}
    for artefact, recipe in zip(taken, recipes, strict=True):
        made = _take(store, other, artefact, recipe, known, own=own)
        known[made.key] = made.path
        yield made


def copy_own(store: Store, other: Store, artefact: Artefact) -> Artefact:
    """Publish an artefact from the same user's other workspace, hard-linking files on the same disk."""
    return _take(store, other, artefact, _recipe(other, artefact), {}, own=True)


def _take(
    store: Store,
    other: Store,
    artefact: Artefact,
    recipe: Recipe,
    known: Mapping[str, Path],
    *,
    own: bool,
) -> Artefact:
    def fill(drafts: Sequence[StagingDirectory]) -> None:
        draft = drafts[0]
        for record in artefact.manifest.files:
            file, place = artefact.path / record.name, draft.path / record.name
            if own:
                _link(file, place)
            else:
                _copy(other.root, file, place, record.num_bytes)
        taken = Artefact(path=draft.path, manifest=artefact.manifest)
        other.verify(taken)
        if not own:
            decode_foreign(taken.files())
            if artefact.manifest.stage == "tokenizers":
                exercise_tokenizer(taken, name=str(artefact.path))
            check_foreign(taken, _made_of(store, artefact, known), name=str(artefact.path))
        draft.record_fields(artefact.manifest.report)

    (here,) = store.produce([recipe], fill)
    if here.content != artefact.content:
        raise StoreError(
            str(here.path),
            f"content {here.content[:KEY_DIGITS]}, in {artefact.path} {artefact.content[:KEY_DIGITS]}",
            cause="the same key has different bytes in the two workspaces",
            cure="Run curriculum check on both, and move away the one that doesn't match its manifest",
        )
    return here


def _made_of(store: Store, artefact: Artefact, known: Mapping[str, Path]) -> dict[str, Path]:
    """Return the folders of the documents and of the tokenizer that tokens were made of, by stage.

    `known` has the folders of artefacts that were imported before, by key.

    Raises:
        StoreError: if one of them isn't in this workspace after all earlier artefacts were imported.
    """
    made_of: dict[str, Path] = {}
    for record in artefact.manifest.inputs if artefact.manifest.stage == "tokens" else ():
        stage = "tokenizers" if record.name == "tokenizer" else record.name
        found = known.get(record.key) or next(
            (other.path for other in store.artefacts(stage) if other.key == record.key), None
        )
        if found is None:
            raise StoreError(
                str(artefact.path),
                f"{record.name} {record.key[:KEY_DIGITS]}",
                cause="neither workspace has this input of the tokens, so they can't be checked",
                cure="Move the tokens out of the workspace; a build recreates them",
            )
        made_of[stage] = found
    return made_of


def _recipe(other: Store, artefact: Artefact) -> Recipe:
    """Return the recipe in an artefact's manifest. The artefact must be in the folder that its labels give.

    Raises:
        StoreError: for a manifest that no build writes.
    """
    manifest = artefact.manifest
    _require_publishable(artefact)
    recipe = Recipe(
        stage=manifest.stage,
        labels=tuple(manifest.labels.items()),
        revision=manifest.revision,
        config=manifest.config,
        inputs=tuple(Input(**record.model_dump()) for record in manifest.inputs),
        tools=manifest.tools,
    )
    is_known = manifest.stage in STAGES and is_in_place(artefact, other.root)
    if not is_known or other.root / recipe.directory != artefact.path:
        raise StoreError(
            str(artefact.path),
            cause="its manifest belongs to another folder",
            cure="Move it back, or out of the workspace",
        )
    return recipe


def _require_small_manifests(source: Path) -> None:
    """Raise if a manifest, or all manifests together, are too large to read."""
    total = 0
    for stage in sorted(STAGES):
        for path in published_in(source / stage):
            if (size := file_size(path / MANIFEST_NAME)) is not None:
                _require_small(path, size)
                total += size
    if total > MAX_MANIFESTS_BYTES:
        raise StoreError(
            str(source),
            f"manifests of {total:,} bytes",
            cause=f"all manifests of an untrusted workspace may have {MAX_MANIFESTS_BYTES:,} bytes together",
            cure="Merge it in parts, or trust the workspace",
        )


def _require_small(path: Path, size: int) -> None:
    if size > MAX_MANIFEST_BYTES:
        raise StoreError(
            str(path / MANIFEST_NAME),
            f"{size:,} bytes",
            cause=f"a manifest of an untrusted workspace may have {MAX_MANIFEST_BYTES:,} bytes",
            cure="Move the artefact out of the workspace, or trust the workspace",
        )


def _require_room(store: Store, taken: Sequence[Artefact], recipes: Sequence[Recipe]) -> None:
    """Raise unless the missing files fit on the disk, and each manifest is small enough to be written."""
    needed = 0
    for artefact, recipe in zip(taken, recipes, strict=True):
        _require_small(artefact.path, len(manifest_text(artefact.manifest).encode()))
        if not store.path_of(recipe).is_dir():
            needed += sum(record.num_bytes for record in artefact.manifest.files)
    folder = next(above for above in (store.root, *store.root.parents) if above.is_dir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(
            str(store.root),
            f"{free:,} bytes are free, {needed:,} would be copied",
            cause="the disk has too little free space for the files in the manifests",
            cure="Free some space, or merge into a workspace on another disk",
        )


def _require_publishable(artefact: Artefact) -> None:
    """Raise unless the files of a manifest would give the same list of files when they are published."""
    names = Counter(record.name for record in artefact.manifest.files)
    for record in artefact.manifest.files:
        if names[record.name] > 1:
            cause = "its manifest lists the file more than once"
        elif not is_publishable(record.name):
            cause = "its manifest lists a manifest or a draft, which are never published"
        elif not record.in_content:
            cause = "its manifest excludes the file from the content, which only runs do"
        elif record.name.startswith(f"{DATA}/") and not _PART.fullmatch(record.name):
            cause = f"files in {DATA}/ are named part-00000.parquet and so on"
        else:
            continue
        raise StoreError(
            str(artefact.path),
            record.name,
            cause=cause,
            cure="Ask its sender for another copy, or move it out of the workspace",
        )


def _link(file: Path, place: Path) -> None:
    """Hard-link a file of the user's own workspace, or copy it if no link can be made."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, place, follow_symlinks=False)
        return
    except OSError as refused:
        # The link failed for another disk, a disk without links, or too many links. A full disk would also
        # refuse a copy.
        if refused.errno not in {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK}:
            raise
        with contextlib.suppress(FileNotFoundError):
            place.unlink()
    shutil.copyfile(file, place)


def _copy(root: Path, file: Path, place: Path, num_bytes: int) -> None:
    """Copy as many bytes of a file of an untrusted workspace as its manifest lists.

    Raises:
        StoreError: for a link below `root`, which may have been created after `require_plain`.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        found = regular_files.opened_below(root, file.relative_to(root).as_posix())
    except (IrregularFileError, NotADirectoryError) as refused:
        raise StoreError(
            str(file),
            refused.strerror,
            cause="the file was replaced while it was merged",
            cure="Merge a copy that nobody else can write to",
        ) from None
    with os.fdopen(found, "rb") as source, place.open("xb") as copy:
        _copy_blocks(source, copy, num_bytes)


def _copy_blocks(source: BinaryIO, copy: BinaryIO, num_bytes: int) -> None:
    """Copy the first `num_bytes`; blocks of zeros become holes, so that a sparse file stays sparse."""
    for at in range(0, num_bytes, _BLOCK_BYTES):
        block = source.read(min(_BLOCK_BYTES, num_bytes - at))
        if block.strip(b"\0"):
            copy.write(block)
        else:
            copy.seek(at + len(block))
    copy.truncate(num_bytes)
