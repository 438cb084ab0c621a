"""Current artefacts: the names in current/ by which gc keeps them, and the catalog that lists them."""

from collections.abc import Sequence

from curriculum.store import Artefact, Store, read_mark
from schemas.manifest import MANIFEST_NAME


def mark(store: Store, name: str, artefacts: Sequence[Artefact]) -> None:
    """Let a name stand for these artefacts from now on, and catalog.sql read what is in use then."""
    # `status` loads this and asks nothing of DuckDB.
    from curriculum import catalog

    store.mark(name, artefacts)
    catalog.publish(store.root)


def marked(store: Store, stage: str) -> list[Artefact]:
    """The artefacts of a stage that are marked as current, in the order in which they were published."""
    files = (store.root / "current").glob(f"{stage}-*.txt")
    lines = {line for file in files for line in read_mark(file)}
    there = [store.root / line for line in lines if (store.root / line / MANIFEST_NAME).is_file()]
    return sorted(map(store.load, there), key=lambda each: (each.manifest.created, each.path))
