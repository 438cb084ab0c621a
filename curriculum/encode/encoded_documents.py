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
"""refused: the chat template can't mark a conversation; too_long: a conversation is longer than a row."""
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenizedDocument:
    """Tokenized document before fitting."""

    row: int
    """Row number in the documents artefact."""
    document_id: str
    flat_id: str
    """Id of the document without structure: the base document's for a document with structure,
    else its own.
    """
    language: str
    ids: npt.NDArray[np.integer[Any]]
    """Token ids of [BOS] text [EOS]."""
    part_bytes: Int32s
    """Borders of the parts, from 0 to the number of bytes, [parts + 1]."""
    part_tokens: Int32s
    """Borders of the parts, from 0 to the number of text tokens, [parts + 1]; BOS and EOS aren't counted."""
    part_kinds: Int32s
    """Indices into PART_KINDS, [parts]."""
    ranks: Int32s
    elidable: Bools
    spans: Spans
    generated: Bools
    """Flags of parts without source text, such as headers, path lines and gap lines, [parts]."""
    other_side: Bools
    """Flags of parts of context chunks that must be removed because they contain held-out text, [parts]."""
    refused: Bools
    """Flags of parts of other context chunks that must be removed because of a refused licence, [parts]."""
    straddles: bool = False
    """True if the target itself contains text from the other split."""
    context: Int32s | None = None
    """Range of parts [first, after) of each context chunk, [chunks, 2]; None for documents without chunks."""
    targets_alone: bool = False
    """True for a held-out document with context: only its target may be scored, since the context may come
    from training files.
    """

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the text."""
        return int(self.part_bytes[-1])

    @property
    def forbidden(self) -> Bools:
        """Flags of parts of context chunks that must be removed even if the row has room, [parts]."""
        return self.other_side | self.refused

    @property
    def units(self) -> Int32s:
        """Index of the unit in which each part is kept or removed, [parts].

        Adjacent parts of one rank form a unit. In documents with chunks, all parts of one rank form a unit: a
        path line is removed with the last chunk of its run.
        """
        keys = np.stack((self.ranks, self.elidable, self.other_side, self.refused))
        if self.context is None:
            borders = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
            first: Int32s = np.zeros(min(1, keys.shape[1]), dtype=np.int32)
            return np.concatenate((first, np.cumsum(borders, dtype=np.int32)))
        return np.unique(keys, axis=1, return_inverse=True)[1].astype(np.int32)

    def chunks_of(self, dropped: Bools) -> "ChunkCounts | None":
        """Return the counts of context chunks after removing the parts in `dropped` [parts].

        A chunk counts as removed if its last part is. The result is None for documents without chunks.
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
    """Removed because the row has no room."""
    other_side: int
    """Removed from a training document because they contain text of held-out files."""
    refused: int
    """Removed because the corpus refuses their licence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureCounts:
    """Counts of a document's structure in its encodings."""

    chunks: int
    chunks_without_tokens: int
    """Number of chunks in no encoding: elided, or smaller than a token."""
    chunks_cut: int
    """Number of chunks that an objective split into several stretches, which have no edges."""
    edges: int
    edges_dropped: int
    """Number of edges in no encoding: an end is elided, split, or in another division."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FitResult:
    """Encodings of one document, and its outcome."""

    row: int
    document_id: str
    outcome: Outcome
    encodings: tuple[Encoding, ...] = ()
    """In text order; several only for a divided document, none for an excluded one."""
    num_bytes: int
    num_tokens: int
    """Tokens of the whole document before fitting, including BOS and EOS."""
    elided_bytes: int = 0
    other_side_bytes: int = 0
    """Elided bytes of context chunks with text of held-out files or under a refused licence."""
    objective_counts: tuple[tuple[str, int], ...] = ()
    """Counts of the objective applied to the encodings."""
    chunks: ChunkCounts | None = None
    """Counts of context chunks; None for documents without chunks."""
    structure: StructureCounts | None = None
    """Counts of structure; None without structure or without encodings."""
    refusal: TurnError | None = None
    """Reason of the outcome `refused`."""


LENGTHS = {
    "to 1k": 1 << 10,
    "1k to 4k": 1 << 12,
    "4k to 16k": 1 << 14,
    "16k to 64k": 1 << 16,
}
"""Upper bounds of buckets in tokens, inclusive: an encoding in `1k to 4k` fits a row of 4,096."""
LONGER = "over 64k"
_NAMES, _LAST = (*LENGTHS, LONGER), tuple(LENGTHS.values())


@dataclass(kw_only=True, slots=True)
class _Bucket:
    """Documents before fitting and encodings after it, in one range of lengths."""

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
    """Elided bytes of context chunks with text of held-out files or under a refused licence."""
    chunks: Counter[str] = field(default_factory=Counter)
    """Context chunks of documents with encodings, by outcome: the fields of ChunkCounts."""
    structure: Counter[str] = field(default_factory=Counter)
    objective_counts: Counter[str] = field(default_factory=Counter)
    """Counts of the objective."""
    refused: Counter[str] = field(default_factory=Counter)
    """Number of refused documents, by cause."""
    refused_examples: dict[str, str] = field(default_factory=dict)
    """First refused document and its turn, by cause."""
    lengths: dict[str, _Bucket] = field(
        default_factory=lambda: {name: _Bucket() for name in _NAMES}
    )

    def add(self, fitted: FitResult) -> None:
        """Count one document."""
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
