"""Contracts of artefacts: required contents of each stage's files, and their consistency with inputs.

Builds read artefacts of their own workspace without these checks. Artefacts of other workspaces are checked
once, by `foreign_artefacts` in a sandbox.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from curriculum import parquet
from curriculum.corpus.file_histories import FILE_HISTORIES_NAME
from curriculum.corpus.other_corpora import LEFT_OUT_FILES_NAME
from curriculum.corpus.select import KEPT_NAME, SELECTION_NAME, SIDES_NAME
from curriculum.corpus.signatures import SIGNATURES_NAME
from curriculum.families.document_check import check_document
from curriculum.families.document_writer import documents_in
from curriculum.graph.clang import GraphSnapshot
from curriculum.packing.held_out_order import ORDER_NAME, read_order
from curriculum.packing.row_check import check as check_rows
from curriculum.store import Artefact
from curriculum.tokens.token_bytes_check import check_token_bytes
from curriculum.tokens.token_store import TokenStore
from curriculum.tokens.tokenizer_texts import TOKENIZER_NAME
from curriculum.tokens.train import TOKEN_BYTES_SCHEMA
from schemas.corpus import ContextSettings
from schemas.document import (
    DOCUMENT_SCHEMA,
    FILE_HISTORIES_SCHEMA,
    KEPT_SCHEMA,
    LEFT_OUT_FILES_SCHEMA,
    PARTS,
    SELECTION_SCHEMA,
    SIDES_SCHEMA,
    SIGNATURES_SCHEMA,
    TOKEN_PARTS_SCHEMA,
    Side,
)
from schemas.mixture import LEFT_OUT_SCHEMA, PLAN_SCHEMA, MixtureReport
from schemas.packed_row import PACKED_ROW_SCHEMA
from schemas.stages import STAGES
from schemas.structure import ENRICHED_SCHEMA, STRUCTURE_COLUMNS
from schemas.windows import WINDOWS_NAME, WINDOWS_SCHEMA

Columns = Mapping[str, tuple[pa.Schema, ...]]
"""Allowed schemas of Parquet files, by the prefix of the file's name."""
COLUMNS: Mapping[str, Columns] = {
    "documents": {
        PARTS: (DOCUMENT_SCHEMA, ENRICHED_SCHEMA),
        FILE_HISTORIES_NAME: (FILE_HISTORIES_SCHEMA,),
    },
    "selections": {
        KEPT_NAME: (KEPT_SCHEMA,),
        SELECTION_NAME: (SELECTION_SCHEMA,),
        SIDES_NAME: (SIDES_SCHEMA,),
        SIGNATURES_NAME: (SIGNATURES_SCHEMA,),
        LEFT_OUT_FILES_NAME: (LEFT_OUT_FILES_SCHEMA,),
    },
    "tokenizers": {"token_bytes.parquet": (TOKEN_BYTES_SCHEMA,)},
    "tokens": {"parts.parquet": (TOKEN_PARTS_SCHEMA,)},
    "rows": {
        PARTS: (PACKED_ROW_SCHEMA, pa.schema([*PACKED_ROW_SCHEMA, *STRUCTURE_COLUMNS])),
        WINDOWS_NAME: (WINDOWS_SCHEMA,),
    },
    "mixtures": {"plan.": (PLAN_SCHEMA,), "left_out.": (LEFT_OUT_SCHEMA,)},
}
"""Parquet files of each stage.

Files of indexes are checked by their reader. Artefacts of other stages are never imported.
"""


def require_contract(artefact: Artefact, made_of: Mapping[str, Path]) -> None:
    """Raise unless the files of an artefact match the contract of its stage.

    Args:
        artefact: may be a draft whose manifest isn't written yet.
        made_of: folders of the artefacts that tokens were made of, by stage.

    Raises:
        ValueError: for the first violation.
        CurriculumError: for the first violation.
    """
    stage = artefact.manifest.stage
    artefact.reported(STAGES[stage].report)
    for name in _required_files(artefact):
        if not (artefact.path / name).is_file():
            raise ValueError(f"{name} is missing")
    for file in artefact.files() if stage in COLUMNS else ():
        _require_columns(file, file.relative_to(artefact.path).as_posix(), COLUMNS[stage])
    if stage in _CONTENTS:
        _CONTENTS[stage](artefact, made_of)


def _required_files(artefact: Artefact) -> tuple[str, ...]:
    """Return the names of the files that a build reads from an artefact."""
    is_kept = artefact.manifest.labels.get("step") == "kept"
    required = {
        "selections": (KEPT_NAME if is_kept else SELECTION_NAME, SIDES_NAME),
        "mixtures": ("plan.parquet",),
        "tokenizers": (TOKENIZER_NAME, "token_bytes.parquet"),
        "tokens": ("parts.parquet",),
    }
    return required.get(artefact.manifest.stage, ())


def _require_columns(file: Path, name: str, columns: Columns) -> None:
    known = next((schemas for begin, schemas in columns.items() if name.startswith(begin)), None)
    if known is None:
        raise ValueError(f"{name} is not a table of its stage")
    found = parquet.read_schema(file).remove_metadata()
    if any(found.equals(schema.remove_metadata()) for schema in known):
        return
    wanted = known[0]
    for column in wanted:
        if column.name not in found.names:
            raise ValueError(f"{name} has no column {column.name}")
        if found.names.count(column.name) == 1 and not found.field(column.name).equals(column):
            raise ValueError(f"column {column.name} of {name} is {found.field(column.name).type}")
    raise ValueError(f"{name} has the columns {', '.join(found.names)}")


