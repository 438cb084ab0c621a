from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.encode import FitResult, Fitter, TokenizedDocument, encode_documents
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore, tokenize_documents
from curriculum.tokens.train import train_tokenizer
from schemas.document import DOCUMENT_SCHEMA, PART_KINDS, Document, Part, Span
from schemas.errors import SchemaError
from schemas.packed_row import TEXT_PIECE
from tests import factories
from tests.error_fields import fields

LINE = "int variable_number_{} = compute({});  // é\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [LINE.format(number, number) for number in range(50)]
    return Tokenizer.parse(train_tokenizer(texts, vocab_size=300).decode())


def elidable_document(number: int, lines: int, language: str = "cpp") -> Document:
    """A header, `lines` lines that may go, a line that may not, with its last line repeated."""
    parts = ["// File: x\n", *(LINE.format(number, line) for line in range(lines)), "end();\n"]
    borders = np.cumsum([0, *(len(part.encode()) for part in parts)]).tolist()
    return factories.document(
        "".join(parts),
        family="v3_simple",
        language=language,
        parts=tuple(
            Part(
                kind="code",
                start=borders[index],
                end=borders[index + 1],
                rank=index,
                elidable=0 < index < len(parts) - 1,
            )
            for index in range(len(parts))
        ),
        spans=(
            Span(kind="body", start=0, end=borders[1]),
            Span(kind="repeated", start=borders[-2], end=borders[-1]),
        ),
        provenance=(),
        lineage="r:x",
    )


def write(path: Path, documents: Sequence[Document]) -> Path:
    rows = [
        {
            "document_id": document.document_id,
            "content_id": document.content_id,
            "text": document.text,
            "family": document.family,
            "language": document.language,
            "licence": None,
            "timestamp": 0,
            "num_bytes": len(document.text.encode()),
            "parts": [
                {name: getattr(part, name) for name in Part.__slots__} for part in document.parts
            ],
            "spans": [
                {name: getattr(span, name) for name in Span.__slots__} for span in document.spans
            ],
            "provenance": [],
            "lineage": document.lineage,
        }
        for document in documents
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA), path)
    return path


@pytest.fixture
def documents() -> list[Document]:
    return [
        elidable_document(number, lines=number % 7, language=("cpp", "cmake")[number % 2])
        for number in range(200)
    ]


def test_documents_keep_their_order_and_bytes_and_objectives_know_their_spans(
    tokenizer: Tokenizer, documents: list[Document], tmp_path: Path
) -> None:
    files = [
        write(tmp_path / "part-00000.parquet", documents[:150]),
        write(tmp_path / "part-00001.parquet", documents[150:]),
    ]
    tokenize_documents(files, tokenizer, tmp_path)
    store, fitter = (
        TokenStore.open(tmp_path),
        Fitter.from_tokenizer(tokenizer, row_length=64, policy="divide"),
    )
    kept = np.arange(200) % 3 != 1
    seen: list[TokenizedDocument] = []

    def apply(document: TokenizedDocument, fitted: FitResult) -> FitResult:
        seen.append(document)
        return replace(fitted, objective_counts=(("seen", 1),))

    done = list(encode_documents(files, store, fitter, kept=kept, objective=apply))
    assert [fitted.row for fitted in done] == np.flatnonzero(kept).tolist()
    assert {fitted.outcome for fitted in done} == {"whole", "elided"}
    for fitted, known in zip(done, seen, strict=True):
        document, data = documents[fitted.row], documents[fitted.row].text.encode()
        assert fitted.objective_counts == (("seen", 1),)
        assert fitted.document_id == document.document_id == known.document_id == known.flat_id
        assert [PART_KINDS[kind] for kind in known.part_kinds] == [
            part.kind for part in document.parts
        ]
        assert known.spans.of("repeated").tolist() == [[len(data) - 7, len(data)]]
        assert known.spans.of("body").tolist() == [[0, 11]]
        assert known.spans.of("documentation").tolist() == []
        (encoding,) = fitted.encodings
        for kind, start, end, low, high in encoding.pieces.tolist():
            if kind == TEXT_PIECE:
                assert tokenizer.decode_bytes(encoding.ids[start:end].tolist()) == data[low:high]
        comment = "// …\n" if document.language == "cpp" else "# …\n"
        assert tokenizer.decode(encoding.ids.tolist()).count(comment) == (
            fitted.outcome == "elided"
        )


def test_tokens_of_other_documents_are_refused(
    tokenizer: Tokenizer, documents: list[Document], tmp_path: Path
) -> None:
    some = write(tmp_path / "some.parquet", documents[:3])
    more = write(tmp_path / "more.parquet", documents[:4])
    tokenize_documents([some], tokenizer, tmp_path)
    store, fitter = (
        TokenStore.open(tmp_path),
        Fitter.from_tokenizer(tokenizer, row_length=64, policy="divide"),
    )
    with pytest.raises(SchemaError, check=fields(name=tmp_path, value="3 documents")):
        list(encode_documents([more], store, fitter))
    tokenize_documents([more], tokenizer, tmp_path)
    with pytest.raises(SchemaError, check=fields(name=tmp_path, value="4 documents")):
        list(encode_documents([some], TokenStore.open(tmp_path), fitter))
