"""Garbage collection: finds unreferenced artefacts, and removes them by way of the trash.

    .trash/<uuid>/<path in the workspace>

Readers ignore the trash. If a collection is interrupted, the next one deletes its leftovers.
"""

import contextlib
import re
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import filelock

from curriculum.exposure import leaves_below
from curriculum.store import inside, leases
from curriculum.store.artefact import KEY_DIGITS, Artefact, is_in_place
from curriculum.store.marks import read_mark
from curriculum.store.store import WORKSPACE_NAME, Store
from schemas.cures import LOST
from schemas.errors import StoreError

FOLDER = inside.TRASH
ENTRY = re.compile(r"[0-9a-f]{32}")


def discard(root: Path, path: Path) -> None:
    """Move a directory of a workspace to its trash."""
    place = root / FOLDER / uuid.uuid4().hex / path.relative_to(root)
    place.parent.mkdir(parents=True)
    path.rename(place)


def discarded(root: Path, pattern: str) -> Iterator[Path]:
    """Yield the paths in the trash that matched a glob before they were discarded."""
    return (root / FOLDER).glob(f"*/{pattern}")


def empty(root: Path) -> int:
    """Delete everything in the trash, and return the number of bytes that this frees."""
    freed = 0
    for entry in sorted((root / FOLDER).glob("*")):
        if ENTRY.fullmatch(entry.name):
            freed += size_of(entry)
            inside.remove(entry)
    return freed


def size_of(folder: Path) -> int:
    """Return the total size of all files in a folder in bytes."""
    return sum(file.lstat().st_size for file in leaves_below(folder))


_KEY = re.compile(r"[0-9a-f]{64}")


def garbage(store: Store) -> list[Artefact]:
    """Return the artefacts that nothing refers to: neither current/*.txt nor a live lease.

    Inputs of referenced artefacts, and the inputs of these, aren't garbage either. Several artefacts may
    share a key: attempts, and equal runs of two specialists. Of these, an input refers to the artefact with
    the recorded content; if none has this content any more, all artefacts with the key are kept. Paths
    outside of the store's layout are left alone.

    Raises:
        StoreError: if a list in current/ is lost, because its artefacts are unknown then.
    """
    for file in sorted((store.root / "current").glob(f"*{LOST}")):
        raise StoreError(
            str(file),
            cause="this list of used artefacts is lost, so gc can't tell which artefacts to keep",
            cure="Run the command that built its artefacts again, then delete the file",
        )
    artefacts = list(store.artefacts())
    by_path = {artefact.path.relative_to(store.root).as_posix(): artefact for artefact in artefacts}
    by_key: dict[str, list[Artefact]] = {}
    for artefact in artefacts:
        by_key.setdefault(artefact.key, []).append(artefact)
    # Leases are read before marks: a build that ends in between has already written its marks.
    used = leases.leased_keys(store.root)
    marked = (
        line for file in sorted((store.root / "current").glob("*.txt")) for line in read_mark(file)
    )
    open_ends = [by_path[line] for line in marked if line in by_path]
    open_ends += [artefact for artefact in artefacts if artefact.key in used]
    live: set[Path] = set()
    while open_ends:
        kept = open_ends.pop()
        if kept.path in live:
            continue
        live.add(kept.path)
        for record in kept.manifest.inputs:
            alike = by_key.get(record.key, [])
            open_ends += [
                artefact for artefact in alike if artefact.content == record.content
            ] or alike
    return [
        artefact
        for artefact in artefacts
        if artefact.path not in live and is_in_place(artefact, store.root)
    ]


def strange(store: Store) -> list[Path]:
    """Return the paths in a workspace that the store didn't create; gc leaves these paths alone."""
    folders = ((inside.TRASH, ENTRY), (inside.DRAFTS, _KEY), (leases.FOLDER, leases.ENTRY))
    odd = [
        path
        for name, made in folders
        for path in sorted((store.root / name).glob("*"))
        if not made.fullmatch(path.name)
    ]
    return odd + [
        artefact.path for artefact in store.artefacts() if not is_in_place(artefact, store.root)
    ]


def collect_garbage(store: Store, artefacts: Iterable[Artefact]) -> int:
    """Delete those of `artefacts` that are still garbage, and the leftovers of killed processes.

    Artefacts are moved to the trash first, so that readers never see a partly deleted artefact. If an
    earlier collection was interrupted, this one finishes it.

    Returns:
        The number of freed bytes.
    """
    chosen = {artefact.path for artefact in artefacts}
    if not (store.root / WORKSPACE_NAME).is_file():
        return 0
    with store.lock("gc"):
        freed = empty(store.root)
        with leases.deciding(store.root):
            leases.remove_dead(store.root)
            dead = [artefact for artefact in garbage(store) if artefact.path in chosen]
            for artefact in dead:
                _discard(store, artefact)
        freed += sum(record.num_bytes for artefact in dead for record in artefact.manifest.files)
        empty(store.root)
        return freed + _remove_drafts(store)


def _discard(store: Store, artefact: Artefact) -> None:
    """Move an artefact to the trash, and remove the folder of a run if no attempt is left in it.

    An empty folder would hide the same run in another folder. No trainer can be about to write there,
    because it would hold a lease on the run's key.
    """
    discard(store.root, artefact.path)
    folder = artefact.path.parent
    if folder.name == artefact.key[:KEY_DIGITS] and not any(folder.iterdir()):
        folder.rmdir()


def _remove_drafts(store: Store) -> int:
    """Delete drafts that no process is writing, and return the freed bytes."""
    freed = 0
    for draft in sorted((store.root / inside.DRAFTS).glob("*")):
        if not _KEY.fullmatch(draft.name):
            continue
        lock = filelock.FileLock(inside.lock(store.root, f"{draft.name}.lock"), timeout=0)
        with contextlib.suppress(filelock.Timeout), lock:
            freed += size_of(draft)
            inside.remove(draft)
    return freed
