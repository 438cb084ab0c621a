from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.objectives import causal
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import Encoding

BOS, EOS = 0, 1
TOKEN_BYTES = np.array([0, 0, 1, 2, 3], dtype=np.int32)
NOTHING = np.empty((0, 2), dtype=np.int32)


def encoding(ids: list[int], pieces: list[list[int]]) -> Encoding:
    return Encoding(
        document_id="d",
        ids=np.array(ids, dtype=np.int32),
        loss_mask=np.array([1] * (len(ids) - 1) + [0], dtype=np.uint8),
        pieces=np.array(pieces, dtype=np.int32),
    )


WHOLE = encoding([BOS, 2, 3, 4, 3, EOS], [[1, 0, 1, 0, 0], [0, 1, 5, 0, 8], [1, 5, 6, 8, 8]])
ELIDED = encoding(
    [BOS, 4, 2, 2, 4, EOS],
    [[1, 0, 1, 0, 0], [0, 1, 2, 0, 3], [1, 2, 4, 3, 3], [0, 4, 5, 9, 12], [1, 5, 6, 12, 12]],
)


def test_without_repeats_everything_counts_but_the_last_token() -> None:
    assert causal.apply(WHOLE, NOTHING, TOKEN_BYTES) is WHOLE


def test_a_target_with_one_repeated_byte_is_not_scored() -> None:
    spans = np.array([[2, 3], [6, 8]], dtype=np.int32)
    assert causal.apply(WHOLE, spans, TOKEN_BYTES).loss_mask.tolist() == [1, 0, 1, 0, 1, 0]


def test_the_mask_speaks_of_the_next_token() -> None:
    first = np.array([[0, 1]], dtype=np.int32)
    assert causal.apply(WHOLE, first, TOKEN_BYTES).loss_mask.tolist() == [0, 1, 1, 1, 1, 0]


def test_eos_is_scored_after_a_repeated_end() -> None:
    spans = np.array([[0, 8]], dtype=np.int32)
    assert causal.apply(WHOLE, spans, TOKEN_BYTES).loss_mask.tolist() == [0, 0, 0, 0, 1, 0]


def test_an_elision_line_is_not_scored_but_what_follows_it_is() -> None:
    assert causal.apply(ELIDED, NOTHING, TOKEN_BYTES).loss_mask.tolist() == [1, 0, 0, 1, 1, 0]


def test_spans_are_bytes_of_the_document_whatever_was_elided() -> None:
    spans = np.array([[3, 10]], dtype=np.int32)
    assert causal.apply(ELIDED, spans, TOKEN_BYTES).loss_mask.tolist() == [1, 0, 0, 0, 1, 0]


def test_the_encoding_given_is_left_as_it_was() -> None:
    spans = np.array([[0, 8]], dtype=np.int32)
    before = WHOLE.loss_mask.copy()
    assert causal.apply(WHOLE, spans, TOKEN_BYTES) is not WHOLE
    assert np.array_equal(WHOLE.loss_mask, before)


SPANS = st.lists(st.integers(0, 60), unique=True, max_size=12).map(sorted)


@given(st.lists(st.integers(2, 4), min_size=1, max_size=20), SPANS, st.integers(0, 9))
def test_masks_equal_those_of_a_loop_over_bytes(
    ids: list[int], edges: list[int], byte_start: int
) -> None:
    size = int(TOKEN_BYTES[ids].sum())
    end, last = byte_start + size, len(ids) + 1
    own = encoding(
        [BOS, *ids, EOS],
        [
            [1, 0, 1, byte_start, byte_start],
            [0, 1, last, byte_start, end],
            [1, last, last + 1, end, end],
        ],
    )
    spans = np.array(edges[: len(edges) // 2 * 2], dtype=np.int32).reshape(-1, 2)
    repeated = {byte for start, stop in spans.tolist() for byte in range(start, stop)}
    expected, byte = [], byte_start
    for token in ids:
        expected.append(int(not repeated & set(range(byte, byte + int(TOKEN_BYTES[token])))))
        byte += int(TOKEN_BYTES[token])
    assert causal.apply(own, spans, TOKEN_BYTES).loss_mask.tolist() == [*expected, 1, 0]


@pytest.mark.parametrize("family", ["v2_doxygen", "v3_simple"])
def test_of_a_generated_header_only_the_subject_is_a_target(
    family: str, byte_level: Tokenizer, kit: Any
) -> None:
    document = kit.document_of("int add();\n", family, before="int one();\n")
    (encoded,) = kit.encoded(document, byte_level, 4096)
    done = causal.objective(byte_level, variant=0).apply(encoded, kit.known(document, room=4096))
    scored = np.concatenate(([0], done.encoding.loss_mask[:-1])) == 1
    learnt = byte_level.decode_bytes(encoded.ids[scored].tolist()).decode()
    assert "Subject: Add by hand" in learnt
    for generated in ("src/sum.cc", "Repository", "89abcdef0123", "2023-11-14"):
        assert generated in document.text
        assert generated not in learnt
