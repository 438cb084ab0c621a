"""A documents artefact and its tokens, read side by side, document after document."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curriculum.encode.documents import Fitted, Int32s, Spans, Tokenised
from curriculum.encode.fit import Fitter
from curriculum.tokens.store import TokenStore, document_batches
from schemas.document import SPAN_KINDS
from schemas.errors import SchemaError


def encode_documents(
    files: Sequence[Path],
    store: TokenStore,
    fitter: Fitter,
    *,
    kept: npt.NDArray[np.bool_] | None = None,
) -> Iterator[Fitted]:
    """What became of each document of an artefact, in its order; `kept` [documents] leaves some out.

    Memory is one batch of documents and one document's tokens.
    """
    for document in _tokenised(files, store, kept):
        yield fitter.fit(document)


def _tokenised(
    files: Sequence[Path], store: TokenStore, kept: npt.NDArray[np.bool_] | None
) -> Iterator[Tokenised]:
    row, lengths = 0, store.part_lengths()
    columns = ["document_id", "language", "num_bytes", "parts", "spans"]
    for batch in document_batches(files, columns):
        table = _Batch(batch)
        tokens = lengths.take(table.num_parts)
        if row + batch.num_rows > len(store) or len(tokens) < table.num_parts:
            raise _strangers(store, row + batch.num_rows)
        wanted = range(batch.num_rows)
        for index in wanted if kept is None else np.flatnonzero(kept[row : row + batch.num_rows]):
            yield table.document(int(index), row, store, tokens)
        row += batch.num_rows
    if row != len(store):
        raise _strangers(store, row)


def _strangers(store: TokenStore, documents: int) -> SchemaError:
    return SchemaError(
        str(store.folder),
        f"{len(store)} documents",
        cause=f"they are not the tokens of these documents, of which there are {documents} or more",
        cure="Tokenise the documents again",
    )


class _Batch:
    """Columns of a batch of documents as flat arrays."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._ids: list[Any] = batch.column("document_id").to_pylist()
        self._languages: list[Any] = batch.column("language").to_pylist()
        self._parts, part = _flat(batch.column("parts"))
        self._spans, span = _flat(batch.column("spans"))
        self._part_ends: Int32s = part.field("end").to_numpy()
        self._ranks: Int32s = part.field("rank").to_numpy()
        self._elidable = part.field("elidable").to_numpy(zero_copy_only=False).astype(np.bool_)
        kinds = pc.index_in(span.field("kind"), value_set=pa.array(SPAN_KINDS))
        self._kinds: Int32s = kinds.to_numpy()
        self._starts: Int32s = span.field("start").to_numpy()
        self._ends: Int32s = span.field("end").to_numpy()
        self.num_parts = int(self._parts[-1])

    def document(
        self, index: int, first_row: int, store: TokenStore, tokens: npt.NDArray[np.int64]
    ) -> Tokenised:
        """One document of the batch; `tokens` are the lengths of all its parts."""
        parts = slice(self._parts[index], self._parts[index + 1])
        spans = slice(self._spans[index], self._spans[index + 1])
        return Tokenised(
            row=first_row + index,
            document_id=self._ids[index],
            language=self._languages[index],
            ids=store.tokens(first_row + index),
            part_bytes=_after_zero(self._part_ends[parts]),
            part_tokens=_after_zero(np.cumsum(tokens[parts])),
            ranks=self._ranks[parts],
            elidable=self._elidable[parts],
            spans=Spans(
                kinds=self._kinds[spans], starts=self._starts[spans], ends=self._ends[spans]
            ),
        )


def _flat(column: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Borders [n + 1] and items of a list column."""
    counts = pc.list_value_length(column).to_numpy()
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), column.flatten()


def _after_zero(values: npt.NDArray[np.integer[Any]]) -> Int32s:
    borders = np.zeros(len(values) + 1, dtype=np.int32)
    borders[1:] = values
    return borders
