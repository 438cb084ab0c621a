"""Which artefact, and which document of it, a path, a key or an id means."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from curriculum.store import Artefact, Store
from flows.look.wish import Wish
from schemas.errors import StoreError
from schemas.manifest import MANIFEST_NAME

DOCUMENT_STAGE = "documents"
LISTED = 3
"""How many of several candidates an error names."""


def store_of(home: Path, what: str) -> Store:
    """The workspace that a path lies in; for what is no path, the one at `home`.

    Raises:
        StoreError: for a path outside any workspace.
    """
    path = Path(what)
    root = Store.containing(path / MANIFEST_NAME).root if path.exists() else home
    return Store(root, dry=True)


def find(store: Store, what: str, wish: Wish) -> tuple[Artefact, Wish]:
    """What is meant: an artefact by path or key, or the one that holds a document with such an id.

    A key goes before an id. The wish comes back with the whole id of the document, if one is wished.

    Raises:
        StoreError: where there is none, or several begin so.
    """
    artefact = _at_path(store, what) or _with_key(store, what)
    if artefact is None:
        return _with_document(store, store.artefacts(DOCUMENT_STAGE), what, wish)
    if wish.document is None:
        return artefact, wish
    if artefact.manifest.stage != DOCUMENT_STAGE:
        raise StoreError(
            what,
            f"stage {artefact.manifest.stage}",
            cause="--document looks into documents artefacts only",
            cure="Leave --document out, or name a folder below documents/",
        )
    return _with_document(store, [artefact], wish.document, wish)


def inputs(store: Store, artefact: Artefact, stage: str) -> list[Artefact]:
    """The artefacts of a stage that this one was made from, at any depth."""
    by_key = {each.key: each for each in store.artefacts()}
    keys = [artefact.key]
    seen: dict[str, Artefact] = {}
    while keys:
        for record in by_key[keys.pop()].manifest.inputs:
            if record.key in by_key and record.key not in seen:
                seen[record.key] = by_key[record.key]
                keys.append(record.key)
    return [each for each in seen.values() if each.manifest.stage == stage]


def ids_beginning(artefact: Artefact, prefix: str) -> list[str]:
    """The ids of an artefact's documents that begin so, each once, in order."""
    found: dict[str, None] = {}
    for file in artefact.files(".parquet"):
        ids = pq.read_table(file, columns=["document_id"])["document_id"]
        beginning = ids.filter(pc.starts_with(ids, prefix)).to_pylist()
        found |= dict.fromkeys(str(each) for each in beginning)
    return list(found)


def _at_path(store: Store, what: str) -> Artefact | None:
    """The artefact at a path, or the first one below a folder of several."""
    path = Path(what)
    if not path.exists():
        return None
    folder = path if path.is_dir() else path.parent
    below = [each for each in folder.rglob(MANIFEST_NAME) if "checkpoints" not in each.parts]
    first = min(below, default=folder / MANIFEST_NAME)
    return store.load(first.parent.absolute())


def _with_key(store: Store, prefix: str) -> Artefact | None:
    found = [each for each in store.artefacts() if each.key.startswith(prefix.lower())]
    if len(found) > 1:
        raise StoreError(
            prefix, _places(store, found), cause="several keys begin so", cure="Give more digits"
        )
    return found[0] if found else None


def _with_document(
    store: Store, artefacts: Iterable[Artefact], prefix: str, wish: Wish
) -> tuple[Artefact, Wish]:
    held = [(each, ids_beginning(each, prefix.lower())) for each in artefacts]
    holders = [(each, ids) for each, ids in held if ids]
    known = sorted({name for _, ids in holders for name in ids})
    if not known:
        raise StoreError(
            prefix,
            cause="it is no path, and no key and no document's id begins so",
            cure="`curriculum status` lists what there is",
        )
    if len(known) > 1:
        raise StoreError(
            prefix,
            ", ".join(known[:LISTED]),
            cause=f"{len(known):,} documents' ids begin so",
            cure="Give more digits",
        )
    if len(holders) > 1:
        raise StoreError(
            prefix,
            _places(store, [each for each, _ in holders]),
            cause=f"{len(holders)} artefacts hold this document",
            cure=f"Name one of them: curriculum inspect PATH --document {known[0][:12]}",
        )
    return holders[0][0], replace(wish, document=known[0])


def _places(store: Store, artefacts: list[Artefact]) -> str:
    listed = [each.path.relative_to(store.root).as_posix() for each in artefacts[:LISTED]]
    return ", ".join(listed)
