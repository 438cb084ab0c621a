"""A tokenizer that no training can change, and encodings as people read them."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from curriculum.encode import Fitter, TokenizedDocument
from curriculum.families.render import render
from curriculum.objectives import DocumentFacts
from curriculum.tokens.codec import BYTE_OF, NAMES, Tokenizer
from curriculum.tokens.encoding import Encoding, Spans
from schemas import document as flat
from schemas.change import Blob, FileChange, Hunk
from schemas.corpus import EditSettings
from schemas.document import PART_KINDS, SPAN_KINDS
from schemas.packed_row import TEXT_PIECE

MERGES = ("r e", "t u", "r n", "re tu", "retu rn", "Ġ retu", "i n", "in t", "Ġ Ġ", "a b", "Ġ Ã")


def tokenizer_of(*, sentinels: bool = True) -> Tokenizer:
    """Every byte, a few words, and every control token (but the sentinels)."""
    words = [merge.replace(" ", "") for merge in MERGES]
    vocab = {text: number for number, text in enumerate((*BYTE_OF, *words))}
    names = [texts[0] for role, texts in NAMES.items() if sentinels or not role.startswith("fim")]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    content: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            {"id": len(vocab) + number, "content": name, "special": True, **flags}
            for number, name in enumerate(names)
        ],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": list(MERGES)},
    }
    return Tokenizer.parse(json.dumps(content))


def known(document: flat.Document, *, room: int = 1 << 20) -> DocumentFacts:
    """Return the facts about a document that an objective may read."""
    spans = document.spans
    return DocumentFacts(
        flat_id=document.document_id,
        spans=Spans(
            kinds=np.array([SPAN_KINDS.index(span.kind) for span in spans], dtype=np.int32),
            starts=np.array([span.start for span in spans], dtype=np.int32),
            ends=np.array([span.end for span in spans], dtype=np.int32),
        ),
        part_bytes=np.array([0, *(part.end for part in document.parts)], dtype=np.int32),
        part_kinds=np.array(
            [PART_KINDS.index(part.kind) for part in document.parts], dtype=np.int32
        ),
        room=room,
    )


def encoded(document: flat.Document, tokenizer: Tokenizer, row_length: int) -> list[Encoding]:
    """Return the document's encodings after fitting."""
    data, count = document.text.encode(), len(document.parts)
    found = [tokenizer.encode(data[part.start : part.end].decode()) for part in document.parts]
    frame = [np.array([token]) for token in (tokenizer.bos_id, tokenizer.eos_id)]
    own = known(document)
    tokenized = TokenizedDocument(
        row=0,
        document_id=document.document_id,
        flat_id=own.flat_id,
        language="cpp",
        ids=np.concatenate([frame[0], *found, frame[1]]),
        part_bytes=own.part_bytes,
        part_tokens=np.cumsum([0, *map(len, found)]).astype(np.int32),
        part_kinds=own.part_kinds,
        ranks=np.array([part.rank for part in document.parts], dtype=np.int32),
        elidable=np.array([part.elidable for part in document.parts], dtype=np.bool_),
        spans=own.spans,
        generated=np.array([part.source < 0 for part in document.parts], dtype=np.bool_),
        other_side=np.zeros(count, dtype=np.bool_),
        refused=np.zeros(count, dtype=np.bool_),
    )
    fitter = Fitter.from_tokenizer(tokenizer, row_length=row_length, policy="divide")
    return list(fitter.fit(tokenized).encodings)


def read(encoding: Encoding, tokenizer: Tokenizer) -> str:
    """A piece a line: its bytes, then its text, where what doesn't count as a target is struck: ~so~."""
    lines = []
    scored = [0, *encoding.loss_mask[:-1].tolist()]
    for kind, start, end, low, high in encoding.pieces.tolist():
        head = f"{low:4}:{high:<4} " if kind == TEXT_PIECE else f"{low:4}      "
        lines.append(head + _struck(encoding.ids[start:end].tolist(), scored[start:end], tokenizer))
    return "\n".join(lines) + "\n"


def _struck(ids: Sequence[int], scored: Sequence[int], tokenizer: Tokenizer) -> str:
    text, at = "", 0
    while at < len(ids):
        end = next((t for t in range(at, len(ids)) if scored[t] != scored[at]), len(ids))
        own = tokenizer.decode(ids[at:end]).replace("\n", "\\n")
        text, at = text + (own if scored[at] else f"~{own}~"), end
    return text


def change(before: str, after: str) -> FileChange:
    """Return the change of one file, line by line."""
    lines = zip(before.split("\n"), after.split("\n"), strict=True)
    hunks = [
        Hunk(before_start=at, before_lines=1, after_start=at, after_lines=1)
        for at, (one, other) in enumerate(lines)
        if one != other
    ]
    return FileChange(
        kind="modified",
        repository="sample",
        licence="MIT",
        commit="89abcdef01234567" * 2 + "89abcdef",
        timestamp=1_700_000_000,
        subject="Add by hand",
        path="src/sum.cc",
        old_path="src/sum.cc",
        language="cpp",
        before=Blob(blob_id="b" * 40, text=before),
        after=Blob(blob_id="a" * 40, text=after),
        hunks=tuple(hunks),
        lineage="sample:src/sum.cc",
        before_is_new=False,
    )


def document_of(
    code: str, family: str = "v2_simple", *, before: str | None = None
) -> flat.Document:
    """Return a document of a file whose earlier text is `before`, by default without the last line."""
    old = "\n".join([*code.split("\n")[:-1], "//"]) if before is None else before
    options = EditSettings(full_file="all")
    (document,) = render(change(old, code), [family], options).documents
    return document


class Kit:
    """The makers above, for tests, which can't import from here."""

    tokenizer_of = staticmethod(tokenizer_of)
    document_of = staticmethod(document_of)
    known = staticmethod(known)
    encoded = staticmethod(encoded)
    read = staticmethod(read)


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    return tokenizer_of()
