"""gc: what nothing refers to any more, and its removal.

    .trash/<uuid>/<path in the workspace>

Readers don't look there. What an interrupted gc left in it is removed by the next one.
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
    """Paths in the trash that lay in the workspace under a pattern."""
    return (root / FOLDER).glob(f"*/{pattern}")


def empty(root: Path) -> int:
    """Remove all that was put in the trash; the bytes that this freed."""
    freed = 0
    for entry in sorted((root / FOLDER).glob("*")):
        if ENTRY.fullmatch(entry.name):
            freed += size_of(entry)
            inside.remove(entry)
    return freed


def size_of(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.lstat().st_size for file in leaves_below(folder))


_KEY = re.compile(r"[0-9a-f]{64}")


def garbage(store: Store) -> list[Artefact]:
    """The artefacts that neither stand in current/*.txt or a live lease nor are inputs of those that do.

    Several may have one key: attempts, and runs alike of two specialists. An input is the one that has the
    content that was read; where none has it any more, all of that key are kept. What doesn't lie as the
    store lays it is left alone: somebody else put it there.

    Raises:
        StoreError: where a list of current/ is lost, so that what it kept isn't known.
    """
    for file in sorted((store.root / "current").glob(f"*{LOST}")):
        raise StoreError(
            str(file),
            cause="this list of artefacts in use is lost, so that gc can't tell what to keep",
            cure="Give the command again that made its artefacts, then delete the file",
        )
    artefacts = list(store.artefacts())
    by_path = {each.path.relative_to(store.root).as_posix(): each for each in artefacts}
    by_key: dict[str, list[Artefact]] = {}
    for each in artefacts:
        by_key.setdefault(each.key, []).append(each)
    # Leases before pins: a build that ends in between has written its pins.
    used = leases.leased_keys(store.root)
    marked = (
        line for file in sorted((store.root / "current").glob("*.txt")) for line in read_mark(file)
    )
    open_ends = [by_path[line] for line in marked if line in by_path]
    open_ends += [each for each in artefacts if each.key in used]
    live: set[Path] = set()
    while open_ends:
        kept = open_ends.pop()
        if kept.path in live:
            continue
        live.add(kept.path)
        for record in kept.manifest.inputs:
            alike = by_key.get(record.key, [])
            open_ends += [each for each in alike if each.content == record.content] or alike
    return [
        artefact
        for artefact in artefacts
        if artefact.path not in live and is_in_place(artefact, store.root)
    ]


def strange(store: Store) -> list[Path]:
    """List the paths that gc leaves alone, for the store didn't make them."""
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
    """Remove those of the artefacts that are still garbage, and what killed processes left; the bytes freed.

    What is removed is moved to the trash before, so that no reader sees half of it; an earlier gc that was
    interrupted is finished.
    """
    chosen = {artefact.path for artefact in artefacts}
    if not (store.root / WORKSPACE_NAME).is_file():
        return 0
    with store.lock("gc"):
        freed = empty(store.root)
        with leases.deciding(store.root):
            leases.remove_dead(store.root)
            dead = [each for each in garbage(store) if each.path in chosen]
            for each in dead:
                _discard(store, each)
        freed += sum(record.num_bytes for each in dead for record in each.manifest.files)
        empty(store.root)
        return freed + _remove_drafts(store)


def _discard(store: Store, artefact: Artefact) -> None:
    """Move an artefact to the trash, and remove the folder of a run that has no attempt any more.

    An empty one would hide the same run in another folder. No trainer is about to write there: it would hold
    a lease on the run's key.
    """
    discard(store.root, artefact.path)
    folder = artefact.path.parent
    if folder.name == artefact.key[:KEY_DIGITS] and not any(folder.iterdir()):
        folder.rmdir()


def _remove_drafts(store: Store) -> int:
    """Remove the drafts that no process is writing; the bytes that this freed."""
    freed = 0
    for draft in sorted((store.root / inside.DRAFTS).glob("*")):
        if not _KEY.fullmatch(draft.name):
            continue
        lock = filelock.FileLock(inside.lock(store.root, f"{draft.name}.lock"), timeout=0)
        with contextlib.suppress(filelock.Timeout), lock:
            freed += size_of(draft)
            inside.remove(draft)
    return freed
