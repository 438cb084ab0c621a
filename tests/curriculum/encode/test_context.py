"""Context documents: what goes, what stays, and nothing of held-out files in what is trained on."""

import doctest
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curriculum.encode import (
    Counts,
    FitResult,
    Fitter,
    Split,
    TokenizedDocument,
    document_batch,
    encode_documents,
)
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.token_store import TokenStore, tokenize_documents
from curriculum.tokens.train import train_tokenizer
from schemas.corpus import USUAL_LICENCES, LicencesSpec
from schemas.document import Chunk, Document, Part, Provenance
from schemas.packed_row import TEXT_PIECE
from tests import factories
from tests.factories import write_documents

LINE = "int variable_{} = compute({});\n"
ELISION = "// …\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = [LINE.format(number, number) for number in range(50)]
    return Tokenizer.parse(train_tokenizer(texts, vocab_size=280).decode())


@dataclass(frozen=True, kw_only=True)
class Made:
    """A chunk: the lines of its parts after its path line, and which file each is of."""

    lines: tuple[int, ...]
    files: tuple[str, ...]


def context_document(chunks: list[Made], target: Made, name: str = "") -> Document:
    """Chunks from far to near, then the target; a line names its chunk and part."""
    made = [*chunks, target]
    texts: list[str] = []
    parts: list[Part] = []
    spans: list[Chunk] = []
    provenance: list[Provenance] = []
    size = 0

    def add(text: str, source: int, rank: int) -> None:
        nonlocal size
        start, size = size, size + len(text.encode())
        texts.append(text)
        parts.append(
            Part(
                kind="context" if rank else "target",
                start=start,
                end=size,
                rank=rank,
                elidable=rank > 0,
                source=source,
            )
        )

    add(f"// {name}\n", -1, 0)
    for number, chunk in enumerate(made):
        first, rank = len(parts), len(made) - 1 - number
        add(f"// src/{number}.cc\n", -1, rank)
        for part, (lines, file) in enumerate(zip(chunk.lines, chunk.files, strict=True)):
            text = "".join(LINE.format(f"{number}_{part}", line) for line in range(lines))
            provenance.append(source_of(file))
            add(text, len(provenance) - 1, rank)
        spans.append(
            Chunk(
                first_part=first,
                last_part=len(parts),
                name=f"f{number}",
                symbol="function",
                form="whole",
                hop=min(rank, 3),
                via=-1,
            )
        )
    return factories.document(
        "".join(texts),
        family="v4_context_graph",
        parts=tuple(parts),
        provenance=tuple(provenance),
        lineage=f"r:{target.files[0]}",
        chunks=tuple(spans),
    )


def source_of(file: str) -> Provenance:
    return factories.provenance(commit="0" * 40, path=file, blob="0" * 40)


def fitted(
    documents: list[Document],
    tokenizer: Tokenizer,
    folder: Path,
    *,
    row_length: int,
    val: list[bool] | None = None,
    val_lineages: frozenset[str] = frozenset(),
    licences: LicencesSpec = USUAL_LICENCES,
) -> list[FitResult]:
    write_documents(documents, folder)
    files = sorted(folder.glob("data/part-*.parquet"))
    tokenize_documents(files, tokenizer, folder)
    fitter = Fitter.from_tokenizer(tokenizer, row_length=row_length, policy="route")
    sides = None if val is None else np.array(val)
    return list(
        encode_documents(
            files,
            TokenStore.open(folder),
            fitter,
            split=None
            if sides is None
            else Split(held_out=sides, held_out_files=val_lineages, licences=licences),
        )
    )


def text_of(done: FitResult, tokenizer: Tokenizer) -> str:
    (encoding,) = done.encodings
    framed = encoding.ids[1:-1]
    return tokenizer.decode_bytes(framed.tolist()).decode()


def chunk_texts(document: Document) -> list[str]:
    data = document.text.encode()
    return [
        data[
            document.parts[chunk.first_part].start : document.parts[chunk.last_part - 1].end
        ].decode()
        for chunk in document.chunks
    ]


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(document_batch)
    assert done.attempted
    assert not done.failed


FAR, NEAR = Made(lines=(2, 1), files=("a.cc", "a.cc")), Made(lines=(2,), files=("b.cc",))
TARGET = Made(lines=(1,), files=("t.cc",))


