"""Inputs and outputs of fitting, and their counts for a manifest."""

from bisect import bisect_left
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from curriculum.tokens.encoding import Encoding, Spans
from schemas.errors import TurnError
from schemas.reports import EncodeReport, LengthBucket

Outcome = Literal[
    "whole", "elided", "divided", "routed", "straddles", "refused", "too_long", "dropped"
]
"""Outcomes of fitting, which the package's docstring describes.

For conversations: `refused` if the chat template can't mark it, `too_long` if it is longer than a row.
"""
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenizedDocument:
    """Document with its tokens, before fitting."""

    row: int
    """Number of the document's row in the documents artefact."""
    document_id: str
    flat_id: str
    """Id of the document; for a document with structure, that of its base document."""
    language: str
    ids: npt.NDArray[np.integer[Any]]
    """Token ids of the text, with BOS before it and EOS after it if the tokenizer has them."""
    part_bytes: Int32s
    """Borders of the parts, from 0 to the number of bytes, [parts + 1]."""
    part_tokens: Int32s
    """Borders of the parts, from 0 to the number of text tokens, [parts + 1]; BOS and EOS aren't counted."""
    part_kinds: Int32s
    """Kind of each part, as an index into PART_KINDS, [parts]."""
    ranks: Int32s
    elidable: Bools
    spans: Spans
    generated: Bools
    """True for each part without source text, such as headers, path lines and gap lines, [parts]."""
    other_side: Bools
    """True for each part of the context that must be removed because its chunk contains held-out text,
    [parts].
    """
    refused: Bools
    """True for each other part that must be removed because its chunk contains text under a refused licence,
    [parts].
    """
    straddles: bool = False
    """True if the target itself contains text from the other split."""
    context: Int32s | None = None
    """Range of parts [first, after) of each context chunk, [chunks, 2]; None for documents without chunks."""
    targets_alone: bool = False
    """True for a held-out document with context: only its target may be scored, since its context may come
    from training files.
    """

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the text."""
        return int(self.part_bytes[-1])

    @property
    def forbidden(self) -> Bools:
        """Flags of the context parts that must be removed even if the row has room, [parts]."""
        return self.other_side | self.refused

    @property
    def units(self) -> Int32s:
        """Index of the unit to which each part belongs, [parts]; a unit is kept or removed as a whole.

        Adjacent parts of one rank form a unit. In documents with chunks, all parts of one rank form a unit,
        so that a path line is removed with the last chunk of its run.
        """
        keys = np.stack((self.ranks, self.elidable, self.other_side, self.refused))
        if self.context is None:
            borders = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
            first: Int32s = np.zeros(min(1, keys.shape[1]), dtype=np.int32)
            return np.concatenate((first, np.cumsum(borders, dtype=np.int32)))
        return np.unique(keys, axis=1, return_inverse=True)[1].astype(np.int32)

    def chunks_of(self, dropped: Bools) -> "ChunkCounts | None":
        """Return the counts of context chunks after the parts in `dropped` [parts] are removed.

        A chunk counts as removed if its last part is removed. The result is None for documents without
        chunks.
        """
        if self.context is None:
            return None
        last = self.context[:, 1] - 1
        banned, refused, elided = self.other_side[last], self.refused[last], dropped[last]
        return ChunkCounts(
            kept=int((~elided).sum()),
            elided=int((elided & ~banned & ~refused).sum()),
            other_side=int((elided & banned).sum()),
            refused=int((elided & refused).sum()),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkCounts:
    """Number of context chunks by outcome."""

    kept: int
    elided: int
    """Chunks that are removed because the row has no room."""
    other_side: int
    """Chunks that are removed from training documents because they contain text of held-out files."""
    refused: int
    """Chunks that are removed because the corpus refuses their licence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureCounts:
    """Counts of the chunks and edges of a document, and of those that its encodings lack."""

    chunks: int
    chunks_without_tokens: int
    """Number of chunks that are in no encoding, because they are elided or smaller than a token."""
    chunks_cut: int
    """Number of chunks that an objective splits into several stretches; these stretches have no edges."""
    edges: int
    edges_dropped: int
    """Number of edges that are in no encoding, because one of their chunks is elided, split, or in another
    division.
    """


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FitResult:
    """Encodings of one document, and its outcome."""

    row: int
    document_id: str
    outcome: Outcome
    encodings: tuple[Encoding, ...] = ()
    """Encodings in the order of the text: several for a divided document, none for an excluded one, else one.
    """
    num_bytes: int
    num_tokens: int
    """Number of tokens of the whole document before fitting, including BOS and EOS."""
    elided_bytes: int = 0
    other_side_bytes: int = 0
    """Number of elided bytes in context chunks with text of held-out files or under a refused licence."""
    objective_counts: tuple[tuple[str, int], ...] = ()
    """Counts of the objective that was applied to the encodings."""
    chunks: ChunkCounts | None = None
    """Counts of context chunks; None for documents without chunks."""
    structure: StructureCounts | None = None
    """Counts of structure; None if the document has no structure or no encodings."""
    refusal: TurnError | None = None
    """Reason, if the outcome is `refused`."""


