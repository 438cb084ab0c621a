"""A documents artefact and its tokens, read side by side, document after document."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curriculum.encode.document_batch import DocumentBatch, Split, columns_of, with_structure
from curriculum.encode.encoded_documents import FitResult, TokenizedDocument
from curriculum.encode.encoded_turns import TurnFitter
from curriculum.encode.fit import Fitter, policy_of
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore, document_batches
from curriculum.tokens.turns import turn_format
from schemas.corpus import Overlong
from schemas.errors import SchemaError
from schemas.families import CHAT_FAMILY


def fitter_of(
    tokenizer: Tokenizer, *, row_length: int, family: str, overlong: Overlong = "skip"
) -> Fitter | TurnFitter:
    """The fitter of a family; of what has structure it is its base family's.

    `overlong` says what becomes of conversations that are longer than a row.
    """
    if family == CHAT_FAMILY:
        return TurnFitter(
            tokenizer=tokenizer,
            row_length=row_length,
            overlong=overlong,
            format=turn_format(tokenizer),
        )
    return Fitter.of(tokenizer, row_length=row_length, policy=policy_of(family))


ApplyObjective = Callable[[TokenizedDocument, FitResult], FitResult]
"""Function that applies an objective to a document's encodings, of which there is one at least."""


def encode_documents(
    files: Sequence[Path],
    store: TokenStore,
    fitter: Fitter | TurnFitter,
    *,
    kept: npt.NDArray[np.bool_] | None = None,
    split: Split | None = None,
    structure: bool = False,
    objective: ApplyObjective | None = None,
) -> Iterator[FitResult]:
    """Fit each document of an artefact, in its order; `kept` [documents] leaves some out.

    With a `split` no held-out file stands in an encoding of a document with chunks that is trained on, and no
    chunk under a refused licence in any. Documents without chunks are never looked at.
    With `structure`, `files` are of v6_enriched and `store` has the tokens of its base family: encodings
    are those of the base, and have structure. `objective` is applied between fitting and structure, which
    follows the tokens. Memory is one batch of documents and one document's tokens.
    """
    batches = (
        batch
        for path in files
        for batch in document_batches([path], columns_of(path, split=split, structure=structure))
    )
    token_bytes, leading_space = fitter.tokenizer.token_bytes, fitter.tokenizer.leading_space
    for batch, index, document in _tokenized(batches, store, split, kept):
        fitted = fitter.fit(document)
        if objective is not None and fitted.encodings:
            fitted = objective(document, fitted)
        if structure and fitted.encodings:
            found = batch.structure(index)
            fitted = with_structure(fitted, found, token_bytes, leading_space)
        yield fitted


def _tokenized(
    batches: Iterator[pa.RecordBatch],
    store: TokenStore,
    split: Split | None,
    kept: npt.NDArray[np.bool_] | None,
) -> Iterator[tuple[DocumentBatch, int, TokenizedDocument]]:
    """Each document with its batch, and its place there."""
    row, lengths = 0, store.part_lengths()
    for columns in batches:
        batch = DocumentBatch(columns, row, split)
        tokens = lengths.take(batch.num_parts)
        if row + len(batch) > len(store) or len(tokens) < batch.num_parts:
            raise _mismatched(store, row + len(batch))
        wanted = np.arange(len(batch))
        if kept is not None:
            wanted = wanted[kept[row : row + len(batch)]]
        for index in wanted.tolist():
            yield batch, index, batch.document(index, store, tokens)
        row += len(batch)
    if row != len(store):
        raise _mismatched(store, row)


def _mismatched(store: TokenStore, documents: int) -> SchemaError:
    return SchemaError(
        str(store.folder),
        f"{len(store)} documents",
        cause=f"they are not the tokens of these documents, of which there are {documents} or more",
        cure="Tokenise the documents again",
    )
