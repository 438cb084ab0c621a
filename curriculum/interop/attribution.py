"""NOTICE.md of a data set: the repositories in the data, their licences and their copyright holders."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.interop.markdown_cells import markdown_cell
from curriculum.store import Artefact
from schemas.spdx import licence_kind

NOTICE_NAME = "NOTICE.md"
UNKNOWN = "not said"
_SOURCE = ("repository", "licence", "holder")
_BATCH = 10_000
"""Number of documents whose sources are in memory at a time."""


def notice(documents: Iterable[Artefact], only: Any) -> str:
    """Return the text of NOTICE.md for the documents whose ids are in `only`.

    The text lists the licences of each repository, each with its kind. Under each licence it lists the
    copyright holders that the files name.
    """
    found = {
        source
        for artefact in documents
        if artefact.manifest.stage == "documents"
        for file in artefact.shards()
        for source in _sources(file, only)
    }
    lines = [
        "# NOTICE",
        "",
        "This data set contains source code of others. Each repository is listed with the licences of the "
        "files that the data set shows, and with the copyright holders that these files or their licence "
        "files name. Licences are SPDX expressions; their texts are at https://spdx.org/licenses.",
    ]
    last = ("", "")
    for repository, licence, holder in sorted(found):
        if repository != last[0]:
            lines += ["", f"## {markdown_cell(repository)}"]
        if (repository, licence) != last:
            kind = licence_kind(None if licence == UNKNOWN else licence)
            lines += ["", f"{markdown_cell(licence)} ({kind})", ""]
        lines.append(f"- {markdown_cell(holder)}")
        last = repository, licence
    return "\n".join([*lines, ""])


def _sources(file: Path, only: Any) -> Iterator[tuple[str, str, str]]:
    """Yield (repository, licence, holder) of the sources of documents; a batch has no duplicates."""
    columns = ["document_id", *(f"provenance.list.element.{name}" for name in _SOURCE)]
    with parquet.File(file) as content:
        for batch in content.iter_batches(batch_size=_BATCH, columns=columns):
            chosen = batch.filter(pc.is_in(batch["document_id"], only))
            column: Any = chosen["provenance"]
            sources: Any = column.flatten()
            names = [sources.field(name).fill_null(UNKNOWN) for name in _SOURCE]
            table = pa.table(names, names=[*_SOURCE])
            for line in table.group_by([*_SOURCE]).aggregate([]).to_pylist():
                yield line["repository"], line["licence"], line["holder"]
