"""What nothing refers to any more."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from curriculum.store.store import Artefact, Store


def garbage(store: Store) -> list[Artefact]:
    """The artefacts that neither stand in current/*.txt nor are inputs, at any depth, of those that do.

    Several may have one key: attempts, and runs alike of two specialists. An input is the one that has the
    content that was read; where none has it any more, all of that key are kept.
    """
    artefacts = list(store.artefacts())
    by_path = {each.path.relative_to(store.root).as_posix(): each for each in artefacts}
    by_key: dict[str, list[Artefact]] = {}
    for each in artefacts:
        by_key.setdefault(each.key, []).append(each)
    marked = (
        line
        for file in sorted((store.root / "current").glob("*.txt"))
        for line in file.read_text().splitlines()
    )
    open_ends = [by_path[line] for line in marked if line in by_path]
    live: set[Path] = set()
    while open_ends:
        kept = open_ends.pop()
        if kept.path in live:
            continue
        live.add(kept.path)
        for record in kept.manifest.inputs:
            alike = by_key.get(record.key, [])
            open_ends += [each for each in alike if each.content == record.content] or alike
    return [each for each in artefacts if each.path not in live]


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