LENGTHS = {
    "to 1k": 1 << 10,
    "1k to 4k": 1 << 12,
    "4k to 16k": 1 << 14,
    "16k to 64k": 1 << 16,
}
"""Upper limits of ranges of lengths, in tokens and inclusive: an encoding in `1k to 4k` fits a row of 4,096
tokens.
"""
LONGER = "over 64k"
_NAMES, _LAST = (*LENGTHS, LONGER), tuple(LENGTHS.values())


@dataclass(kw_only=True, slots=True)
class _Bucket:
    """Counts of documents before fitting and of encodings after it, for one range of lengths."""

    documents: int = 0
    tokens: int = 0
    encodings: int = 0
    encoded_tokens: int = 0


@dataclass(kw_only=True, slots=True)
class Counts:
    """Counts of fit results by outcome, for a manifest's report."""

    documents: Counter[Outcome] = field(default_factory=Counter)
    num_bytes: Counter[Outcome] = field(default_factory=Counter)
    encodings: int = 0
    tokens: int = 0
    elided_bytes: int = 0
    other_side_bytes: int = 0
    """Number of elided bytes in context chunks with text of held-out files or under a refused licence."""
    chunks: Counter[str] = field(default_factory=Counter)
    """Number of context chunks by outcome (the fields of ChunkCounts), in documents with encodings."""
    structure: Counter[str] = field(default_factory=Counter)
    objective_counts: Counter[str] = field(default_factory=Counter)
    """Counts of the objective, summed over all documents."""
    refused: Counter[str] = field(default_factory=Counter)
    """Number of refused documents, by cause."""
    refused_examples: dict[str, str] = field(default_factory=dict)
    """For each cause, the first document that was refused, and its turn."""
    lengths: dict[str, _Bucket] = field(
        default_factory=lambda: {name: _Bucket() for name in _NAMES}
    )

    def add(self, fitted: FitResult) -> None:
        """Add one document to the counts."""
        self.documents[fitted.outcome] += 1
        self.num_bytes[fitted.outcome] += fitted.num_bytes
        self.encodings += len(fitted.encodings)
        self.elided_bytes += fitted.elided_bytes
        self.other_side_bytes += fitted.other_side_bytes
        whole = self._bucket(fitted.num_tokens)
        whole.documents += 1
        whole.tokens += fitted.num_tokens
        for encoding in fitted.encodings:
            tokens = len(encoding.ids)
            bucket = self._bucket(tokens)
            bucket.encodings += 1
            bucket.encoded_tokens += tokens
            self.tokens += tokens
        if fitted.encodings and fitted.chunks is not None:
            counted = asdict(fitted.chunks)
            self.chunks.update({name: counted[name] for name in counted if name != "refused"})
            if fitted.chunks.refused:
                self.chunks["refused"] += fitted.chunks.refused
        for name, number in fitted.objective_counts:
            self.objective_counts[name] += number
        if fitted.structure is not None:
            self.structure.update(asdict(fitted.structure))
        if fitted.refusal is not None:
            cause, turn = fitted.refusal.cause, fitted.refusal.value
            self.refused[cause] += 1
            self.refused_examples.setdefault(cause, f"conversation {fitted.document_id}, {turn}")

    def _bucket(self, tokens: int) -> _Bucket:
        return self.lengths[_NAMES[bisect_left(_LAST, tokens)]]

    def report(self) -> EncodeReport:
        """Return all counts: by outcome, and by length before and after fitting."""
        found: dict[str, Any] = {}
        if self.chunks or self.documents["straddles"]:
            found |= {
                "context_chunks": dict(self.chunks),
                "other_side_bytes": self.other_side_bytes,
            }
        if self.objective_counts:
            found["objective"] = dict(sorted(self.objective_counts.items()))
        if self.structure:
            found["structure"] = dict(self.structure)
        if self.refused:
            found["refused"] = dict(sorted(self.refused.items()))
            found["refused_examples"] = dict(sorted(self.refused_examples.items()))
        return EncodeReport(
            documents=dict(sorted(self.documents.items())),
            num_bytes=dict(sorted(self.num_bytes.items())),
            encodings=self.encodings,
            tokens=self.tokens,
            elided_bytes=self.elided_bytes,
            lengths={name: LengthBucket(**asdict(bucket)) for name, bucket in self.lengths.items()},
            **found,
        )
