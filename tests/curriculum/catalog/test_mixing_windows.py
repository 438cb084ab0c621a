"""Distinct tokens of what runs read, counted on fingers: a document's windows are the same in each row."""

from pathlib import Path

import pytest

from curriculum.catalog import open_catalog
from tests.curriculum.catalog.branched import write_branched

COLUMNS = "phase, scored_tokens, distinct_tokens, new_tokens, token_repetition"


@pytest.mark.parametrize(
    ("run", "lines"),
    [
        ("templates/anneal", [("syntax", 15, 15, 15, 1.0), ("anneal", 7, 7, 0, 22 / 15)]),
        ("templates/wide/anneal", [("syntax", 11, 11, 11, 1.0), ("anneal", 5, 5, 0, 16 / 11)]),
    ],
)
def test_tokens_that_an_earlier_phase_showed_are_distinct_and_not_new(
    tmp_path: Path, run: str, lines: list[tuple[str, int, int, int, float]]
) -> None:
    write_branched(tmp_path / "home")
    asked = f"SELECT {COLUMNS} FROM distinct_tokens('{run}')"
    assert open_catalog(tmp_path / "home").execute(asked).fetchall() == lines
