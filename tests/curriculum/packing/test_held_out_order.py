"""Rows that measure: many documents of many lineages first, and no document most of them."""

import doctest
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.packing import held_out_order as module
from curriculum.packing.held_out_order import held_out_order, order_by_lineage


def test_examples_in_docstrings_hold() -> None:
    assert not doctest.testmod(module).failed


def rows_in(folder: Path, *rows: tuple[str, Sequence[str]], length: int = 512) -> list[Path]:
    """Two files of full rows, each a domain and its documents; all but the first take 32 tokens."""
    folder.mkdir(exist_ok=True)
    half = len(rows) // 2
    files = []
    for at, some in enumerate((rows[:half], rows[half:])):
        file = folder / f"part-{at:05}.parquet"
        short = [32 * (len(documents) - 1) for _, documents in some]
        columns = {
            "domain": [domain for domain, _ in some],
            "document_ids": [documents for _, documents in some],
            "doc_starts": [[0, *range(length - rest, length, 32)] for rest in short],
            "valid_token_count": [length for _ in some],
        }
        pq.write_table(pa.table(columns), file)
        files.append(file)
    return files


def test_the_rows_of_one_divided_document_do_not_come_first(tmp_path: Path) -> None:
    """264 rows of 18 documents, of which one has 246: that of lua and zlib."""
    long = [("code", ["long"])] * 246
    others = [("code", [f"d{at}"]) for at in range(17)]
    lineages = {f"d{at}": f"own:{at % 6}.c" for at in range(17)} | {"long": "own:sqlite3.c"}
    files = rows_in(tmp_path, *long, ("code", ["d0", "long"]), *others)
    found = held_out_order(files, 512, lineages).rows
    first = found[:7]
    assert len({name for row in first for name in row.lineages}) == 7, "each lineage once"
    assert {name for row in found for name in row.documents} == {*lineages}
    counted = Counter(name for row in found for name in row.documents)
    assert counted["long"] <= 3, "two of its own, and the end of it beside another document"
    assert len(found) <= 20


def test_each_domain_has_its_own_rows_and_a_limit(tmp_path: Path) -> None:
    rows = [(domain, [f"{domain} {at}"]) for domain in "ab" for at in range(20)]
    found = held_out_order(rows_in(tmp_path, *rows), 8192, {}).rows
    assert Counter(row.domain for row in found) == {"a": 16, "b": 16}
    assert all(row.lineages == row.documents for row in found), "imported documents have no lineage"
    assert all((row.row < 20) == (row.domain == "a") for row in found)
    long = held_out_order(rows_in(tmp_path, *rows), 65_536, {}).rows
    assert Counter(row.domain for row in long) == {"a": 8, "b": 8}, "documents enough to tell"


def test_rows_of_another_length_begin_with_the_same_documents(tmp_path: Path) -> None:
    names = [f"d{at}" for at in range(30)]
    short = rows_in(tmp_path / "short", *(("code", [name]) for name in names))
    long = rows_in(tmp_path / "long", *(("code", [name]) for name in reversed(names)))
    lineages = {name: f"own:{at % 9}.c" for at, name in enumerate(names)}
    found = [
        [row.documents for row in held_out_order(files, length, lineages).rows]
        for files, length in ((short, 512), (long, 1024))
    ]
    assert found[0] == found[1]
    assert [name for (name,) in found[0]] == order_by_lineage(lineages)


def test_a_long_document_fills_no_row_after_row_beside_small_ones(tmp_path: Path) -> None:
    """Pieces end where functions do, so that small files fit behind each."""
    beside = [("code", ["long", f"small{at}"]) for at in range(20)]
    assert len(held_out_order(rows_in(tmp_path, *beside), 512, {}).rows) == 1
    others = [("code", [f"own{at}"]) for at in range(16)]
    found = held_out_order(rows_in(tmp_path, *beside, *others), 512, {}).rows
    assert {name for row in found for name in row.documents} >= {f"own{at}" for at in range(16)}
    assert sum("long" in row.documents for row in found) == 2 <= len(found) / 8


def test_the_end_of_a_long_document_keeps_no_document_beside_it_out(tmp_path: Path) -> None:
    rows = [("code", ["long"])] * 3 + [("code", ["own", "other", "long"])]
    found = held_out_order(rows_in(tmp_path, *rows), 512, {}).rows
    assert {name for row in found for name in row.documents} == {"own", "other", "long"}
