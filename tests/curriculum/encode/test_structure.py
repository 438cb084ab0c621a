"""Structure over tokens is what looking at each token's bytes one by one gives."""

import doctest
from collections import Counter
from dataclasses import replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.encode import (
    ApplyObjective,
    FitResult,
    Fitter,
    TokenizedDocument,
    document_batch,
    encode_documents,
)
from curriculum.families.document_writer import EnrichedWriter
from curriculum.objectives.rearrange import Segment, reorder_encoding
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import EncodedStructure, Encoding
from curriculum.tokens.token_store import TokenStore, tokenize_documents
from curriculum.tokens.train import train_tokenizer
from schemas.document import Document, Part
from schemas.packed_row import TEXT_PIECE
from schemas.structure import RUN_COLUMNS, Structure, StructureChunk, StructureEdge
from tests import factories
from tests.factories import write_documents

SPACE = b" \t\n\r\v\f"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = ["  int  aé = compute(b);\n\n\n\t\treturn x;   \n int x;"] * 20
    return Tokenizer.parse(train_tokenizer(texts, vocab_size=300).decode())


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(document_batch)
    assert done.attempted
    assert not done.failed


def document_of_lines(lines: list[str], elidable: list[bool]) -> Document:
    """A part a line."""
    borders = np.cumsum([0, *(len(line.encode()) for line in lines)]).tolist()
    return factories.document(
        "".join(lines),
        family="v3_simple",
        parts=tuple(
            Part(kind="code", start=start, end=end, rank=rank, elidable=may)
            for rank, ((start, end), may) in enumerate(
                zip(pairwise(borders), elidable, strict=True)
            )
        ),
        provenance=(),
        lineage="r:x",
    )


