"""Whatever one number of a row becomes, the checker sees it, and it never falls over."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curriculum.packing.row_check import check
from schemas.structure import STRUCTURE_TOKENS

DETERMINED = {
    "target_ids": 2**31,
    "loss_mask": 2**8,
    "doc_ids": 2**31,
    "doc_starts": 2**31,
    "context_histogram": 2**31,
    "valid_token_count": 2**31,
    "num_docs": 2**31,
    "loss_token_count": 2**31,
    "attention_pairs": 2**63,
}
"""Columns whose every value follows from the rest, and what their type ends at."""

LISTS = {*DETERMINED, "input_ids", "pieces", "document_ids"} - {
    "valid_token_count",
    "num_docs",
    "loss_token_count",
    "attention_pairs",
}

STRUCTS = ("pieces", "chunk_boundaries", "call_edges", "type_edges")


@pytest.fixture
def good(written: Any) -> Path:
    """A file of a few good rows."""
    folder: Path = written.folder
    return folder / "data/part-00000.parquet"


@pytest.fixture
def structured(tmp_path: Path, encodings: Any, kit: Any) -> Path:
    """The same with structure."""
    items = [kit.enriched(item, number) for number, item in enumerate(encodings)]
    folder: Path = kit.write(tmp_path / "structured", items).folder
    return folder / "data/part-00000.parquet"


def changed(rows: list[dict[str, Any]], column: str, data: st.DataObject) -> bool:
    """Give one number of a column another value; False where it drew the same one."""
    row = rows[data.draw(st.integers(0, len(rows) - 1))]
    end = DETERMINED[column]
    near = st.integers(0, 130)
    value = data.draw(near if end == 2**8 else near | st.integers(-end, end - 1))
    if not isinstance(row[column], list):
        row[column], before = value, row[column]
    else:
        index = data.draw(st.integers(0, len(row[column]) - 1))
        row[column][index], before = value, row[column][index]
    return bool(value != before)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(sorted(DETERMINED)), st.data())
def test_another_number_in_a_column_that_follows_from_the_rest_is_a_fault(
    good: Path, column: str, data: st.DataObject
) -> None:
    table = pq.read_table(good)
    rows = table.to_pylist()
    different = changed(rows, column, data)
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), good.with_name("changed"))
    assert bool(check(good.with_name("changed")).num_faults) == different


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.integers(0, 2**32 - 1))
def test_another_level_is_a_fault(structured: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    table = pq.read_table(structured)
    rows = table.to_pylist()
    levels = rows[random.integers(0, len(rows))]["dep_levels"]
    levels[random.integers(0, len(levels))] += 1
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), structured.with_name("changed"))
    assert check(structured.with_name("changed")).num_faults == 1


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.integers(0, 2**32 - 1))
def test_structure_of_any_lengths_and_numbers_is_judged_without_falling_over(
    structured: Path, seed: int
) -> None:
    random = np.random.default_rng(seed)
    table = pq.read_table(structured)
    rows = table.to_pylist()
    for row in rows:
        for item in (item for name in STRUCTS for item in row[name]):
            for name in item:
                if random.random() < 0.01:
                    item[name] = int(random.integers(-(2**31), 2**31))
        name = random.choice([*STRUCTURE_TOKENS, *STRUCTS])
        if random.random() < 0.3:
            row[name] = (row[name] * 2)[: int(random.integers(0, 2 * len(row[name]) + 1))]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), structured.with_name("changed"))
    assert check(structured.with_name("changed")).rows == len(rows)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.integers(0, 2**32 - 1))
def test_rows_of_any_lengths_and_numbers_are_judged_without_falling_over(
    good: Path, seed: int
) -> None:
    random = np.random.default_rng(seed)
    table = pq.read_table(good)
    rows = table.to_pylist()
    for row in rows:
        for piece in row["pieces"]:
            for name in piece:
                if random.random() < 0.1:
                    piece[name] = int(random.integers(-(2**31), 2**31))
        for name in random.choice(sorted(LISTS), 2):
            if random.random() < 0.5:
                row[name] = (row[name] * 2)[: int(random.integers(0, 2 * len(row[name]) + 1))]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), good.with_name("changed"))
    assert check(good.with_name("changed")).rows == len(rows)
