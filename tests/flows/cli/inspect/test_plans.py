"""Lines of a plan that its mixture's report doesn't describe are refused by the file's name."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from curriculum.mixing.mix import PLAN_NAME, report_of
from flows.cli.inspect.mixtures import _require_planned
from schemas.errors import StoreError
from tests.flows.tiny_workspace import TinyWorkspace


@pytest.mark.parametrize(("column", "value"), [("slot", None), ("stratum", None), ("stratum", 99)])
def test_a_line_that_lacks_a_value_or_belongs_to_no_stratum_is_named(
    tmp_path: Path, column: str, value: int | None
) -> None:
    mixture = TinyWorkspace(tmp_path).syntax
    held = pq.read_table(mixture.path / PLAN_NAME, partitioning=None).to_pylist()
    _require_planned(mixture, report_of(mixture), held)
    held[-1][column] = value
    with pytest.raises(StoreError, match=PLAN_NAME):
        _require_planned(mixture, report_of(mixture), held)
