"""Texts of files as documents hold them: whole versions, and the stretches that contexts show."""

from collections.abc import Collection, Iterator
from pathlib import Path

from curriculum import parquet
from schemas.families import VERSIONS_FAMILY

DOCUMENTS_AT_ONCE = 64
"""Texts in memory."""


def read_versions(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield (lineage, text) of each version of a file; nothing for the documents of other families."""
    for path in parquet.shards_of(folder):
        with parquet.File(path) as file:
            columns = ["family", "lineage", "parts", "text"]
            for batch in file.iter_batches(batch_size=DOCUMENTS_AT_ONCE, columns=columns):
                if batch.num_rows and batch["family"][0].as_py() != VERSIONS_FAMILY:
                    return
                for row in batch.to_pylist():
                    text = row["text"].encode()
                    own = [part for part in row["parts"] if part["source"] >= 0]
                    if own:
                        start, end = own[0]["start"], own[-1]["end"]
                        yield row["lineage"], text[start:end].decode()


def read_shown(folder: Path, lineages: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (lineage, text) of the stretches that documents show of some files, each stretch once."""
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
