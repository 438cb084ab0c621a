"""Which artefact, and which document of it, a path, a key or an id means."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.compute as pc

from curriculum import parquet
from curriculum.inspection.line_filter import Wish
from curriculum.pipeline.references import (
    CHECKPOINTS,
    JOB,
    STEP,
    Begun,
    begun_in,
    current,
    named,
    run_of,
    way_of,
)
from curriculum.store import Artefact, Store
from schemas.errors import StoreError
from schemas.manifest import MANIFEST_NAME

DOCUMENT_STAGE = "documents"
LISTED = 3
_PACK_ID = re.compile(r"([0-9a-f]{12})-\d{10}")
"""How many of several candidates an error names."""


def store_of(home: Path, what: str) -> Store:
    """The workspace that a path lies in; for what is no path, the one at `home`.

    Raises:
        StoreError: for a path outside any workspace.
    """
    path = Path(what)
    if what and path.exists():
        try:
            return Store(Store.containing(path / MANIFEST_NAME).root, dry=True)
        except StoreError:
            # A run may be called as some folder here is.
            if path.is_absolute() or what.startswith("."):
                raise
    return Store(home, dry=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A checkpoint of a run, at runs/…/attempt=1/checkpoints/step=N."""

    path: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What is meant: artefacts in path order, an open run or a checkpoint; and which of its lines."""

    artefacts: tuple[Artefact, ...] = ()
    begun: Begun | None = None
    checkpoint: Checkpoint | None = None
    wish: Wish


def find(store: Store, what: str, wish: Wish) -> Found:
    """What is meant by a path, a key, the id of a row or a document, or the name of a run.

    A key goes before an id. The wish comes back with the whole id of the row or document, if one is
    wished.

    Raises:
        StoreError: where there is none, or several begin so.
        JobError: for the name of a specialist or phase that no run has.
    """
    path = Path(what).absolute()
    if not (path.exists() and path.is_relative_to(store.root)):
        path = store.root / what
    found: Found | None
    if what and path.exists():
        found = _at_path(store, path, wish)
    elif row := _PACK_ID.fullmatch(what):
        found = _of_row(store, row[1], what, wish)
    else:
        found = _with_key(store, what, wish) or _with_name(store, what, wish)
    if found is None:
        return _with_document(store, store.artefacts(DOCUMENT_STAGE), what, wish)
    if wish.document is None or not found.artefacts:
        return found
    stage = found.artefacts[0].manifest.stage
    if stage != DOCUMENT_STAGE:
        raise StoreError(
            what,
            f"stage {stage}",
            cause="--document looks into documents artefacts only",
            cure="Leave --document out, or name a folder below documents/",
        )
    return _with_document(store, found.artefacts, wish.document, wish)


def ids_beginning(artefact: Artefact, prefix: str) -> list[str]:
    """The ids of an artefact's documents that begin so, each once, in order."""
    found: dict[str, None] = {}
    for file in artefact.files(".parquet"):
        ids = parquet.read_table(file, columns=["document_id"])["document_id"]
        beginning = ids.filter(pc.starts_with(ids, prefix)).to_pylist()
        found |= dict.fromkeys(str(each) for each in beginning)
    return list(found)


def _at_path(store: Store, path: Path, wish: Wish) -> Found:
    """The artefacts at or below a path, or the checkpoint or open run that it is in."""
    folder = path if path.is_dir() else path.parent
    if folder != store.root:
        store.require_inside(folder)
    if folder.name.startswith(STEP) and folder.parent.name == CHECKPOINTS:
        return Found(checkpoint=Checkpoint(path=folder), wish=wish)
    if (folder / JOB).is_file() and not (folder / MANIFEST_NAME).is_file():
        return Found(begun=Begun.at(folder), wish=wish)
    files = sorted(folder.rglob(MANIFEST_NAME))
    below = [each.parent for each in files if CHECKPOINTS not in each.parts]
    if not below and path != store.root:
        # A file inside one, such as a table of its metrics, means all of it.
        above = (each for each in folder.parents if (each / MANIFEST_NAME).is_file())
        below = [next(above, folder)]
    if not below:
        raise StoreError(
            str(path), cause="the workspace holds nothing yet", cure="Begin with: curriculum demo"
        )
    return Found(artefacts=tuple(map(store.load, below)), wish=wish)


def _of_row(store: Store, key: str, pack_id: str, wish: Wish) -> Found | None:
    """The rows artefact that a pack_id names, and that row of it."""
    found = [each for each in store.artefacts("rows") if each.key.startswith(key)]
    return Found(artefacts=tuple(found[:1]), wish=replace(wish, pack_id=pack_id)) if found else None


def _with_key(store: Store, prefix: str, wish: Wish) -> Found | None:
    found = [each for each in store.artefacts() if each.key.startswith(prefix.lower())]
    if len(found) > 1:
        raise StoreError(
            prefix, _places(store, found), cause="several keys begin so", cure="Give more digits"
        )
    if found:
        return Found(artefacts=(found[0],), wish=wish)
    begun = [each for each in begun_in(store) if each.job.run_key.startswith(prefix.lower())]
    return _run(store, begun[-1], wish) if begun else None


def _with_name(store: Store, what: str, wish: Wish) -> Found | None:
    """The newest run with a name; where there is none yet the mixture that it would be trained on."""
    ways = {(each.job.specialist, each.job.branch) for each in begun_in(store)}
    whose = named(store.root, what, ways)
    if whose is not None:
        return _run(store, run_of(store, what, name="inspect"), wish)
    mixtures = current(store, "mixtures")
    whose = named(store.root, what, {way_of(each) for each in mixtures})
    mine = [each for each in mixtures if whose is not None and whose.has(each)]
    return Found(artefacts=tuple(mine), wish=wish) if mine else None


def _run(store: Store, begun: Begun, wish: Wish) -> Found:
    if (begun.path / MANIFEST_NAME).is_file():
        return Found(artefacts=(store.load(begun.path),), wish=wish)
    return Found(begun=begun, wish=wish)


def _with_document(store: Store, artefacts: Iterable[Artefact], prefix: str, wish: Wish) -> Found:
    held = [(each, ids_beginning(each, prefix.lower())) for each in artefacts]
    holders = [(each, ids) for each, ids in held if ids]
    known = sorted({name for _, ids in holders for name in ids})
    if not known:
        raise StoreError(
            prefix,
            cause="it is no path and no run's name, and no key and no document's id begins so",
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
    return Found(artefacts=(holders[0][0],), wish=replace(wish, document=known[0]))


def _places(store: Store, artefacts: list[Artefact]) -> str:
    listed = [each.path.relative_to(store.root).as_posix() for each in artefacts[:LISTED]]
    return ", ".join(listed)
