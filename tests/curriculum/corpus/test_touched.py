from collections.abc import Iterable
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.touched_files import touched_files

SPAN = pl.Struct({"kind": pl.String, "start": pl.Int32, "end": pl.Int32})
SCHEMA: dict[str, Any] = {
    "family": pl.String,
    "language": pl.String,
    "lineage": pl.String,
    "timestamp": pl.Int64,
    "spans": pl.List(SPAN),
    "provenance": pl.List(pl.Struct({"commit": pl.String})),
}
Ranges = Iterable[tuple[int, int]]


def document(
    commit: str,
    lineage: str,
    *,
    family: str = "v3_simple",
    bodies: Ranges = (),
    added: Ranges = (),
    language: str = "cpp",
    time: int = 0,
) -> dict[str, object]:
    spans = [("body", *each) for each in bodies] + [("repeated", *each) for each in added]
    return {
        "family": family,
        "language": language,
        "lineage": lineage,
        "timestamp": time,
        "spans": [dict(zip(("kind", "start", "end"), each, strict=True)) for each in spans],
        "provenance": [{"commit": commit}],
    }


def touched(*documents: dict[str, object]) -> list[list[str]]:
    return touched_files(pl.LazyFrame(documents, schema=SCHEMA))


def test_added_lines_touch_the_function_in_whose_body_they_stand() -> None:
    inside = document("c", "in", bodies=[(10, 20), (30, 40)], added=[(35, 38)])
    above = document("c", "above", bodies=[(10, 20)], added=[(0, 10)])
    below = document("c", "below", bodies=[(10, 20)], added=[(20, 30)])
    over = document("c", "over", bodies=[(10, 20)], added=[(5, 25)])
    assert touched(inside, above, below, over) == [["in", "over"]]


def test_the_bodies_of_another_document_do_not_count() -> None:
    first = document("c", "a", bodies=[(10, 20)], added=[(50, 60)])
    second = document("c", "b", bodies=[(50, 60)], added=[(10, 20)])
    assert touched(first, second) == []


def test_a_new_file_with_functions_is_touched_and_one_before_an_edit_is_not() -> None:
    new = document("c", "new", family="v2_simple", bodies=[(1, 2)])
    before = document("c", "old", family="v2_simple", bodies=[(10, 20)])
    edit = document("c", "old", bodies=[(10, 20)], added=[(0, 5)])
    assert touched(new, before, edit) == [["new"]]


def test_a_change_of_which_v3_has_nothing_touches_nothing() -> None:
    new = document("c", "a", family="v2_simple", bodies=[(1, 2)], time=1)
    indented = document("d", "a", family="v2_simple", bodies=[(1, 2)], time=2)
    assert touched(new, indented) == [["a"]]


def test_other_languages_and_other_families_do_not_count() -> None:
    make = document("c", "m", bodies=[(1, 9)], added=[(2, 3)], language="make")
    styled = document("d", "s", family="v3_doxygen", bodies=[(1, 9)], added=[(2, 3)])
    assert touched(make, styled) == []


RANGES = st.lists(st.integers(0, 60), unique=True, max_size=12).map(
    lambda cuts: list(zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False))
)


@given(st.lists(st.tuples(RANGES, RANGES), max_size=6))
def test_ranges_meet_as_a_look_at_each_byte_says(pairs: list[tuple[Any, Any]]) -> None:
    documents = [
        document(f"{at}", "x", bodies=bodies, added=added)
        for at, (bodies, added) in enumerate(pairs)
    ]
    expected = [
        ["x"]
        for bodies, added in pairs
        if {i for a, b in bodies for i in range(a, b)} & {i for a, b in added for i in range(a, b)}
    ]
    assert touched(*documents) == expected
