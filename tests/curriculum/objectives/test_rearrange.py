from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from curriculum.encode import Fitter, TokenizedDocument
from curriculum.objectives.rearrange import Inserted, Segment, reorder_encoding
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Encoding, Spans, byte_ranges
from curriculum.tokens.train import train_tokenizer
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE

WORDS = (" int", "  int", " compute", "(b)", "é", "𝄞", "\t", "\treturn", "    ", " x;", "=======")
NONE = np.empty(0, dtype=np.int32)
LINES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(WORDS), max_size=6).map(lambda words: "".join(words) + "\n"),
        st.booleans(),
    ),
    min_size=1,
    max_size=10,
)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    texts = ["  int  aé = compute(b);\n\n\n\t\treturn x;   \n int x; ======= 𝄞"] * 20
    return Tokenizer.parse(train_tokenizer(texts, vocab_size=320).decode())


def tokenized(lines: list[tuple[str, bool]], tokenizer: Tokenizer) -> TokenizedDocument:
    """A part a line; those marked may be elided."""
    found = [tokenizer.encode(line) for line, _ in lines]
    frame = [np.array([token]) for token in (tokenizer.bos_id, tokenizer.eos_id)]
    return TokenizedDocument(
        row=0,
        document_id="d",
        flat_id="d",
        language="cpp",
        ids=np.concatenate([frame[0], *found, frame[1]]),
        part_bytes=np.cumsum([0, *(len(line.encode()) for line, _ in lines)]).astype(np.int32),
        part_tokens=np.cumsum([0, *map(len, found)]).astype(np.int32),
        part_kinds=np.zeros(len(lines), dtype=np.int32),
        ranks=np.arange(len(lines), dtype=np.int32),
        elidable=np.array([may for _, may in lines], dtype=np.bool_),
        spans=Spans(kinds=NONE, starts=NONE, ends=NONE),
        generated=np.zeros(len(lines), dtype=np.bool_),
        other_side=np.zeros(len(lines), dtype=np.bool_),
        refused=np.zeros(len(lines), dtype=np.bool_),
    )


def text_of(encoding: Encoding, tokenizer: Tokenizer, data: bytes) -> list[tuple[int, int]]:
    """The byte ranges of the text pieces in their order, once each is known to spell its bytes."""
    assert encoding.pieces[0, 1] == 0
    assert encoding.pieces[-1, 2] == len(encoding.ids)
    assert np.array_equal(encoding.pieces[1:, 1], encoding.pieces[:-1, 2])
    found: list[tuple[int, int]] = []
    for kind, start, end, low, high in encoding.pieces.tolist():
        assert start < end
        if kind == TEXT_PIECE:
            assert tokenizer.decode_bytes(encoding.ids[start:end].tolist()) == data[low:high]
            found.append((low, high))
        else:
            assert (kind, low) == (GENERATED_PIECE, high)
    return found


def characters(text: str) -> list[int]:
    """Return the byte offset of each character, then the number of bytes."""
    return list(accumulate((len(each.encode()) for each in text), initial=0))


