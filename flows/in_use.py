"""What is in use: the names in current/ by which gc keeps artefacts, and the catalog that lists them."""

from collections.abc import Sequence

from curriculum.store import Artefact, Store


def mark(store: Store, name: str, artefacts: Sequence[Artefact]) -> None:
    """Let a name stand for these artefacts from now on, and catalog.sql read what is in use then."""
    # `status` loads this and asks nothing of DuckDB.
    from curriculum import catalog

    store.mark(name, artefacts)
    catalog.publish(store.root)
