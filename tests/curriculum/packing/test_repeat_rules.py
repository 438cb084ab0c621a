"""Scored repeats are counted in all rows, and are faults where the objective forbids them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.packing.repeats import REPEAT_FREE, RUN
from curriculum.packing.row_check import CheckReport, check
from curriculum.packing.rules import Rule
from curriculum.tokens.encoding import Encoding

TOKENS = 60
COPY = slice(30, 30 + RUN)


@pytest.fixture
def repeating(kit: Any) -> Encoding:
    """Sixty tokens, of which those at COPY stand before too."""
    encoding: Encoding = kit.encoding(TOKENS, 3)
    ids = encoding.ids.copy()
    ids[COPY] = ids[5 : 5 + RUN]
    return replace(encoding, ids=ids)


def checked(folder: Path, encodings: list[Encoding], kit: Any, objective: str) -> CheckReport:
    kit.write(folder, encodings)
    for path in folder.glob("data/*.parquet"):
        table = pq.read_table(path)
        column = pa.array([objective] * len(table), type=pa.string())
        at = table.schema.get_field_index("objective")
        pq.write_table(table.set_column(at, table.schema.field(at), column), path)
    return check(folder)


@pytest.mark.parametrize("objective", ["causal", "chat"])
def test_they_are_counted_where_they_are_allowed(
    objective: str, repeating: Encoding, kit: Any, tmp_path: Path
) -> None:
    report = checked(tmp_path / "rows", [repeating, kit.encoding(40, 4)], kit, objective)
    assert (report.repeated_tokens, report.num_faults) == (RUN, 0)


@pytest.mark.parametrize("objective", REPEAT_FREE)
def test_one_scored_token_of_them_is_a_fault_where_they_are_not(
    objective: str, repeating: Encoding, kit: Any, tmp_path: Path
) -> None:
    mask = repeating.loss_mask.copy()
    mask[COPY.start - 1 : COPY.stop - 1] = 0
    quiet = replace(repeating, loss_mask=mask)
    assert checked(tmp_path / "quiet", [quiet], kit, objective).num_faults == 0
    mask[COPY.stop - 2] = 1
    report = checked(tmp_path / "loud", [replace(quiet, loss_mask=mask)], kit, objective)
    assert (report.repeated_tokens, report.num_faults) == (1, 1)
    assert report.faults[0].rule is Rule.REPEATS
    assert report.faults[0].found == f"loss_mask is 1 at token {COPY.stop - 2}"


def test_what_another_document_has_is_no_repeat(kit: Any, tmp_path: Path) -> None:
    one = kit.encoding(40, 3)
    encodings = [replace(one, document_id=f"{number:032x}") for number in range(6)]
    report = checked(tmp_path / "rows", encodings, kit, "code_to_doc")
    assert report.rows < len(encodings)
    assert (report.repeated_tokens, report.num_faults) == (0, 0)


def test_padding_repeats_nothing(kit: Any, tmp_path: Path) -> None:
    report = checked(tmp_path / "rows", [kit.encoding(9, 3)], kit, "code_to_doc")
    assert (report.repeated_tokens, report.num_faults) == (0, 0)


def test_rows_without_an_objective_are_counted(
    repeating: Encoding, kit: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "rows"
    kit.write(folder, [repeating])
    path = folder / "data/part-00000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["objective"]), path)
    report = check(folder)
    assert (report.repeated_tokens, report.num_faults) == (RUN, 0)


def test_the_copy_is_as_long_as_it_was_meant_to_be(repeating: Encoding) -> None:
    ids = repeating.ids
    assert np.array_equal(ids[5 : 5 + RUN], ids[COPY])
    assert ids[4] != ids[COPY.start - 1]
    assert ids[5 + RUN] != ids[COPY.stop]