def overlap(ranges: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    cut = ((max(low, start), min(high, end)) for low, high in ranges)
    return [(low, high) for low, high in cut if low < high]


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that go on as one."""
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


@st.composite
def segment_orders(
    draw: st.DrawFn, size: int
) -> tuple[list[int], list[int], list[bool], list[bool]]:
    """Cuts (indices of characters), an order of the segments between, which go, which count."""
    cuts = sorted(draw(st.lists(st.integers(0, size), max_size=5)))
    count = len(cuts) + 1
    order = draw(st.permutations(range(count)))
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    return cuts, order, draw(flags), draw(flags)


def test_text_goes_where_its_segment_goes_and_nothing_else_happens(tokenizer: Tokenizer) -> None:
    seen: set[str] = set()

    @settings(max_examples=300)
    @given(LINES, st.integers(4, 60), st.data())
    def holds(lines: list[tuple[str, bool]], row_length: int, data: st.DataObject) -> None:
        text = "".join(line for line, _ in lines)
        raw, borders = text.encode(), characters(text)
        document = tokenized(lines, tokenizer)
        fitted = Fitter.from_tokenizer(tokenizer, row_length=row_length, policy="divide").fit(
            document
        )
        seen.add(fitted.outcome)
        cuts, order, stays, counts = data.draw(segment_orders(len(text)))
        edges = [0, *(borders[cut] for cut in cuts), len(raw)]
        segments = [
            Segment(start=start, end=end, scored=scored)
            for (start, end), scored in zip(pairwise(edges), counts, strict=True)
        ]
        chosen = [segments[number] for number in order if stays[number]]
        sentinel = Inserted(ids=(tokenizer.ids_of["fim_middle"],))
        mixed = [each for segment in chosen for each in (sentinel, segment)]
        for encoding in fitted.encodings:
            done = reorder_encoding(encoding, mixed, document.part_bytes, tokenizer)
            before = text_of(encoding, tokenizer, raw)
            after = text_of(done.encoding, tokenizer, raw)
            expected = [overlap(before, each.start, each.end) for each in chosen]
            assert after == [each for own in expected for each in joined(own)]
            assert done.masked_bytes == size(before) - size(after)
            check_mask(done.encoding, chosen, tokenizer)
            check_taken(encoding, done.encoding, chosen, document, tokenizer, seen)

    holds()
    assert seen >= {"whole", "elided", "divided", "anew", "as it was", "line of a gap"}


def size(ranges: list[tuple[int, int]]) -> int:
    return sum(high - low for low, high in ranges)


def check_mask(done: Encoding, chosen: list[Segment], tokenizer: Tokenizer) -> None:
    """Text and the line of a gap count as their segment says, sentinels never, EOS always."""
    starts, ends = byte_ranges(done.ids, done.pieces, tokenizer.token_bytes)
    expected = []
    for token, start, end in zip(done.ids.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if start == end and not tokenizer.token_bytes[token]:
            expected.append(int(token == tokenizer.eos_id))
        else:
            own = next(each for each in chosen if each.start <= start < each.end)
            expected.append(int(own.scored))
    assert done.loss_mask.tolist() == [*expected[1:], 0]


def check_taken(
    before: Encoding,
    after: Encoding,
    chosen: list[Segment],
    document: TokenizedDocument,
    tokenizer: Tokenizer,
    seen: set[str],
) -> None:
    """Tokens that no cut's part has are those of before; lines of gaps stand once each, if at all."""
    old, new = placed(before, tokenizer), placed(after, tokenizer)
    cuts = {edge for each in chosen for edge in (each.start, each.end)}
    inside = {cut for start, end, _ in old for cut in cuts if start < cut < end}
    part = np.searchsorted(document.part_bytes, [start for start, _, _ in old], side="right")
    touched = set(np.searchsorted(document.part_bytes, sorted(inside), side="right").tolist())
    kept = set(new)
    for (start, end, token), own in zip(old, part.tolist(), strict=True):
        segment = [each for each in chosen if each.start <= start < each.end]
        if start == end:
            seen.add("line of a gap")
            assert new.count((start, end, token)) == old.count((start, end, token)) * len(segment)
        elif segment and own not in touched:
            seen.add("as it was")
            assert (start, end, token) in kept
    if inside:
        seen.add("anew")


def placed(encoding: Encoding, tokenizer: Tokenizer) -> list[tuple[int, int, int]]:
    """(start, end, id) of every token that spells text."""
    starts, ends = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
    spells = tokenizer.token_bytes[encoding.ids] > 0
    return list(
        zip(
            starts[spells].tolist(), ends[spells].tolist(), encoding.ids[spells].tolist(),
            strict=True,
        )
    )  # fmt: skip


def test_what_is_encoded_anew_is_what_the_tokenizer_makes_of_it_up_to_the_border(
    tokenizer: Tokenizer,
) -> None:
    lines = [(" compute(b) x;\n", False), (" compute(b) x;\n", False)]
    document = tokenized(lines, tokenizer)
    (encoding,) = (
        Fitter.from_tokenizer(tokenizer, row_length=64, policy="divide").fit(document).encodings
    )
    order = [Segment(start=0, end=19), Segment(start=19, end=30)]
    done = reorder_encoding(encoding, order, document.part_bytes, tokenizer).encoding
    first, left, right = (
        tokenizer.encode(text).tolist() for text in (lines[0][0], " com", "pute(b) x;\n")
    )
    assert done.ids.tolist() == [tokenizer.bos_id, *first, *left, *right, tokenizer.eos_id]
    assert done.ids.tolist() != encoding.ids.tolist()
    assert np.array_equal(done.pieces[:, (0, 3, 4)], encoding.pieces[:, (0, 3, 4)])


@given(LINES, st.integers(4, 60), st.lists(st.integers(0, 60), max_size=3))
@example([(" int x;\n", True)] * 9, 30, [])
def test_segments_that_are_the_whole_change_nothing(
    tokenizer: Tokenizer, lines: list[tuple[str, bool]], row_length: int, cuts: list[int]
) -> None:
    document = tokenized(lines, tokenizer)
    last = int(document.part_bytes[-1])
    for encoding in (
        Fitter.from_tokenizer(tokenizer, row_length=row_length, policy="divide")
        .fit(document)
        .encodings
    ):
        starts, _ = byte_ranges(encoding.ids, encoding.pieces, tokenizer.token_bytes)
        edges = sorted({0, last, *(int(starts[cut % len(starts)]) for cut in cuts)})
        order = [Segment(start=start, end=end) for start, end in pairwise(edges)]
        done = reorder_encoding(encoding, order, document.part_bytes, tokenizer)
        assert done.masked_bytes == 0
        for name in ("ids", "loss_mask", "pieces"):
            assert np.array_equal(getattr(done.encoding, name), getattr(encoding, name))


def test_a_byte_that_would_stand_twice_is_refused(tokenizer: Tokenizer) -> None:
    document = tokenized([(" int x;\n", False)], tokenizer)
    (encoding,) = (
        Fitter.from_tokenizer(tokenizer, row_length=64, policy="divide").fit(document).encodings
    )
    order = [Segment(start=0, end=4), Segment(start=3, end=8)]
    with pytest.raises(AssertionError, match="disjoint"):
        reorder_encoding(encoding, order, document.part_bytes, tokenizer)


def test_what_is_inserted_stands_where_the_text_before_it_ended(tokenizer: Tokenizer) -> None:
    document = tokenized([(" int x;\n", False)], tokenizer)
    (encoding,) = (
        Fitter.from_tokenizer(tokenizer, row_length=64, policy="divide").fit(document).encodings
    )
    role = Inserted(ids=(tokenizer.ids_of["user"],))
    end = Inserted(ids=(tokenizer.ids_of["end_of_turn"],), scored=True)
    text = (Segment(start=4, end=8), Segment(start=0, end=4, scored=False))
    order: list[Segment | Inserted] = [role, text[0], end, text[1]]
    done = reorder_encoding(
        encoding, order, document.part_bytes, tokenizer, end_scored=False
    ).encoding
    assert done.pieces[:, (0, 3, 4)].tolist() == [
        [1, 0, 0], [1, 0, 0], [0, 4, 8], [1, 8, 8], [0, 0, 4], [1, 8, 8]
    ]  # fmt: skip
    at = done.ids.tolist().index(tokenizer.ids_of["end_of_turn"])
    assert done.loss_mask.tolist() == [0] + [1] * (at - 1) + [0] * (len(done.ids) - at)
