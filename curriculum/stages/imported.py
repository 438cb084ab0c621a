"""Imported rows take the place of built ones: they are there, and must be of the diet's tokenizer."""

from curriculum.mixing.imported import ImportedRows
from curriculum.stages.row_sources import RowsSpec
from curriculum.stages.tokens import TOKENIZER_NAME
from curriculum.store import Artefact, Store
from schemas.errors import DietError


def imported_of(
    store: Store, tokenizer: Artefact, wanted: RowsSpec
) -> tuple[Artefact, Artefact | None]:
    """(train, val) of a data set that was imported; None where nothing was imported to measure it.

    Raises:
        DietError: for rows of another tokenizer than `tokenizer`, whose ids mean something else.
        StoreError: for rows that aren't there any more.
    """
    rows = wanted.imported
    assert rows is not None, "only imported rows are taken as they are"
    train = store.load(store.root / rows.path)
    val = store.load(store.root / rows.measured_by) if rows.measured_by else None
    for each in (train, val):
        if each is not None:
            _require_tokenizer(store, each, tokenizer, rows)
    return train, val


def _require_tokenizer(
    store: Store, rows: Artefact, tokenizer: Artefact, said: ImportedRows
) -> None:
    """Contents are compared: the same tokenizer may have been trained here and given there.

    Of one that isn't trained yet only the key is known; it is looked at when it is.
    """
    theirs = next(each for each in rows.manifest.inputs if each.name == "tokenizer")
    if tokenizer.planned or tokenizer.content == theirs.content:
        return
    there = [each for each in store.artefacts("tokenizers") if each.key == theirs.key]
    other = f"tokenizer: {there[0].path / TOKENIZER_NAME}" if there else "their tokenizer.json"
    raise DietError(
        f"imported rows {said.name}, split {rows.manifest.labels['split']}",
        f"ids of tokenizer {theirs.content[:12]}",
        cause=f"the diet's is {tokenizer.content[:12]}, to which they mean other text",
        cure=f"Give the diet {other}, or import rows of the diet's tokenizer",
    )
