"""Search/replace blocks against their definition, tried by brute force on short texts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.families.edit_blocks import (
    DIVIDER,
    MAX_CONTEXT,
    MAX_PLACES,
    NO_NEWLINE,
    REPLACE,
    SEARCH,
    EditBlock,
    LineRange,
    apply_blocks,
    blocks_between,
    has_marker,
    whole_lines,
)
from schemas.change import Hunk
from tests.curriculum.families.conftest import hunks_between

LINES = st.sampled_from(["a", "b", "", " ", "a\r", "}", "é"])
TEXTS = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(LINES, max_size=12),
    st.sampled_from(["", "\n"]),
)


def section(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n{NO_NEWLINE}"


def written(search: str, replace: str) -> str:
    return SEARCH + section(search) + DIVIDER + section(replace) + REPLACE


def between(before: str, after: str) -> tuple[EditBlock, ...]:
    blocks = blocks_between(whole_lines(before), whole_lines(after), hunks_between(before, after))
    assert blocks is not None
    return blocks


def texts_of(blocks: tuple[EditBlock, ...], before: str, after: str) -> list[str]:
    old, new = whole_lines(before), whole_lines(after)
    return [
        written("".join(old[slice(*block.search)]), "".join(new[slice(*block.replace)]))
        for block in blocks
    ]


def places(lines: list[str], run: LineRange) -> int:
    """Return the number of occurrences of a run of lines."""
    size = run[1] - run[0]
    return sum(lines[at : at + size] == lines[slice(*run)] for at in range(len(lines) - size + 1))


def runs_around(core: LineRange, count: int) -> list[LineRange]:
    """All runs of lines, none empty, that have some lines or the border between two."""
    return [
        (first, last)
        for first in range(core[0] + 1)
        for last in range(max(core[1], first + 1), count + 1)
    ]


@given(before=TEXTS, after=TEXTS)
def test_a_text_with_its_blocks_applied_is_the_text_after(before: str, after: str) -> None:
    texts = texts_of(between(before, after), before, after)
    assert apply_blocks(before, "".join(texts)) == after
    assert apply_blocks(before, "".join(reversed(texts))) == after


@given(before=TEXTS, after=TEXTS)
def test_search_is_the_shortest_run_of_its_hunks_that_is_unique_and_the_first_of_them(
    before: str, after: str
) -> None:
    lines = whole_lines(before)
    hunks = hunks_between(before, after)
    for block in between(before, after):
        first, last = block.search
        own = [
            hunk
            for hunk in hunks
            if first <= hunk.before_start and hunk.before_start + hunk.before_lines <= last
        ]
        if not lines:
            assert block.search == (0, 0)
            continue
        core = own[0].before_start, own[-1].before_start + own[-1].before_lines
        unique = [run for run in runs_around(core, len(lines)) if places(lines, run) == 1]
        assert block.search == min(unique, key=lambda run: (run[1] - run[0], run))


@given(before=TEXTS, after=TEXTS)
def test_blocks_have_each_hunk_once_and_do_not_touch(before: str, after: str) -> None:
    blocks = between(before, after)
    assert all(one.search[1] < other.search[0] for one, other in pairwise(blocks))
    hunks = hunks_between(before, after)
    added = [(hunk.after_start, hunk.after_start + hunk.after_lines) for hunk in hunks]
    assert [run for block in blocks for run in block.added] == [
        run for run in added if run[0] < run[1]
    ]


@given(text=st.text(st.sampled_from("ab\n\r\f\u2028 "), max_size=20))
def test_lines_with_their_ends_are_the_text(text: str) -> None:
    lines = whole_lines(text)
    assert "".join(lines) == text
    assert all(line.endswith("\n") for line in lines[:-1])
    assert "" not in lines


def test_hunks_whose_runs_overlap_are_one_block_whose_run_is_the_shortest_of_both() -> None:
    before, after = [*"paaq"], [*"pxyq"]
    hunks = [
        Hunk(before_start=number, before_lines=1, after_start=number, after_lines=1)
        for number in (1, 2)
    ]
    alone = [blocks_between(before, after, [hunk]) or () for hunk in hunks]
    assert [block.search for blocks in alone for block in blocks] == [(0, 2), (1, 3)]
    (block,) = blocks_between(before, after, hunks) or ()
    assert (block.search, block.added) == ((1, 3), ((1, 2), (2, 3)))


def test_an_insertion_has_the_line_above_if_that_is_unique_else_the_one_below() -> None:
    assert between("a\nb\n", "a\nx\nb\n")[0].search == (0, 1)
    assert between("a\nb\nb\na\nc\n", "a\nb\nb\na\nx\nc\n")[0].search == (4, 5)
    assert between("a\nb\n", "x\na\nb\n")[0].search == (0, 1)


def test_crlf_is_a_part_of_its_line() -> None:
    before, after = "a\r\nb\nb\r\n", "a\r\nb\nc\r\n"
    texts = texts_of(between(before, after), before, after)
    assert texts == [f"{SEARCH}b\r\n{DIVIDER}c\r\n{REPLACE}"]
    assert apply_blocks(before, texts[0]) == after


@pytest.mark.parametrize(
    ("before", "after"), [("a\nb", "a\nc"), ("a\nb", "a\nb\n"), ("a\nb\n", "a\nb"), ("b", "b\nb")]
)
def test_a_line_without_an_end_is_not_the_line_with_one(before: str, after: str) -> None:
    texts = texts_of(between(before, after), before, after)
    assert NO_NEWLINE in texts[0]
    assert apply_blocks(before, texts[0]) == after
    assert apply_blocks(before + "\n", texts[0]) != after


def test_an_empty_text_has_one_block_with_an_empty_search() -> None:
    assert texts_of(between("", "a\nb\n"), "", "a\nb\n") == [f"{SEARCH}{DIVIDER}a\nb\n{REPLACE}"]
    assert between("", "") == ()
    assert texts_of(between("a\n", ""), "a\n", "") == [f"{SEARCH}a\n{DIVIDER}{REPLACE}"]


def test_text_that_repeats_too_much_has_no_blocks() -> None:
    def inserted(count: int, at: int) -> tuple[EditBlock, ...] | None:
        hunk = Hunk(before_start=at, before_lines=0, after_start=at, after_lines=1)
        return blocks_between(["a"] * count, ["a"] * (count + 1), [hunk])

    (block,) = inserted(MAX_CONTEXT, 3) or ()
    assert block.search == (0, MAX_CONTEXT)
    assert inserted(3 * MAX_CONTEXT, MAX_CONTEXT + 2) is None
    assert inserted(MAX_PLACES + 1, 3) is None


@pytest.mark.parametrize(
    "blocks",
    [
        written("x\n", "y\n"),
        written("b\n", "y\n"),
        written("", "y\n"),
        written("a", "y\n"),
        written("a\nb\n", "x\n") + written("a\n", "y\n"),
        written("a\n", "y\n") + "\n",
        "\n" + written("a\n", "y\n"),
        f"{SEARCH}a\n{DIVIDER}y\n",
        f"{SEARCH}a\n{REPLACE}",
    ],
    ids=[
        "missing",
        "twice",
        "empty",
        "without its end",
        "overlap",
        "text below",
        "text above",
        "open",
        "undivided",
    ],
)
def test_blocks_that_do_not_fit_are_not_applied(blocks: str) -> None:
    assert apply_blocks("a\nb\nc\nb\n", blocks) is None


def test_no_blocks_change_nothing() -> None:
    assert apply_blocks("a\n", "") == "a\n"


def test_a_marker_is_a_line_of_its_own() -> None:
    for marker in ("<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", NO_NEWLINE.strip()):
        assert has_marker(["a\n", f"{marker}\n"])
        assert has_marker([f"  {marker} \r\n"])
        assert has_marker([marker])
        assert not has_marker([f"// {marker}\n", f"{marker}=\n"])
