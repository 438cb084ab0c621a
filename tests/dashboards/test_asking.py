"""An answer reads well, hides nothing and trusts no text; downloads hold what was answered."""

import csv
import datetime
import decimal
import doctest
import io
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import CatalogError
from curriculum.catalog.page_query import Reply
from dashboards import sql_panels

EVIL = '<script>alert("1")</script>'


def _reply(
    columns: dict[str, list[Any]], *types: str, cut: Literal["", "rows", "bytes"] = ""
) -> Reply:
    return Reply(
        columns=tuple(columns),
        types=types,
        table=pa.table(columns),
        truncated=cut,
        seconds=0.25,
        landlock=7,
    )


def test_numbers_stand_right_and_in_thousands_and_null_is_told_apart_from_text() -> None:
    shown = sql_panels.answer(
        _reply({"n": [1234567, None], "of": ["null", None]}, "UBIGINT", "VARCHAR")
    )
    assert '<th scope="col" class="n">n<small>ubigint</small></th>' in shown
    assert '<td class="n">1,234,567</td><td>null</td>' in shown
    assert shown.count('<i class="null">null</i>') == 2
    assert "2 rows in 0.2 s." in shown


def test_text_of_repositories_and_names_of_columns_are_never_markup() -> None:
    shown = sql_panels.answer(_reply({EVIL: [EVIL], "long": [EVIL * 9]}, EVIL, "VARCHAR[]"))
    assert "<script" not in shown
    assert shown.count("&lt;script&gt;") >= 4
    refused = CatalogError(EVIL, f"{EVIL}\nLINE 1: {EVIL}", cause=EVIL, cure=EVIL)
    assert "<script" not in sql_panels.refusal(refused)


def test_what_was_left_out_is_told() -> None:
    many = {"n": list(range(600))}
    whole = sql_panels.answer(_reply(many, "BIGINT"))
    assert "600 rows in 0.2 s; the first 500 are shown." in whole
    assert whole.count("<tr>") == 501
    assert "limited to 10,000 rows" in sql_panels.answer(_reply(many, "BIGINT", cut="rows"))
    assert "limited to 32 MiB" in sql_panels.answer(_reply(many, "BIGINT", cut="bytes"))


def test_a_refusal_shows_where_and_what_to_do() -> None:
    refused = CatalogError(
        "the question",
        "Parser Error: near\nLINE 2: FORM x\n        ^",
        cause="no",
        cure="Write FROM",
    )
    shown = sql_panels.refusal(refused)
    assert "<p>No. Parser Error: near</p><pre>LINE 2: FORM x\n        ^</pre>" in shown
    assert "<p>Write FROM</p>" in shown


@pytest.mark.parametrize("text", ["plain", 'with, comma "and" quote\nand line', "é", ""])
def test_downloads_hold_what_was_answered(text: str) -> None:
    reply = _reply({"a": [1, None], "t": [text, "x"], "l": [[1], []]}, "I", "V", "I[]")
    lines = list(csv.reader(io.StringIO(reply.csv().decode(), newline="")))
    assert lines == [["a", "t", "l"], ["1", text, "[1]"], ["", "x", "[]"]]
    assert ('""' in reply.csv().decode()) == (not text or '"' in text), "an empty text isn't null"
    assert pq.read_table(io.BytesIO(reply.parquet())).equals(reply.table)


def test_values_that_python_spells_in_its_own_way_are_drawn_as_duckdb_does() -> None:
    columns: dict[str, list[Any]] = {
        "blob": [b"\xaa"],
        "blobs": [[b"\xaa"]],
        "dates": [[datetime.date(2020, 1, 2)]],
        "amount": [decimal.Decimal("123456789012345678901234567890123456.78")],
        "fact": [True],
    }
    reply = _reply(columns, "BLOB", "BLOB[]", "DATE[]", "DECIMAL(38,2)", "BOOLEAN")
    shown = sql_panels.answer(reply)
    for text in (
        r"<td>\xAA</td>",
        "<td>[2020-01-02]</td>",
        '<td class="n">123,456,789,012,345,678,901,234,567,890,123,456.78</td>',
        "<td>true</td>",
    ):
        assert text in shown
    assert "b&#39;" not in shown
    assert "123456789012345678901234567890123456.78" in reply.csv().decode()


def test_values_are_drawn_whole_or_say_how_long_they_are() -> None:
    assert sql_panels._value("x" * sql_panels.MAX_LINE) == "x" * sql_panels.MAX_LINE
    assert '<div title="1,000 characters">' in sql_panels._value("x" * 1000)


def test_examples_hold() -> None:
    done = doctest.testmod(sql_panels)
    assert (done.failed, done.attempted > 0) == (0, True)