def _require_documents(artefact: Artefact, _: Mapping[str, Path]) -> None:
    files = artefact.shards()
    if not files:
        return
    settings = artefact.configured(ContextSettings)
    stored = parquet.read_table(files, columns=["document_id", "num_bytes", "family"]).to_pylist()
    for row, document in zip(stored, documents_in(artefact.path), strict=True):
        check_document(document, settings)
        made = {
            "document_id": document.document_id,
            "num_bytes": len(document.text.encode()),
            "family": artefact.manifest.labels.get("family"),
        }
        if row != made:
            raise ValueError(f"document {document.document_id} is stored as {row}, but is {made}")


def _require_index(artefact: Artefact, _: Mapping[str, Path]) -> None:
    snapshot = GraphSnapshot.open(artefact.path)
    nodes = range(len(snapshot.nodes))
    for edge in snapshot.edges:
        if edge.source not in nodes or edge.target not in nodes:
            raise ValueError(f"an edge leads from {edge.source} to {edge.target} of {len(nodes)}")


def _require_mixture(artefact: Artefact, _: Mapping[str, Path]) -> None:
    report = artefact.reported(MixtureReport)
    names = ["position", "shard", "row", "valid_tokens", "row_length"]
    table = parquet.read_table(artefact.path / "plan.parquet", columns=names)
    if len(table) != report.rows:
        raise ValueError(f"its plan has {len(table):,} rows, but its report {report.rows:,}")
    if report.steps * report.tokens_per_step != report.slots * report.slot_length:
        raise ValueError(f"{report.slots:,} slots aren't {report.steps:,} whole steps")
    position = table["position"].to_numpy()
    if not np.array_equal(position, np.arange(len(position))):
        raise ValueError("the positions of its plan aren't 0, 1, 2 and so on")
    for name in names[1:]:
        if len(table) and int(table[name].to_numpy().min()) < 0:
            raise ValueError(f"its plan has a {name} below 0")


def _require_rows(artefact: Artefact, _: Mapping[str, Path]) -> None:
    rows = 0
    if artefact.shards():
        report = check_rows(artefact.path)
        report.raise_first()
        rows = report.rows
    if (artefact.path / ORDER_NAME).is_file():
        for held_out in read_order(artefact.path).rows:
            if not 0 <= held_out.row < rows:
                raise ValueError(f"{ORDER_NAME} lists row {held_out.row} of {rows}")


def _require_selection(artefact: Artefact, _: Mapping[str, Path]) -> None:
    for name in (KEPT_NAME, SELECTION_NAME):
        if (file := artefact.path / name).is_file():
            keys = parquet.read_table(file, columns=["family", "repository", "document_id"])
            listed = [*zip(*(column.to_pylist() for column in keys.columns), strict=True)]
            if any(before >= after for before, after in pairwise(listed)):
                raise ValueError(f"{name} lists a document twice, or isn't sorted")
    for name in (KEPT_NAME, SELECTION_NAME, SIDES_NAME):
        if (file := artefact.path / name).is_file():
            sides = {*map(str, parquet.read_table(file, columns=["split"])["split"].to_pylist())}
            if unknown := sorted(sides - {*get_args(Side)}):
                raise ValueError(f"{name} has an unknown split {unknown[0]!r}")


def _require_tokens(artefact: Artefact, made_of: Mapping[str, Path]) -> None:
    store = TokenStore.open(artefact.path)
    sizes = parquet.read_table(made_of["tokenizers"] / "token_bytes.parquet")["num_bytes"]
    if len(store.ids) and int(store.ids.max()) >= len(sizes):
        raise ValueError(f"id {int(store.ids.max())} of a tokenizer with {len(sizes):,}")
    documents = parquet.shards_of(made_of["documents"])
    texts = parquet.read_table(documents, columns=["parts"])["parts"] if documents else None
    counts = pc.list_value_length(texts).to_numpy() if texts is not None else np.zeros(0, int)
    if len(counts) != len(store):
        raise ValueError(f"it has {len(store):,} documents, but was made of {len(counts):,}")
    parts = parquet.read_table(artefact.path / "parts.parquet")
    document, part, start, end = (parts[name].to_numpy() for name in TOKEN_PARTS_SCHEMA.names)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    if not np.array_equal(
        document, np.repeat(np.arange(len(counts)), counts)
    ) or not np.array_equal(part, np.arange(len(first)) - first):
        raise ValueError("its parts differ from those of the documents that it was made of")
    if (start < store.offsets[document]).any() or (end > store.offsets[document + 1]).any():
        raise ValueError("the tokens of a part are outside of its document")
    if (end < start).any() or (start[1:] < end[:-1]).any():
        raise ValueError("the tokens of its parts overlap")
    if texts is None:
        return
    before = np.concatenate(([0], np.cumsum(sizes.to_numpy()[store.ids], dtype=np.int64)))
    flat: Any = pc.list_flatten(texts)
    flat = flat.combine_chunks()
    bytes_of = flat.field("end").to_numpy() - flat.field("start").to_numpy()
    if not np.array_equal(before[end] - before[start], bytes_of):
        raise ValueError("the tokens of a part have another number of bytes than its text")


def _require_tokenizer(artefact: Artefact, _: Mapping[str, Path]) -> None:
    check_token_bytes(artefact)


_CONTENTS: Mapping[str, Callable[[Artefact, Mapping[str, Path]], None]] = {
    "documents": _require_documents,
    "indexes": _require_index,
    "mixtures": _require_mixture,
    "rows": _require_rows,
    "selections": _require_selection,
    "tokenizers": _require_tokenizer,
    "tokens": _require_tokens,
}
