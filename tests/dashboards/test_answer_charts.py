"""Charts of answers: the choice to begin with, what is asked for, and pictures that are true to the rows."""

import datetime
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.catalog.page_query import Reply
from dashboards import answer_charts
from dashboards.answer_charts import ChartChoice, draw, resolve_choice, suggested
from tests.flows.html_text import Read

EVIL = '</svg><img src=x onerror="alert(1)">'
FAMILIES = ("v2_simple", "v3_simple", "v2_simple", "v3_simple")


def _reply(**columns: tuple[str, list[Any]]) -> Reply:
    """An answer of columns with their types."""
    table = pa.table({name: pa.array(values) for name, (_, values) in columns.items()})
    types = tuple(kind for kind, _ in columns.values())
    return Reply(
        columns=tuple(columns), types=types, table=table, truncated="", seconds=0.1, landlock=1
    )


def _words(choice: ChartChoice | None) -> tuple[str, ...] | None:
    return None if choice is None else (choice.kind, choice.across, choice.up, choice.by)


DAY = [datetime.date(2026, 1, day) for day in (1, 2, 3, 4)]
COUNTS: tuple[str, list[Any]] = ("BIGINT", [4, 3, 2, 1])
REPLIES: dict[str, tuple[dict[str, tuple[str, list[Any]]], tuple[str, ...] | None]] = {
    "words and a number": (
        {"family": ("VARCHAR", ["a", "b", "c", "d"]), "rows": COUNTS, "tokens": COUNTS},
        ("bars", "family", "rows", ""),
    ),
    "words that repeat": (
        {
            "family": ("VARCHAR", [*FAMILIES]),
            "split": ("VARCHAR", ["train", "train", "val", "val"]),
            "rows": COUNTS,
        },
        ("bars", "family", "rows", "split"),
    ),
    "steps": (
        {"step": ("INTEGER", [1, 2, 3, 4]), "loss": ("DOUBLE", [3.0, 2.0, 1.5, 1.0])},
        ("line", "step", "loss", ""),
    ),
    "days": ({"day": ("DATE", DAY), "commits": COUNTS}, ("line", "day", "commits", "")),
    "days of several": (
        {
            "commits": COUNTS,
            "day": ("DATE", DAY[:2] * 2),
            "repository": ("VARCHAR", ["a", "a", "b", "b"]),
        },
        ("line", "day", "commits", "repository"),
    ),
    "two numbers": (
        {"loss": ("DOUBLE", [3.0, 1.0, 2.0, 4.0]), "tokens": COUNTS},
        ("scatter", "loss", "tokens", ""),
    ),
    "one number": ({"n": COUNTS}, ("bars", "n", "n", "")),
    "lists and structures": ({"l": ("INTEGER[]", [[1], [2], [3], [4]])}, None),
    "one line": ({"n": ("BIGINT", [4]), "m": ("BIGINT", [4])}, None),
    "no line": ({"n": ("BIGINT", []), "m": ("BIGINT", [])}, None),
    "words alone": ({"a": ("VARCHAR", ["x", "y"])}, None),
}


@pytest.mark.parametrize("name", REPLIES)
def test_the_choice_to_begin_with_suits_the_answer(name: str) -> None:
    columns, expected = REPLIES[name]
    assert _words(suggested(_reply(**columns))) == expected


def test_what_is_asked_is_taken_as_far_as_the_answer_has_it() -> None:
    reply = _reply(**REPLIES["words that repeat"][0])
    assert _words(resolve_choice(reply, "line", "split", "rows", "family")) == (
        *("line", "split", "rows", "family"),
    )
    usual = ("bars", "family", "rows", "split")
    assert _words(resolve_choice(reply, "", "", "", None)) == usual
    assert _words(resolve_choice(reply, "pie", "gone", "split", None)) == usual, (
        "split has no numbers"
    )
    assert _words(resolve_choice(reply, "none", "", "", "")) == ("none", "family", "rows", "")
    assert resolve_choice(_reply(n=("BIGINT", [1])), "line", "n", "n", None) is None


def test_bars_are_in_the_answers_order_from_zero_on_with_their_numbers() -> None:
    reply = _reply(
        name=("VARCHAR", ["up", "down", "gone", "none"]),
        change=("DOUBLE", [3.0, -1.0, None, float("nan")]),
    )
    made = draw(reply, ChartChoice(kind="bars", across="name", up="change"))
    read = Read(str(made.picture))
    assert read.said == "name change up 3 down −1"
    assert re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"', made.picture) == [
        ("25.00", "75.00"),
        ("0.00", "25.00"),
    ]
    assert made.notes == ("2 rows without a drawable value are not shown.",)


def test_lines_rise_from_left_to_right_and_end_at_their_names() -> None:
    reply = _reply(
        step=("INTEGER", [2, 1, 1, 2]),
        loss=("DECIMAL(9,2)", [Decimal("1.5"), Decimal("3"), Decimal("2"), Decimal("1")]),
        family=("VARCHAR", ["v3_simple", "v3_simple", "v2_simple", "v2_simple"]),
    )
    made = str(draw(reply, ChartChoice(kind="line", across="step", up="loss", by="family")).picture)
    lines = re.findall(r'<g class="(\w+)"[^>]*>.*?<polyline points="([^"]*)"', made)
    assert [look for look, _ in lines] == ["v3_simple", "v2_simple"], "families keep their colours"
    for _, points in lines:
        places = [float(each.partition(",")[0]) for each in points.split()]
        assert places == sorted(places)
    assert "1.5 v3_simple" in Read(made).said
    assert "step" in Read(made).said


