"""Values that go into fitting and come out of it, and their counts for a manifest."""

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
"""refused: a conversation that the chat template can't mark; too_long: one that is longer than a row."""
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TokenizedDocument:
    """A document as ids, before it is fitted."""

    row: int
    """Row number in the documents artefact."""
    document_id: str
    flat_id: str
    """Id of the document that structure was added to, else its own: the same with and without structure."""
    language: str
    ids: npt.NDArray[np.integer[Any]]
    """[BOS] text [EOS]"""
    part_bytes: Int32s
    """[parts + 1] borders, from 0 to the number of bytes."""
    part_tokens: Int32s
    """[parts + 1] borders, from 0 to the number of text tokens: BOS and EOS aren't counted."""
    part_kinds: Int32s
    """[parts], which index PART_KINDS."""
    ranks: Int32s
    elidable: Bools
    spans: Spans
    generated: Bools
    """[parts]: those that are no source text, such as headers, path lines and lines of gaps."""
    other_side: Bools
    """[parts]: those of context chunks that must go, since they hold text of held-out files."""
    refused: Bools
    """[parts]: those of other context chunks that must go, since they hold text under a refused licence."""
    straddles: bool = False
    """True if the target itself has text from the other side."""
    context: Int32s | None = None
    """[chunks, 2]: parts [first, after) of each chunk around the target; None where there are no chunks."""
    targets_alone: bool = False
    """True for a held-out document with context, which may be of files that are trained on: nothing but the
    target may be scored."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the text."""
        return int(self.part_bytes[-1])

    @property
    def forbidden(self) -> Bools:
        """[parts]: those of context chunks that must go, however much room there is."""
        return self.other_side | self.refused

    @property
    def units(self) -> Int32s:
        """[parts]: the number of the unit that each part goes or stays with, counted from 0.

        Neighbours of one rank are a unit. Where there are chunks, all parts of a rank are: the line that
        names a file goes with the last chunk of its run.
        """
        keys = np.stack((self.ranks, self.elidable, self.other_side, self.refused))
        if self.context is None:
            borders = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
            first: Int32s = np.zeros(min(1, keys.shape[1]), dtype=np.int32)
            return np.concatenate((first, np.cumsum(borders, dtype=np.int32)))
        return np.unique(keys, axis=1, return_inverse=True)[1].astype(np.int32)

    def chunks_of(self, dropped: Bools) -> "ChunkCounts | None":
        """The counts of context chunks when the parts in `gone` [parts] go: a chunk goes as its last part."""
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
    """Chunks around a target by what became of them."""

    kept: int
    elided: int
    """Number elided for want of room."""
    other_side: int
    """Because they hold text of held-out files, in a document that is trained on."""
    refused: int
    """Because they hold text under a licence that the corpus refuses."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StructureCounts:
    """Counts of a document's structure in its encodings."""

    chunks: int
    chunks_without_tokens: int
    """Number in no encoding: elided, or smaller than a token."""
    chunks_cut: int
    """Number in several stretches of an encoding, since an objective moved a part: without edges there."""
    edges: int
    edges_dropped: int
    """Number in no encoding: an end is elided, cut, or in another division."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FitResult:
    """Encodings of one document, and its outcome."""

    row: int
    document_id: str
    outcome: Outcome
    encodings: tuple[Encoding, ...] = ()
    """Encodings in text order; more than one only where it was divided, none where it was left out."""
    num_bytes: int
    num_tokens: int
    """Tokens of the whole document, BOS and EOS included, before it was fitted."""
    elided_bytes: int = 0
    other_side_bytes: int = 0
    """Elided bytes of the context chunks that hold text of held-out files or under a refused licence."""
    objective_counts: tuple[tuple[str, int], ...] = ()
    """Counts of the objective that was applied to its encodings."""
    chunks: ChunkCounts | None = None
    """Counts of context chunks, for context documents."""
    structure: StructureCounts | None = None
    """Counts of structure, for documents with structure that have encodings."""
    refusal: TurnError | None = None
    """Reason for which it was refused."""


LENGTHS = {
    "to 1k": 1 << 10,
    "1k to 4k": 1 << 12,
    "4k to 16k": 1 << 14,
    "16k to 64k": 1 << 16,
}
"""Buckets of tokens, up to and with the last: what is in `1k to 4k` fits a row of 4,096."""
LONGER = "over 64k"
_NAMES, _LAST = (*LENGTHS, LONGER), tuple(LENGTHS.values())


@dataclass(kw_only=True, slots=True)
class _Bucket:
    """Documents before they are fitted, and encodings after, of one range of lengths."""

    documents: int = 0
    tokens: int = 0
    encodings: int = 0
    encoded_tokens: int = 0


@dataclass(kw_only=True, slots=True)
class Counts:
    """Counts of fit results, by outcome; for a manifest's report."""

    documents: Counter[Outcome] = field(default_factory=Counter)
    num_bytes: Counter[Outcome] = field(default_factory=Counter)
    encodings: int = 0
    tokens: int = 0
    elided_bytes: int = 0
    other_side_bytes: int = 0
    """Elided bytes of the context chunks that hold text of held-out files or under a refused licence."""
    chunks: Counter[str] = field(default_factory=Counter)
    """Chunks of context, of documents with encodings: kept, elided for want of room, of the other side."""
    structure: Counter[str] = field(default_factory=Counter)
    objective_counts: Counter[str] = field(default_factory=Counter)
    """Counts of the objective."""
    refused: Counter[str] = field(default_factory=Counter)
    """Refused documents by cause."""
    refused_examples: dict[str, str] = field(default_factory=dict)
    """The first of them by cause, with its turn."""
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
        """All counts: by outcome where they have one, and by length, before and after."""
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
            lengths={name: LengthBucket(**asdict(each)) for name, each in self.lengths.items()},
            **found,
        )
