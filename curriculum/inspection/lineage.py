"""Artefacts that others were made from, and the origins of documents."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.store import Artefact, Store
from curriculum.store.artefact import KEY_DIGITS
from schemas.errors import StoreError

ORIGIN_SCHEMA = pa.schema(
    [
        pa.field(name, pa.string())
        for name in ("document_id", "family", "repository", "commit", "path", "licence", "lineage")
    ]
)
UNKNOWN = "?"
"""Origin that isn't known any more."""
_COLUMNS = ("document_id", "family", "licence", "lineage", "provenance")
Indices = npt.NDArray[np.int64]


def inputs(store: Store, artefact: Artefact, stage: str) -> list[Artefact]:
    """The artefacts of a stage that this one was made from, at any depth."""
    by_key = {each.key: each for each in store.artefacts()}
    waiting = [artefact]
    seen: dict[str, Artefact] = {}
    while waiting:
        for record in waiting.pop().manifest.inputs:
            if record.key in by_key and record.key not in seen:
                seen[record.key] = by_key[record.key]
                waiting.append(by_key[record.key])
    return [each for each in seen.values() if each.manifest.stage == stage]


def tokenizer_artefact(store: Store, artefact: Artefact) -> Artefact:
    """Return the tokenizer that rows or tokens were made with.

    Raises:
        StoreError: naming its folder, where it is gone.
    """
    if found := inputs(store, artefact, "tokenizers"):
        return found[0]
    keys = [record.key for record in artefact.manifest.inputs if record.name == "tokenizer"]
    raise StoreError(
        str(store.root.joinpath("tokenizers", *(key[:KEY_DIGITS] for key in keys))),
        cause=f"it is gone, and {artefact.path.relative_to(store.root)} was made with it",
        cure="Restore it or build again; --json needs no tokenizer",
    )


def origins(documents: Iterable[Artefact], ids: Sequence[str] | None = None) -> pa.Table:
    """A line a document of ORIGIN_SCHEMA, each id once; of all documents, or of some ids.

    A document of several files has the commit and path of its lineage: of the target's largest file.
    """
    files = [file for each in documents for file in parquet.shards_of(each.path)]
    wanted = None if ids is None else [("document_id", "in", pa.array(ids, pa.string()))]
    read = [_origins(_read(file, wanted)) for file in files]
    whole = pa.concat_tables([ORIGIN_SCHEMA.empty_table(), *read])
    return _first_of_each(whole, "document_id")


def _read(file: Any, wanted: list[parquet.Filter] | None) -> pa.Table:
    # Artefacts of earlier versions lack columns.
    there = set(parquet.read_schema(file).names)
    return parquet.read_table(
        file, columns=[name for name in _COLUMNS if name in there], filters=wanted
    )


def _origins(table: pa.Table) -> pa.Table:
    provenance: Any = table["provenance"].combine_chunks()
    flat: Any = provenance.flatten()
    known = {flat.type.field(index).name for index in range(flat.type.num_fields)}
    lineage: Any = table["lineage"] if "lineage" in table.column_names else pa.nulls(len(table))
    own: Any = pc.struct_field(flat, "lineage") if "lineage" in known else pa.nulls(len(flat))
    chosen = flat.take(pa.array(_choose(provenance, own, lineage)))
    columns: dict[str, Any] = {
        "document_id": table["document_id"],
        "family": table["family"],
        **{name: pc.struct_field(chosen, name) for name in ("repository", "commit", "path")},
        "licence": table["licence"],
        "lineage": lineage,
    }
    return pa.table({name: pc.cast(each, pa.string()) for name, each in columns.items()})


def _choose(provenance: Any, own: Any, lineage: Any) -> Indices:
    """Return indices into the flat list: each document's first entry of its lineage, else its last."""
    parents = pc.list_parent_indices(provenance).to_numpy(zero_copy_only=False).astype(np.int64)
    counts = pc.list_value_length(provenance).to_numpy(zero_copy_only=False).astype(np.int64)
    chosen = np.cumsum(counts) - 1
    same: Any = pc.equal(pc.cast(own, pa.string()), pc.cast(lineage, pa.string()).take(parents))
    is_mine = pc.fill_null(same, False)
    mine = np.flatnonzero(is_mine.to_numpy(zero_copy_only=False))
    # Backwards, so that the first of several stays.
    chosen[parents[mine[::-1]]] = mine[::-1]
    assert len(counts) == 0 or counts.min() > 0, "every document came from somewhere"
    return chosen


def _first_of_each(table: pa.Table, name: str) -> pa.Table:
    _, first = np.unique(table[name].to_numpy(zero_copy_only=False).astype(str), return_index=True)
    return table.take(np.sort(first))
