import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.shingles import SHINGLE_TOKENS, shingles

WORDS = st.lists(st.sampled_from(["int", "x", "=", "f", "(", ")", ";", "é", "0x1F"]), max_size=30)


@given(words=WORDS, spaces=st.lists(st.sampled_from([" ", "\n", "\t", "\r\n"]), min_size=1))
def test_white_space_counts_for_nothing_but_between_words(words, spaces):
    spaced = "".join(f"{word}{spaces[at % len(spaces)]}" for at, word in enumerate(words))
    assert np.array_equal(shingles(" ".join(words)), shingles(spaced))


@given(words=WORDS)
def test_shingles_are_sorted_and_each_stands_once(words):
    found = shingles(" ".join(words))
    assert np.all(found[1:] > found[:-1])
    windows = {
        tuple(words[at : at + SHINGLE_TOKENS]) for at in range(len(words) - SHINGLE_TOKENS + 1)
    }
    assert len(found) == len(windows)


def test_the_comment_that_a_file_begins_with_counts_for_nothing():
    body = "int f() { return 1; }\n"
    licence = "// Copyright\n/* All\n rights */\n\n"
    assert np.array_equal(shingles(licence + body), shingles(body))


@pytest.mark.parametrize("text", ["", "\n", "// only a comment", "int a ;", "{{{{"])
def test_a_file_of_fewer_than_five_tokens_has_none(text):
    assert len(shingles(text)) == 0


def test_a_word_is_not_its_parts_and_its_order_counts():
    one, other = shingles("ab cd e f g"), shingles("abc d e f g")
    assert not np.intersect1d(one, other).size
    assert not np.intersect1d(shingles("ab ba c d e"), shingles("ba ab c d e")).size


def test_a_word_of_any_length_is_read_whole():
    one, other = (shingles(f"a b c d {'x' * 100_000}{end}") for end in "yz")
    assert one.tolist() != other.tolist()
