"""The page's script decodes exactly the tokens of the row."""

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dashboards.rows.row_page import (
    DIGITS,
    codes,
    encode_lengths,
    generated,
    runs,
    scored,
    texts_of,
)


def _read(text: str) -> list[int]:
    """Decode ids as the page's script does."""
    values, carried = [], 0
    for letter in text:
        for value in divmod(DIGITS.index(letter), 8):
            carried += value
            if value < 7:
                values.append(carried)
                carried = 0
    return values


@given(st.lists(st.integers(0, 700)))
def test_lengths_come_back(lengths: list[int]) -> None:
    assert _read(encode_lengths(lengths)) == lengths


@given(st.lists(st.booleans()))
def test_runs_come_back(flags: list[bool]) -> None:
    back = itertools.chain.from_iterable(
        [bool(at % 2)] * size for at, size in enumerate(runs(flags))
    )
    assert list(back) == flags


def test_texts_are_whole_and_lengths_cut_them_into_the_tokens(rows_home: Any) -> None:
    tokenizer = rows_home.loaded()
    for each in rows_home.shown():
        said = texts_of(each, tokenizer)
        lengths = _read(said.lengths)
        assert len(lengths) == each.valid_token_count
        at = 0
        for part, text in zip(each.documents, said.texts, strict=True):
            ids = each.input_ids[part.start : part.end]
            assert text == tokenizer.decode(ids)
            units = text.encode("utf-16-le")
            assert sum(lengths[part.start : part.end]) == len(units) // 2
            for token, length in zip(ids, lengths[part.start : part.end], strict=True):
                own = tokenizer.decode([token])
                if "\ufffd" not in own:
                    assert own.encode("utf-16-le") == units[at : at + 2 * length]
                at += 2 * length
            at = 0


def test_a_character_of_several_tokens_is_there_once(rows_home: Any) -> None:
    said = texts_of(rows_home.shown()[1], rows_home.loaded())
    assert "\U0001f600" in said.texts[1]
    assert "größe" in said.texts[1]
    assert "\ufffd" not in said.texts[1]


def test_a_token_is_scored_where_the_token_before_it_predicts(rows_home: Any) -> None:
    one = rows_home.shown()[0]
    flags = scored(one)
    assert not flags[0], "nothing predicts the first"
    assert flags[1:].tolist() == [bool(each) for each in one.loss_mask[:-1]]
    assert int(flags.sum()) == one.loss_token_count > 0


def test_what_no_document_holds_is_told_apart(rows_home: Any) -> None:
    three = rows_home.shown()[1]
    assert np.flatnonzero(generated(three)).tolist() == [part.start for part in three.documents]


def test_structure_is_told_in_runs_and_not_at_all_without(rows_home: Any) -> None:
    one, _, structured = rows_home.shown()
    assert codes(one) == []
    told = codes(structured)
    assert told[::2] == [0, 3, 4]
    assert sum(told[1::2]) == structured.valid_token_count
