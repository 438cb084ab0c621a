from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from curriculum.mixing.load import load_diet
from curriculum.mixing.mix import mix, report_of, seen_of
from curriculum.mixing.repetition import ArtefactUse, source_repetition, warning
from curriculum.store import Artefact, Store

Make = Callable[..., Any]


def documents(**lineages: str) -> pl.LazyFrame:
    return pl.LazyFrame({"document_id": list(lineages), "lineage": list(lineages.values())})


def draw(artefact: Artefact, repetition: float, domain: str = "x") -> ArtefactUse:
    files = tuple(artefact.shards())
    return ArtefactUse(key=artefact.key, files=files, domain=domain, repetition=repetition)


def test_families_that_render_the_same_file_add_up(make_rows: Make) -> None:
    """Row 0 holds 100 tokens of own0 and 300 of pair0, row 1 as many of own1 and pair0."""
    v3, v2 = make_rows({"x": [400, 400]}), make_rows({"x": [400, 400]}, name="v2_simple")
    table = documents(own0="a", own1="b", pair0="c")
    found = source_repetition([draw(v3, 2.0), draw(v2, 1.0)], table, limit=2.5)
    assert found.lineages == 3
    assert dict(found.most) == {"a": 3.0, "b": 3.0, "c": 3.0}
    assert (found.mean, found.above, found.limit) == (3.0, 3, 2.5)


def test_distinct_tokens_are_those_of_the_largest_rendering(make_rows: Make) -> None:
    small, large = make_rows({"x": [40]}), make_rows({"x": [400]}, name="v2_simple")
    table = documents(own0="a")
    found = source_repetition([draw(small, 1.0), draw(large, 1.0)], table, limit=16)
    assert dict(found.most) == {"a": pytest.approx((10 + 100) / 100)}


def test_phases_over_the_same_rows_add_up_without_counting_the_rows_twice(make_rows: Make) -> None:
    rows = make_rows({"x": [400, 400], "y": [400, 400]})
    table = documents(own0="a", own2="a", own3="d")
    draws = [draw(rows, 1.0), draw(rows, 0.5), draw(rows, 3.0, domain="y")]
    found = source_repetition(draws, table, limit=16)
    assert dict(found.most) == {"d": 3.0, "a": (1.5 * 100 + 3 * 100) / 200}


def test_a_warning_names_the_file_that_is_seen_most(make_rows: Make) -> None:
    rows = make_rows({"x": [400]})
    found = source_repetition([draw(rows, 20.0)], documents(own0="fmt:a.h"), limit=16)
    assert (warning(found) or "").startswith("1 of 1 source files are seen more than 16 times")
    assert "fmt:a.h 20 times" in (warning(found) or "")
    assert warning(source_repetition([draw(rows, 16.0)], documents(own0="a"), limit=16)) is None


def test_a_mixture_reports_its_sources_with_those_of_the_phases_before(
    store: Store, make_rows: Make, serving: Make, phase: Make
) -> None:
    diet = load_diet("templates.demo").model_copy(update={"max_source_repetition": 2.0})
    first_rows = make_rows({"x": [400] * 10})
    second_rows = make_rows({"x": [400] * 10}, name="v2_simple")
    table = documents(**{f"own{at}": f"file{at}" for at in range(10)})
    asked = phase(serving(), tokens=8000)
    later = phase(serving(family="v2_simple"), tokens=8000, name="edits")
    first = mix(store, diet, asked, [[first_rows]], tokens_per_step=1024, documents=lambda: table)
    second = mix(
        store,
        diet,
        later,
        [[second_rows]],
        tokens_per_step=1024,
        seen=seen_of([(first, None)]),
        documents=lambda: table,
    )
    alone, both = report_of(first).sources, report_of(second).sources
    assert alone
    assert both
    assert alone.mean == pytest.approx(2.0, rel=0.1)
    assert both.mean == pytest.approx(4.0, rel=0.1)
    assert any("seen more than 2 times" in said for said in report_of(second).warnings)


def test_a_text_of_two_repositories_counts_once(make_rows: Make) -> None:
    rows = make_rows({"x": [400]})
    table = pl.LazyFrame({"document_id": ["own0", "own0"], "lineage": ["b:f.h", "a:f.h"]})
    found = source_repetition([draw(rows, 2.0)], table, limit=16)
    assert dict(found.most) == {"a:f.h": 2.0}
