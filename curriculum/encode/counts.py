"""Counts of fit results, for a manifest's report."""

from bisect import bisect_left
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from curriculum.encode.documents import FitResult, Outcome
from schemas.reports import EncodeReport, LengthBucket

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
    """Elided bytes of files on the other side of the split."""
    chunks: Counter[str] = field(default_factory=Counter)
    """Chunks of context, of documents with encodings: kept, elided for want of room, of the other side."""
    structure: Counter[str] = field(default_factory=Counter)
    objective_counts: Counter[str] = field(default_factory=Counter)
    """Counts of the objective."""
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
            self._add_encoding(len(encoding.ids))
        if fitted.encodings and fitted.chunks is not None:
            self.chunks.update(asdict(fitted.chunks))
        for name, number in fitted.objective_counts:
            self.objective_counts[name] += number
        if fitted.structure is not None:
            self.structure.update(asdict(fitted.structure))

    def _add_encoding(self, tokens: int) -> None:
        self.tokens += tokens
        bucket = self._bucket(tokens)
        bucket.encodings += 1
        bucket.encoded_tokens += tokens

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
        return EncodeReport(
            documents=dict(sorted(self.documents.items())),
            num_bytes=dict(sorted(self.num_bytes.items())),
            encodings=self.encodings,
            tokens=self.tokens,
            elided_bytes=self.elided_bytes,
            lengths={name: LengthBucket(**asdict(each)) for name, each in self.lengths.items()},
            **found,
        )