def painted(size: int, random: np.random.Generator) -> Structure:
    """Any sound structure over `size` bytes."""
    ends = sorted({*random.integers(1, size + 1, size // 3).tolist(), size})
    edges = np.unique(random.integers(0, size + 1, random.integers(2, 3 + size // 4)))
    chunks = tuple(
        StructureChunk(
            start=int(start), end=int(end), kind=4, name="", dep_level=int(random.integers(1, 65))
        )
        for start, end in pairwise(edges)
        if random.random() < 0.7
    )
    pairs = sorted({tuple(random.integers(0, len(chunks), 2).tolist()) for _ in range(6) if chunks})
    joined = tuple(
        StructureEdge(source=source, target=target, label=1 + (source + target) % 4)
        for source, target in pairs
    )
    runs = [tuple(random.integers(0, most, len(ends)).tolist()) for most in (10, 65, 65, 256)]
    return Structure(
        ends=tuple(ends),
        structure_ids=runs[0],
        ast_depth=runs[1],
        sibling_index=runs[2],
        ast_node_type=runs[3],
        chunks=chunks,
        call_edges=joined[::2],
        type_edges=joined[1::2],
    )


def both(
    rows: list[tuple[Document, Structure]],
    tokenizer: Tokenizer,
    folder: Path,
    row_length: int,
    apply: ApplyObjective | None = None,
) -> tuple[list[FitResult], list[FitResult]]:
    """Return the encoded documents, flat and with structure."""
    base, enriched = folder / "base", folder / "enriched"
    for each in (base, enriched):
        each.mkdir(exist_ok=True)
    write_documents([document for document, _ in rows], base)
    with EnrichedWriter(enriched) as writer:
        for document, found in rows:
            writer.append(document, found)
    tokenize_documents(sorted(base.glob("data/part-*")), tokenizer, base)
    fitter = Fitter.from_tokenizer(tokenizer, row_length=row_length, policy="divide")
    store = TokenStore.open(base)
    flat = encode_documents(
        sorted(base.glob("data/part-*.parquet")), store, fitter, objective=apply
    )
    files = sorted(enriched.glob("data/part-*.parquet"))
    return list(flat), list(encode_documents(files, store, fitter, structure=True, objective=apply))


WORDS = (" int", "  int", " compute", "(b)", "é", "\t", "\treturn", "  ", " x;")
TEXTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), max_size=6).map(lambda words: "".join(words) + "\n"),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def test_tokens_have_what_their_first_byte_that_is_no_space_has(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    seen: set[str] = set()

    @settings(max_examples=150)
    @given(TEXTS, st.integers(4, 60), st.integers(0, 1000))
    def holds(drawn: list[tuple[str, bool]], row_length: int, seed: int) -> None:
        document = document_of_lines([line for line, _ in drawn], [may for _, may in drawn])
        found = painted(len(document.text.encode()), np.random.default_rng(seed))
        (flat,), (done,) = both([(document, found)], tokenizer, tmp_path, row_length)
        seen.add(done.outcome)
        check_same_encodings(flat, done)
        check_structure(done, document, found, tokenizer, seen)

    holds()
    assert seen == {"whole", "elided", "divided", "a gap in a chunk", "space alone", "space before"}


def test_tokens_that_an_objective_moved_keep_what_their_bytes_have(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    seen: set[str] = set()

    @settings(max_examples=150)
    @given(TEXTS, st.integers(12, 60), st.integers(0, 1000), st.data())
    def holds(
        drawn: list[tuple[str, bool]], row_length: int, seed: int, data: st.DataObject
    ) -> None:
        document = document_of_lines([line for line, _ in drawn], [may for _, may in drawn])
        found = painted(len(document.text.encode()), np.random.default_rng(seed))
        letters = accumulate((len(each.encode()) for each in document.text), initial=0)
        cuts = data.draw(st.lists(st.sampled_from(list(letters)), min_size=1, max_size=4))
        edges = [0, *sorted(cuts), len(document.text.encode())]
        order = data.draw(st.permutations(list(pairwise(edges))))
        kept = order[: data.draw(st.integers(1, len(order)))]

        def apply(own: TokenizedDocument, fitted: FitResult) -> FitResult:
            segments = [Segment(start=start, end=end) for start, end in kept]
            moved = (
                reorder_encoding(each, segments, own.part_bytes, tokenizer).encoding
                for each in fitted.encodings
            )
            return replace(fitted, encodings=tuple(moved))

        (flat,), (done,) = both([(document, found)], tokenizer, tmp_path, row_length, apply)
        seen.add(done.outcome)
        check_same_encodings(flat, done)
        check_structure(done, document, found, tokenizer, seen)

    holds()
    assert seen >= {"whole", "elided", "divided", "cut", "a gap in a chunk"}


def check_same_encodings(flat: FitResult, done: FitResult) -> None:
    assert (done.outcome, done.elided_bytes) == (flat.outcome, flat.elided_bytes)
    for plain, enriched in zip(flat.encodings, done.encodings, strict=True):
        assert plain.structure is None
        for name in ("ids", "loss_mask", "pieces"):
            assert np.array_equal(getattr(plain, name), getattr(enriched, name))


def check_structure(
    done: FitResult, document: Document, found: Structure, tokenizer: Tokenizer, seen: set[str]
) -> None:
    held: set[int] = set()
    cut: set[int] = set()
    for encoding in done.encodings:
        assert encoding.structure is not None
        assert encoding.structure.base_document_id == document.document_id != done.document_id
        at = deciding_bytes(encoding, document.text.encode(), tokenizer, seen)
        whole, several = check_encoding(encoding, encoding.structure, at, found, seen)
        held, cut = held | whole | several, cut | several
    assert done.structure is not None
    assert done.structure.chunks == len(found.chunks)
    assert done.structure.chunks_without_tokens == len(found.chunks) - len(held)
    assert done.structure.chunks_cut == len(cut)
    seen |= {"cut"} if cut else set()


def deciding_bytes(
    encoding: Encoding, data: bytes, tokenizer: Tokenizer, seen: set[str]
) -> list[int]:
    at: list[int] = []
    for kind, start, end, byte, _ in encoding.pieces.tolist():
        for token in encoding.ids[start:end].tolist():
            text = tokenizer.decode_bytes([token])
            if kind != TEXT_PIECE:
                at.append(-1)
                continue
            assert data[byte : byte + len(text)] == text
            space = len(text) - len(text.lstrip(SPACE))
            seen |= {"space alone"} if space == len(text) else {"space before"} if space else set()
            at.append(byte + (space if space < len(text) else 0))
            byte += len(text)
    return at


def check_encoding(
    encoding: Encoding, coded: EncodedStructure, at: list[int], found: Structure, seen: set[str]
) -> tuple[set[int], set[int]]:
    """Everything token by token; the chunks that the encoding holds whole, and those in stretches."""
    ends = np.array(found.ends)
    chunk_at = {
        byte: number
        for number, chunk in enumerate(found.chunks)
        for byte in range(chunk.start, chunk.end)
    }
    runs: list[tuple[tuple[int, int], list[int]]] = []
    before, stretch = -1, 0
    for token, byte in enumerate(at):
        if byte < 0:
            assert coded.codes[token].tolist() == [0] * 5
            continue
        run = int(np.searchsorted(ends, byte, side="right"))
        number = chunk_at.get(byte)
        assert coded.codes[token].tolist() == [
            found.structure_ids[run],
            0 if number is None else found.chunks[number].dep_level,
            found.ast_depth[run],
            found.sibling_index[run],
            found.ast_node_type[run],
        ]
        stretch += byte < before or any(0 <= before < each < byte for each in at)
        if number is not None and runs and runs[-1][0] == (number, stretch):
            runs[-1][1].append(token)
        elif number is not None:
            runs.append(((number, stretch), [token]))
        before = byte
    assert coded.chunks.tolist() == [
        [own[0], own[-1] + 1, found.chunks[number].kind, found.chunks[number].dep_level]
        for (number, _), own in runs
    ]
    if any(len(own) < own[-1] - own[0] + 1 for _, own in runs):
        seen.add("a gap in a chunk")
    times = Counter(number for (number, _), _ in runs)
    place = {number: at for at, ((number, _), _) in enumerate(runs) if times[number] == 1}
    check_edges(coded, found, place)
    return set(place), {number for number in times if times[number] > 1}


def check_edges(coded: EncodedStructure, found: Structure, place: dict[int, int]) -> None:
    for edges, expected in (
        (coded.call_edges, found.call_edges),
        (coded.type_edges, found.type_edges),
    ):
        assert edges.tolist() == sorted(
            [place[edge.source], place[edge.target], edge.label]
            for edge in expected
            if edge.source in place and edge.target in place
        )


def test_a_document_without_structure_has_zeros(tokenizer: Tokenizer, tmp_path: Path) -> None:
    document = document_of_lines(["set(x 1)\n"], [False])
    zeros = dict.fromkeys(RUN_COLUMNS, (0,))
    plain: dict[str, Any] = {**zeros, "chunks": (), "call_edges": (), "type_edges": ()}
    found = Structure(ends=(len(document.text),), **plain)
    _, (done,) = both([(document, found)], tokenizer, tmp_path, 128)
    (encoding,) = done.encodings
    assert encoding.structure is not None
    assert not encoding.structure.codes.any()
    assert encoding.structure.codes.shape == (len(encoding.ids), 5)
    assert encoding.structure.chunks.shape == (0, 4)
    assert encoding.structure.call_edges.shape == encoding.structure.type_edges.shape == (0, 3)


def test_edges_that_no_encoding_holds_are_counted(tokenizer: Tokenizer, tmp_path: Path) -> None:
    lines = [f"void f{number}();\n" for number in range(8)]
    document = document_of_lines(lines, [0 < number < 7 for number in range(8)])
    chunks = tuple(
        StructureChunk(start=part.start, end=part.end, kind=4, name="", dep_level=1)
        for part in document.parts
    )
    calls = tuple(StructureEdge(source=0, target=target, label=4) for target in range(8))
    whole = painted(len(document.text), np.random.default_rng(1))
    found = Structure(
        **{
            **{name: getattr(whole, name) for name in Structure.__slots__},
            "chunks": chunks,
            "call_edges": calls,
            "type_edges": (),
        }
    )
    _, (done,) = both([(document, found)], tokenizer, tmp_path, 48)
    assert (done.outcome, len(done.encodings)) == ("elided", 1)
    gone = pq.read_table(tmp_path / "base" / "data/part-00000.parquet")["num_bytes"][0].as_py()
    assert gone > done.elided_bytes > 0
    assert done.structure is not None
    coded = done.encodings[0].structure
    assert coded is not None
    assert done.structure.edges == 8
    assert done.structure.edges_dropped == 8 - len(coded.call_edges)
    assert done.structure.chunks_without_tokens == done.structure.edges_dropped > 0
