"""Lines that nothing shows earlier: of files by the version before, of graphs by extrapolation."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from curriculum.supply.shown_text import (
    LINES_SCHEMA,
    EarlierVersions,
    ShownText,
    extrapolate_tokens,
    first_shown,
)

CHANGE = ("commit", "own:file.c")


def shown(turn: int, keys: Sequence[int], change: tuple[str, str] = CHANGE) -> ShownText:
    return ShownText(
        turn=turn,
        change=change,
        keys=np.array(keys, dtype=np.uint64),
        scored=np.ones((1, len(keys)), dtype=np.int64),
        lengths=np.array([len(keys)], dtype=np.int64),
        others=0,
    )


def before(keys: Sequence[int], unread: int) -> EarlierVersions:
    return EarlierVersions(unread={CHANGE: unread}, lines={CHANGE: np.array(keys, dtype=np.uint64)})


def test_a_line_is_new_in_the_first_document_of_the_sample_that_shows_it() -> None:
    texts = [shown(2, [5, 6]), shown(1, [6, 7])]
    new = first_shown(texts, EarlierVersions())
    assert [each.tolist() for each in new] == [[True, False], [True, True]]


def test_a_line_of_the_file_before_is_known_if_an_unread_document_shows_the_file() -> None:
    for unread, expected in ((0, [True, True]), (1, [False, True])):
        (new,) = first_shown([shown(1, [5, 6])], before([5], unread))
        assert new.tolist() == expected


def test_the_more_documents_show_a_part_of_a_file_the_more_of_it_is_known() -> None:
    random = np.random.default_rng(3)
    lines = random.integers(0, 1 << 64, 4000, dtype=np.uint64)
    text = lines[:1000]
    known = [len(before(lines.tolist(), n).known(CHANGE, text)) / 4000 for n in (1, 2, 4)]
    assert known == pytest.approx([1 - 0.75**n for n in (1, 2, 4)], abs=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_lines_of_all_commits_follow_from_those_of_some(seed: int) -> None:
    """Commits show random lines, a fifth of which many commits show."""
    random = np.random.default_rng(seed)
    rates = np.where(np.arange(5000) < 1000, 0.2, 0.02)
    commits = 200
    is_shown = random.random((commits, len(rates))) < rates
    unit, key = np.nonzero(is_shown)
    tokens = 5 + key % 10
    lines = pl.DataFrame(
        {"unit": unit.astype(str), "key": key, "tokens": tokens}, schema=LINES_SCHEMA
    )
    whole = extrapolate_tokens(lines, read=commits, population=commits)
    read = lines.filter(pl.Series(unit < 40))
    assert whole == (5 + np.flatnonzero(is_shown.any(axis=0)) % 10).sum()
    assert extrapolate_tokens(read, read=40, population=commits) == pytest.approx(whole, rel=0.1)
    assert extrapolate_tokens(read, read=40, population=40) < 0.8 * whole
