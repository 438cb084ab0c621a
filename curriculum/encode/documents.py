"""What goes into fitting and what comes out."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from curriculum.tokens import Encoding
from schemas.document import SPAN_KINDS, SpanKind

Outcome = Literal["whole", "elided", "divided", "routed", "dropped"]
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Spans:
    """The spans of one document: `kinds` index SPAN_KINDS."""

    kinds: Int32s
    starts: Int32s
    ends: Int32s

    def of(self, kind: SpanKind) -> Int32s:
        """[r, 2] byte ranges of one kind, sorted and disjoint."""
        chosen = self.kinds == SPAN_KINDS.index(kind)
        return np.stack((self.starts[chosen], self.ends[chosen]), axis=1)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tokenised:
    """A document as ids, before it is fitted."""

    row: int
    """In the documents artefact."""
    document_id: str
    language: str
    ids: npt.NDArray[np.integer[Any]]
    """[BOS] text [EOS]"""
    part_bytes: Int32s
    """[parts + 1] borders, from 0 to the number of bytes."""
    part_tokens: Int32s
    """[parts + 1] borders, from 0 to the number of text tokens: BOS and EOS aren't counted."""
    ranks: Int32s
    elidable: npt.NDArray[np.bool_]
    spans: Spans

    @property
    def num_bytes(self) -> int:
        """Bytes of the text."""
        return int(self.part_bytes[-1])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Fitted:
    """What became of one document."""

    row: int
    document_id: str
    outcome: Outcome
    encodings: tuple[Encoding, ...]
    """In text order; more than one only where it was divided, none where routed or dropped."""
    num_bytes: int
    elided_bytes: int
    spans: Spans


@dataclass(kw_only=True, slots=True)
class Counts:
    """What became of many documents; for a manifest's report."""

    documents: Counter[Outcome] = field(default_factory=Counter)
    num_bytes: Counter[Outcome] = field(default_factory=Counter)
    encodings: int = 0
    tokens: int = 0
    elided_bytes: int = 0

    def add(self, fitted: Fitted) -> None:
        """Count one document."""
        self.documents[fitted.outcome] += 1
        self.num_bytes[fitted.outcome] += fitted.num_bytes
        self.encodings += len(fitted.encodings)
        self.tokens += sum(len(encoding.ids) for encoding in fitted.encodings)
        self.elided_bytes += fitted.elided_bytes

    def report(self) -> dict[str, JsonValue]:
        """All counts, by outcome where they have one."""
        return {
            "documents": dict(sorted(self.documents.items())),
            "num_bytes": dict(sorted(self.num_bytes.items())),
            "encodings": self.encodings,
            "tokens": self.tokens,
            "elided_bytes": self.elided_bytes,
        }