def test_context_of_a_held_out_file_goes_however_much_room_there_is(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    own = context_document([FAR, NEAR], TARGET)
    (done,) = fitted(
        [own], tokenizer, tmp_path, row_length=4096, val=[False], val_lineages=frozenset({"r:b.cc"})
    )
    far, near, target = chunk_texts(own)
    assert text_of(done, tokenizer) == "// \n" + far + ELISION + target
    assert done.outcome == "elided"
    assert done.other_side_bytes == done.elided_bytes == len(near.encode())
    counts = Counts()
    counts.add(done)
    report = counts.report().dump()
    assert report["context_chunks"] == {"kept": 1, "elided": 0, "other_side": 1}
    assert report["other_side_bytes"] == len(near.encode())


@pytest.mark.parametrize("is_val", [False, True])
@pytest.mark.parametrize(
    ("near", "licences", "goes"),
    [
        ("GPL-3.0-only", LicencesSpec(refuse=("GPL-*",)), True),
        ("GPL-3.0-only OR MIT", LicencesSpec(refuse=("GPL-*",)), False),
        ("GPL-3.0-only", LicencesSpec(), False),
        (None, LicencesSpec(purpose="release"), True),
        (None, LicencesSpec(refuse=("GPL-*",)), False),
    ],
)
def test_context_under_a_refused_licence_goes_from_every_document(
    tokenizer: Tokenizer,
    tmp_path: Path,
    is_val: bool,
    near: str | None,
    licences: LicencesSpec,
    goes: bool,
) -> None:
    made = context_document([FAR, NEAR], TARGET)
    sources = tuple(
        replace(source, licence=near if source.path == "b.cc" else "MIT")
        for source in made.provenance
    )
    own = replace(made, provenance=sources)
    (done,) = fitted(
        [own],
        tokenizer,
        tmp_path,
        row_length=4096,
        val=[is_val],
        val_lineages=frozenset({"r:t.cc"}) if is_val else frozenset(),
        licences=licences,
    )
    far, _, target = chunk_texts(own)
    assert text_of(done, tokenizer) == ("// \n" + far + ELISION + target if goes else own.text)
    counts = Counts()
    counts.add(done)
    assert counts.report().context_chunks.get("refused", 0) == goes


def test_a_chunk_goes_whole_where_one_of_its_files_is_held_out(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    mixed = Made(lines=(1, 1), files=("t.cc", "b.cc"))
    own = context_document([FAR, mixed], TARGET)
    val = frozenset({"r:b.cc"})
    (done,) = fitted([own], tokenizer, tmp_path, row_length=4096, val=[False], val_lineages=val)
    far, _, target = chunk_texts(own)
    assert text_of(done, tokenizer) == "// \n" + far + ELISION + target


def test_a_held_out_document_shows_files_that_are_trained_on_and_may_score_its_target_alone(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    own = context_document([FAR, NEAR], TARGET)
    val = frozenset({"r:t.cc"})
    (done,) = fitted([own], tokenizer, tmp_path, row_length=4096, val=[True], val_lineages=val)
    assert text_of(done, tokenizer) == own.text
    assert (done.outcome, done.other_side_bytes) == ("whole", 0)
    seen: list[bool] = []

    def keep(document: TokenizedDocument, result: FitResult) -> FitResult:
        seen.append(document.targets_alone)
        return result

    for is_val in (True, False):
        held = frozenset({"r:t.cc"} if is_val else ())
        fitter = Fitter.from_tokenizer(tokenizer, row_length=4096, policy="route")
        files, store = sorted(tmp_path.glob("data/part-*.parquet")), TokenStore.open(tmp_path)
        sides = np.array([is_val])
        [
            *encode_documents(
                files,
                store,
                fitter,
                split=Split(held_out=sides, held_out_files=held),
                objective=keep,
            )
        ]
    assert seen == [True, False]


@pytest.mark.parametrize("is_val", [True, False])
def test_a_target_of_both_sides_is_dropped_from_either(
    is_val: bool, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    both = Made(lines=(1, 1), files=("t.cc", "b.cc"))
    (done,) = fitted(
        [context_document([FAR], both)],
        tokenizer,
        tmp_path,
        row_length=4096,
        val=[is_val],
        val_lineages=frozenset({"r:b.cc"}),
    )
    assert (done.outcome, done.encodings) == ("straddles", ())
    counts = Counts()
    counts.add(done)
    assert counts.report().documents == {"straddles": 1}


def test_a_target_on_the_other_side_than_its_document_is_dropped(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    own = context_document([FAR], TARGET)
    (done,) = fitted([own], tokenizer, tmp_path, row_length=4096, val=[True])
    assert done.outcome == "straddles"


def test_documents_without_chunks_are_never_touched(tokenizer: Tokenizer, tmp_path: Path) -> None:
    own = context_document([FAR], TARGET)
    flat = Document(
        **{
            **{name: getattr(own, name) for name in Document.__slots__},
            "family": "v3_simple",
            "chunks": (),
        }
    )
    val = frozenset({"r:a.cc"})
    (done,) = fitted([flat], tokenizer, tmp_path, row_length=4096, val=[True], val_lineages=val)
    assert (done.outcome, done.chunks) == ("whole", None)


FILES = ("a.cc", "b.cc", "c.cc", "t.cc")
PARTS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(FILES)), min_size=1, max_size=3)
CHUNKS = PARTS.map(
    lambda parts: Made(lines=tuple(n for n, _ in parts), files=tuple(file for _, file in parts))
)


def test_whatever_goes_chunks_stay_whole_and_the_target_last(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    seen: set[str] = set()

    @settings(max_examples=150)
    @given(
        st.lists(st.tuples(st.lists(CHUNKS, max_size=5), CHUNKS), min_size=1, max_size=3),
        st.sets(st.sampled_from(FILES)),
        st.integers(20, 400),
        st.booleans(),
    )
    def holds(
        drawn: list[tuple[list[Made], Made]], held_out: set[str], row_length: int, splits: bool
    ) -> None:
        documents = [
            context_document(chunks, target, str(number))
            for number, (chunks, target) in enumerate(drawn)
        ]
        val = [target.files[0] in held_out for _, target in drawn]
        done = fitted(
            documents,
            tokenizer,
            tmp_path,
            row_length=row_length,
            val=val if splits else None,
            val_lineages=frozenset(f"r:{file}" for file in held_out),
        )
        for each, (chunks, target), is_val in zip(done, drawn, val, strict=True):
            other = {file for file in FILES if splits and (file in held_out) != is_val}
            removed = set[str]() if is_val else other
            foreign = [
                *(not removed.isdisjoint(chunk.files) for chunk in chunks),
                not other.isdisjoint(target.files),
            ]
            check_one(each, documents[each.row], [*chunks, target], foreign, row_length, tokenizer)
            seen.add(each.outcome)

    holds()
    assert seen == {"whole", "elided", "routed", "straddles"}


def check_one(
    done: FitResult,
    document: Document,
    made: list[Made],
    foreign: list[bool],
    row_length: int,
    tokenizer: Tokenizer,
) -> None:
    """`foreign` are the chunks that must go; the last is the target's."""
    texts = chunk_texts(document)
    assert (done.outcome == "straddles") == foreign[-1]
    if done.outcome == "straddles":
        assert not done.encodings
        return
    if done.outcome == "routed":
        assert not done.encodings
        least = texts[-1] if len(made) == 1 else ELISION + texts[-1]
        header = document.text[: document.text.index("\n") + 1]
        assert fits(header + least, tokenizer) > row_length
        return
    (encoding,) = done.encodings
    assert len(encoding.ids) <= row_length
    text = text_of(done, tokenizer)
    assert text.endswith(texts[-1])
    kept = [chunk in text for chunk in texts]
    nearest = [stays for stays, gone in zip(kept, foreign, strict=True) if not gone]
    assert nearest == sorted(nearest), "what goes for want of room is the far end"
    assert not any(stays and gone for stays, gone in zip(kept, foreign, strict=True))
    runs = "".join(" " if stays else "x" for stays in kept).split()
    assert text.count(ELISION) == len(runs)
    assert done.chunks is not None
    assert done.chunks.kept == sum(kept) - 1
    assert done.chunks.other_side == sum(foreign)
    assert done.chunks.kept + done.chunks.elided + done.chunks.other_side == len(made) - 1
    held = sum(high - low for kind, _, _, low, high in encoding.pieces if kind == TEXT_PIECE)
    assert held + done.elided_bytes == done.num_bytes == len(document.text.encode())
    gone = [len(chunk.encode()) for chunk, stays in zip(texts, kept, strict=True) if not stays]
    assert sum(gone) == done.elided_bytes


def fits(text: str, tokenizer: Tokenizer) -> int:
    """Tokens that a text has at most, BOS and EOS included: by lines, as no part is smaller."""
    return sum(len(tokenizer.encode(line)) for line in text.splitlines(keepends=True)) + 2
