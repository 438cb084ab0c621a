"""The scored middle of a fim row doesn't occur earlier in its document, and the checker proves it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.packing.repeats import RUN
from curriculum.packing.row_check import check
from curriculum.packing.rules import Rule

TOKENS = 60


def test_a_row_of_fim_that_scores_what_its_document_has_before_is_a_fault(
    kit: Any, tmp_path: Path
) -> None:
    encoding = kit.encoding(TOKENS, 3)
    encoding.ids[30 : 30 + RUN] = encoding.ids[5 : 5 + RUN]
    folder = tmp_path / "rows"
    kit.write(folder, [encoding])
    (path,) = folder.glob("data/*.parquet")
    table = pq.read_table(path)
    at = table.schema.get_field_index("objective")
    column = pa.array(["fim"] * len(table), type=pa.string())
    pq.write_table(table.set_column(at, table.schema.field(at), column), path)
    report = check(folder)
    assert [each.rule for each in report.faults] == [Rule.REPEATS]
    assert "fim" in str(report.faults[0])
