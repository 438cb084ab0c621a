"""What nothing refers to any more."""

import shutil
from collections.abc import Iterable

from curriculum.store.store import Artefact, Store


def garbage(store: Store) -> list[Artefact]:
    """The artefacts that neither stand in current/*.txt nor are inputs, at any depth, of those that do."""
    artefacts = {artefact.key: artefact for artefact in store.artefacts()}
    by_path = {
        artefact.path.relative_to(store.root).as_posix(): artefact
        for artefact in artefacts.values()
    }
    marked = (
        line
        for file in sorted((store.root / "current").glob("*.txt"))
        for line in file.read_text().splitlines()
    )
    open_ends = [by_path[line].key for line in marked if line in by_path]
    live: set[str] = set()
    while open_ends:
        key = open_ends.pop()
        if key in artefacts and key not in live:
            live.add(key)
            open_ends.extend(each.key for each in artefacts[key].manifest.inputs)
    return [artefact for key, artefact in artefacts.items() if key not in live]


def collect(store: Store, artefacts: Iterable[Artefact]) -> int:
    """Remove artefacts and what killed writers left behind; the bytes that this freed."""
    freed = 0
    for artefact in artefacts:
        with store.lock(artefact.key):
            freed += sum(record.num_bytes for record in artefact.manifest.files)
            shutil.rmtree(artefact.path)
    for draft in (store.root / ".drafts").glob("*"):
        with store.lock(draft.name):
            if draft.exists():
                freed += sum(file.stat().st_size for file in draft.rglob("*") if file.is_file())
                shutil.rmtree(draft)
    return freed