def test_dots_need_values_across_and_say_which_colour_is_whose() -> None:
    reply = _reply(
        tokens=("BIGINT", [1, 2, 3]),
        loss=("DOUBLE", [3.0, 2.0, 1.0]),
        diet=("VARCHAR", ["a", "b", EVIL]),
    )
    made = draw(reply, ChartChoice(kind="scatter", across="tokens", up="loss", by="diet")).picture
    assert re.findall(r'<li class="(s\d)">', made) == ["s0", "s1", "s2"]
    assert made.count("h0") == 3
    assert "img" not in Read(str(made)).tags
    refused = draw(reply, ChartChoice(kind="scatter", across="diet", up="loss")).picture
    assert refused == "<p>A scatter plot needs numbers or times as x; diet has text.</p>"


def test_more_than_can_be_drawn_is_said_to_be_left_out() -> None:
    many = 10_000
    reply = _reply(
        n=("BIGINT", [*range(many)]),
        m=("BIGINT", [*range(many)]),
        of=("VARCHAR", [str(each % 9) for each in range(many)]),
    )
    bars = draw(reply, ChartChoice(kind="bars", across="n", up="m"))
    assert bars.notes == ("Only the first 40 of 10,000 rows are drawn.",)
    assert bars.picture.count("<rect") == 40
    dots = draw(reply, ChartChoice(kind="scatter", across="n", up="m", by="of"))
    assert dots.notes == (
        "Only the first 5,000 of 10,000 rows are drawn.",
        "Only the first 8 of 9 values of of are drawn.",
    )


@pytest.mark.parametrize("kind", answer_charts.KINDS)
@pytest.mark.parametrize("largest", [1e300, 1e308, 1.7976931348623157e308])
def test_numbers_near_the_end_of_doubles_are_drawn_or_said_to_be_left_out(
    kind: str, largest: float
) -> None:
    reply = _reply(
        step=("BIGINT", [1, 2, 3, 4]), loss=("DOUBLE", [largest, -largest, 2.0, float("inf")])
    )
    made = draw(reply, ChartChoice(kind=kind, across="step", up="loss"))
    left_out = 1 if largest <= answer_charts.MAX_NUMBER else 3
    rows = "1 row" if left_out == 1 else f"{left_out} rows"
    assert made.notes == (f"{rows} without a drawable value are not shown.",)
    assert not re.search(r"\b(nan|inf)\b", str(made.picture))
    assert max(map(len, Read(str(made.picture)).said.split())) < 20
    across = draw(reply, ChartChoice(kind="line", across="loss", up="step"))
    assert across.notes == made.notes


def test_a_column_with_values_that_python_lacks_holds_words() -> None:
    reply = _reply(
        day=("DATE", ["2026-01-01", "20000-01-01"]),
        size=("UHUGEINT", ["1", "340282366920938463463374607431768211455"]),
        rows=("BIGINT", [1, 2]),
    )
    kinds = {each.name: each.kind for each in answer_charts.columns(reply).values()}
    assert kinds == {"day": "words", "size": "words", "rows": "number"}
    assert _words(suggested(reply)) == ("bars", "day", "rows", "")
    assert (
        "20000-01-01"
        in Read(str(draw(reply, ChartChoice(kind="bars", across="day", up="rows")).picture)).said
    )


values = st.one_of(
    st.none(),
    st.integers(-(2**60), 2**60),
    st.floats(),
    st.text(max_size=60),
    st.dates(),
    st.datetimes(),
)
TYPES = ("BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP")


class _Rows(Reply):
    """An answer with rows as given: columns of one type hold what Arrow makes plain values of."""

    __slots__ = ("given",)
    given: list[tuple[Any, ...]]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows."""
        return self.given


@given(
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=4).flatmap(
        lambda types: st.tuples(
            st.just(types), st.lists(st.tuples(*[values] * len(types)), max_size=12)
        )
    ),
    st.sampled_from((*answer_charts.KINDS, "")),
)
def test_whatever_is_answered_a_chart_is_drawn_or_refused(
    answered: tuple[list[str], list[tuple[Any, ...]]], kind: str
) -> None:
    types, rows = answered
    names = tuple(f"c{at}" for at in range(len(types)))
    reply = _Rows(
        columns=names,
        types=tuple(types),
        table=pa.table({}),
        truncated="",
        seconds=0.0,
        landlock=1,
    )
    object.__setattr__(reply, "given", rows)
    for across in names:
        choice = resolve_choice(reply, kind, across, names[-1], names[0])
        if choice is None:
            assert suggested(reply) is None
            continue
        made = str(draw(reply, choice).picture)
        assert made
        places = " ".join(re.findall(r' (?:x|y|x1|y1|x2|y2|width|points|d)="([^"]*)"', made))
        assert not re.search("nan|inf", places)
