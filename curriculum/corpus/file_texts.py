"""Texts of files in documents: whole versions of a file, and excerpts of files that contexts show."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from schemas.families import VERSIONS_FAMILY

DOCUMENTS_AT_ONCE = 64
"""Number of documents whose texts are in memory at a time."""


def read_versions(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (lineage, text) of each version of a file in `folder`; other families give nothing."""
    for batch in _version_batches(folder):
        for row, text in _version_texts(batch):
            yield row["lineage"], text


def _version_batches(folder: Path) -> Iterator[pa.RecordBatch]:
    columns = ["document_id", "family", "lineage", "parts", "text"]
    for path in parquet.shards_of(folder):
        with parquet.File(path) as file:
            for batch in file.iter_batches(batch_size=DOCUMENTS_AT_ONCE, columns=columns):
                if batch.num_rows and batch["family"][0].as_py() != VERSIONS_FAMILY:
                    return
                yield batch


def _version_texts(batch: pa.RecordBatch) -> Iterator[tuple[dict[str, Any], str]]:
    for row in batch.to_pylist():
        text = row["text"].encode()
        own = [part for part in row["parts"] if part["source"] >= 0]
        if own:
            start, end = own[0]["start"], own[-1]["end"]
            yield row, text[start:end].decode()


def read_chosen(folder: Path, chosen: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (lineage, document_id, text) of versions of files, for the document ids in `chosen`."""
    wanted = pa.array(sorted(chosen), type=pa.string())
    for batch in _version_batches(folder):
        found: Any = pc.is_in(batch["document_id"], value_set=wanted)
        for row, text in _version_texts(batch.filter(found)):
            yield row["lineage"], row["document_id"], text


def read_shown(folder: Path, lineages: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (lineage, text) of excerpts that documents show from the files `lineages`, without repetition."""
    seen: set[tuple[str, int, int]] = set()
    for path in parquet.shards_of(folder):
        with parquet.File(path) as file:
            columns = ["parts", "provenance", "text"]
            for batch in file.iter_batches(batch_size=DOCUMENTS_AT_ONCE, columns=columns):
                for row in batch.to_pylist():
                    new: dict[int, str] = {}
                    for number, source in enumerate(row["provenance"]):
                        stretch = source["blob"], source["start"], source["end"]
                        if source["lineage"] in lineages and stretch not in seen:
                            seen.add(stretch)
                            new[number] = source["lineage"]
                    text = row["text"].encode() if new else b""
                    for part in row["parts"]:
                        if part["source"] in new:
                            shown = text[part["start"] : part["end"]].decode()
                            yield new[part["source"]], shown
