"""New lines against a reading of their definition, line by line."""

import doctest
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curriculum.objectives import new_lines
from curriculum.objectives.new_lines import FirstShowings, shown_lines, within_new_lines
from curriculum.tokens.encoding import BYTE_START, TOKEN_END, Encoding
from schemas.packed_row import GENERATED_PIECE, TEXT_PIECE

NONE = np.empty((0, 2), dtype=np.int32)
LINES = st.sampled_from([b"a", b" a", b"a \t", b"b", b"ab", b"ba", b"", b"  ", b"a b", b"\xc3\xa9"])
TEXTS = st.lists(LINES, max_size=12)
Pair = tuple[bytes | None, bytes]


def text_of(lines: list[bytes], *, open_end: bool = False) -> bytes:
    """Lines with their ends; the last may lack its own."""
    text = b"".join(line + b"\n" for line in lines)
    return text[:-1] if open_end and lines and lines[-1] else text


def borders_of(text: bytes) -> list[int]:
    """The start of every line, and the end of the text."""
    starts = [0, *(at + 1 for at, byte in enumerate(text) if byte == ord("\n"))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


@st.composite
def stretched(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]]]:
    """A text and some stretches of whole lines of it, neighbours among them."""
    text = text_of(draw(TEXTS), open_end=draw(st.booleans()))
    cuts = sorted(draw(st.sets(st.sampled_from(borders_of(text)))))
    return text, [pair for pair in pairwise(cuts) if draw(st.booleans())]


def pairs_by_hand(text: bytes, stretches: list[tuple[int, int]]) -> list[tuple[int, int, Pair]]:
    """Start and end of each line in a stretch, with the line before and the line itself."""
    found: list[tuple[int, int, Pair]] = []
    for start, end in stretches:
        before: bytes | None = None
        at = start
        for line in text[start:end].splitlines(keepends=True):
            own = line.strip(b" \t\n\v\f\r")
            found.append((at, at + len(line), (before, own)))
            at, before = at + len(line), own
    return found


def as_array(stretches: list[tuple[int, int]]) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return np.array(stretches, dtype=np.int32).reshape(-1, 2)


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(new_lines)
    assert done.attempted
    assert not done.failed


@given(stretched(), stretched())
def test_keys_are_equal_where_pairs_of_lines_are(
    one: tuple[bytes, list[tuple[int, int]]], other: tuple[bytes, list[tuple[int, int]]]
) -> None:
    pair_of: dict[int, Pair] = {}
    for text, stretches in (one, other):
        lines, expected = shown_lines(text, as_array(stretches)), pairs_by_hand(text, stretches)
        assert lines.ranges.tolist() == [[start, end] for start, end, _ in expected]
        for key, (_, _, pair) in zip(lines.keys.tolist(), expected, strict=True):
            assert pair_of.setdefault(key, pair) == pair
    assert len(set(pair_of.values())) == len(pair_of)


@given(st.lists(TEXTS, max_size=8), st.data())
def test_a_line_is_new_in_the_first_document_that_shows_it_whatever_the_order_of_noting(
    documents: list[list[bytes]], data: st.DataObject
) -> None:
    texts = [text_of(lines) for lines in documents]
    keys = [shown_lines(text, as_array([(0, len(text))])).keys for text in texts]
    shown = FirstShowings()
    for turn in data.draw(st.permutations(range(len(texts)))):
        shown.add(turn, keys[turn])
    seen: set[Pair] = set()
    for turn, text in enumerate(texts):
        own = [pair for _, _, pair in pairs_by_hand(text, [(0, len(text))])]
        assert shown.are_first(turn, keys[turn]).tolist() == [pair not in seen for pair in own]
        seen.update(own)


@given(
    st.lists(st.lists(st.integers(1, 20), max_size=30), min_size=1, max_size=6),
    st.data(),
)
def test_merging_often_changes_nothing(documents: list[list[int]], data: st.DataObject) -> None:
    listed = [np.array(keys, dtype=np.uint64) for keys in documents]
    often, once = FirstShowings(), FirstShowings()
    for turn, keys in enumerate(listed):
        often.add(turn, keys)
        once.add(turn, keys)
        asked = data.draw(st.integers(0, turn))
        often.are_first(asked, listed[asked])
    for turn, keys in enumerate(listed):
        assert often.are_first(turn, keys).tolist() == once.are_first(turn, keys).tolist()


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    mask=st.lists(st.booleans(), min_size=14, max_size=14),
    edges=st.lists(st.integers(0, 60), unique=True, max_size=8),
    has_eos=st.booleans(),
)
def test_a_token_is_scored_where_it_was_and_has_a_byte_of_a_new_line_or_a_header(
    sizes: list[int], mask: list[bool], edges: list[int], has_eos: bool
) -> None:
    count = len(sizes) + 1 + has_eos
    token_bytes = np.array([0, *range(1, 6)], dtype=np.int32)
    size = sum(sizes)
    rows = [
        (GENERATED_PIECE, 0, 1, 0, 0),
        (TEXT_PIECE, 1, len(sizes) + 1, 0, size),
        (GENERATED_PIECE, len(sizes) + 1, count, size, size),
    ]
    pieces = np.array(rows[: 2 + has_eos], dtype=np.int32)
    assert pieces[-1, TOKEN_END] == count
    encoding = Encoding(
        document_id="d",
        ids=np.array([0, *sizes, *[0] * has_eos], dtype=np.int32),
        loss_mask=np.array([*mask[: count - 1], False], dtype=np.uint8),
        pieces=pieces,
    )
    ranges = as_array([*zip(sorted(edges)[::2], sorted(edges)[1::2], strict=False)])
    new, headers = ranges[::2], ranges[1::2]
    done = within_new_lines(encoding, new, headers, token_bytes)

    borders = np.cumsum([0, *sizes]).tolist()
    new_bytes, header_bytes = (
        {byte for low, high in some.tolist() for byte in range(low, high)}
        for some in (new, headers)
    )
    is_new = [bool(new_bytes & {*range(*pair)}) for pair in pairwise(borders)]
    of_header = [bool(header_bytes & {*range(*pair)}) for pair in pairwise(borders)]
    allowed = [new or head for new, head in zip(is_new, of_header, strict=True)]
    allowed += [is_new[-1]] * has_eos
    expected = [int(was and now) for was, now in zip(mask[: count - 1], allowed, strict=True)]
    if not any(was and now for was, now in zip(mask, is_new, strict=False)):
        expected = [0] * len(expected)
    assert done.loss_mask.tolist() == [*expected, 0]
    assert done.pieces[0, BYTE_START] == 0


def test_blanks_inside_a_line_count() -> None:
    one, other = (shown_lines(text, as_array([(0, len(text))])) for text in (b"a b\n", b"ab\n"))
    assert one.keys.tolist() != other.keys.tolist()


def test_a_text_without_a_line_has_none() -> None:
    assert len(shown_lines(b"", NONE).keys) == 0
    assert len(shown_lines(b"a\nb\n", NONE).keys) == 0
