"""Rows that measure: many documents of many lineages first, and no document most of them."""

import doctest
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.packing import held_out_order as module
from curriculum.packing.held_out_order import held_out_order, spread


def test_examples_in_docstrings_hold() -> None:
    assert not doctest.testmod(module).failed


def rows_in(folder: Path, *rows: tuple[str, list[str]]) -> list[Path]:
    """Two files of rows, each a domain and its documents."""
    folder.mkdir(exist_ok=True)
    half = len(rows) // 2
    files = []
    for at, some in enumerate((rows[:half], rows[half:])):
        file = folder / f"part-{at:05}.parquet"
        columns = {"domain": [each for each, _ in some], "document_ids": [each for _, each in some]}
        pq.write_table(pa.table(columns), file)
        files.append(file)
    return files


def test_the_rows_of_one_divided_document_do_not_come_first(tmp_path: Path) -> None:
    """264 rows of 18 documents, of which one has 246: that of lua and zlib."""
    long = [("code", ["long"])] * 246
    others = [("code", [f"d{at}"]) for at in range(17)]
    lineages = {f"d{at}": f"own:{at % 6}.c" for at in range(17)} | {"long": "own:sqlite3.c"}
    files = rows_in(tmp_path, *long, ("code", ["long", "d0"]), *others)
    found = held_out_order(files, 512, lineages).rows
    first = found[:7]
    assert len({name for row in first for name in row.lineages}) == 7, "each lineage once"
    assert {name for row in found for name in row.documents} == {*lineages}
    counted = Counter(name for row in found for name in row.documents)
    assert counted["long"] <= 3, "two of its own, and the end of it beside another document"
    assert len(found) <= 20


def test_each_domain_has_its_own_rows_and_a_limit(tmp_path: Path) -> None:
    rows = [(domain, [f"{domain} {at}"]) for domain in "ab" for at in range(20)]
    found = held_out_order(rows_in(tmp_path, *rows), 16_384, {}).rows
    assert Counter(row.domain for row in found) == {"a": 8, "b": 8}
    assert all(row.lineages == row.documents for row in found), "imported documents have no lineage"
    assert all((row.row < 20) == (row.domain == "a") for row in found)
    long = held_out_order(rows_in(tmp_path, *rows), 1 << 20, {}).rows
    assert len(long) == 2, "a row at least"


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
    assert [name for (name,) in found[0]] == spread(lineages)
