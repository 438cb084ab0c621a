"""Encoding of a documents artefact: its documents and their tokens are read in parallel."""

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
    """Return the fitter for documents of a family; documents with structure have that of their base family.

    `overlong` says whether conversations longer than a row are skipped or lose their oldest exchanges.
    """
    if family == CHAT_FAMILY:
        return TurnFitter(
            tokenizer=tokenizer,
            row_length=row_length,
            overlong=overlong,
            format=turn_format(tokenizer),
        )
    return Fitter.from_tokenizer(tokenizer, row_length=row_length, policy=policy_of(family))


ApplyObjective = Callable[[TokenizedDocument, FitResult], FitResult]
"""Function that applies an objective to the encodings of a document; called only if the document has
encodings.
"""


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
    """Yield the fit results of an artefact's documents, in order.

    Memory: one batch of documents, and the tokens of one document.

    Args:
        files: the documents, in order.
        store: the tokens of the documents.
        fitter: result of `fitter_of`.
        kept: [documents] True for the documents to fit; by default, all.
        split: if given, encodings of training documents contain no text of held-out files, and no encoding
            contains context under a refused licence. This concerns only documents with chunks.
        structure: whether `files` are of v6_enriched. `store` then has the tokens of the base family; the
            encodings equal those of the base family, with structure added.
        objective: applied after fitting, before structure is added.
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
    """Yield (batch, index in the batch, document) for each document that `kept` selects."""
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
        cause=f"these are not the tokens of these documents, which are at least {documents}",
        cure="Tokenize the documents again",
    )
