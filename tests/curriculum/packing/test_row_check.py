from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.packing.row_check import CheckReport, Coverage, check
from curriculum.packing.rules import Rule
from schemas.errors import SchemaError
from schemas.packed_row import RowFormat
from tests.error_fields import fields

Written = Any
ROW = 128
STORED = ("doc_ids", "doc_starts", "valid_token_count", "num_docs", "target_ids", "pieces")


def rewritten(
    written: Written, change: Callable[[pa.Table], pa.Table], **metadata: str
) -> CheckReport:
    for path in sorted(written.folder.glob("data/part-*.parquet")):
        table = change(pq.read_table(path))
        known = dict(table.schema.metadata or {})
        known.update({name.encode(): text.encode() for name, text in metadata.items()})
        pq.write_table(table.replace_schema_metadata(known), path)
    return check(written.folder)


def without(*columns: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.drop_columns(list(columns))


def test_counts_are_those_of_the_writer(written: Written) -> None:
    report = check(written.folder)
    assert report.rows == written.counts.rows
    assert report.positions == written.counts.positions
    assert report.valid_tokens == written.counts.valid_tokens
    assert report.scored_tokens == written.counts.scored_tokens
    assert report.fallbacks == []
    report.raise_first()


def test_rows_without_targets_keep_the_contract(tmp_path: Path, encodings: Any, kit: Any) -> None:
    report = check(kit.write(tmp_path / "rows", encodings, store_targets=False).folder)
    assert report.num_faults == 0
    (line,) = report.fallbacks
    assert line.startswith("target_ids ")


def fallback(report: Any, column: str) -> str:
    """The line on a column that isn't stored."""
    lines: list[str] = report.fallbacks
    (found,) = (line for line in lines if line.startswith(f"{column} "))
    return found


def moved(encodings: Any, overlap: int) -> list[Any]:
    """With the second half of each text before the first, which ends `overlap` bytes behind its start."""
    done = []
    for each in encodings:
        pieces = each.pieces.copy()
        text = np.flatnonzero(pieces[:, 0] == 0)
        if len(text) == 2:
            pieces[text, 3:] = pieces[text[::-1], 3:]
            pieces[text[1], 4] += overlap
        done.append(replace(each, pieces=pieces))
    return done


def test_text_may_stand_in_another_order_but_not_twice(
    tmp_path: Path, encodings: Any, kit: Any
) -> None:
    sound = check(kit.write(tmp_path / "sound", moved(encodings, 0)).folder)
    assert sound.num_faults == 0
    twice = check(kit.write(tmp_path / "twice", moved(encodings, 1)).folder)
    assert {fault.rule for fault in twice.faults} == {Rule.COVERAGE}
    assert twice.num_faults > len(encodings) / 2


def test_foreign_rows_are_inferred_where_bos_marks_documents(written: Written) -> None:
    report = rewritten(written, lambda table: table.select(["input_ids", "loss_mask"]))
    assert report.num_faults == 0
    assert report.valid_tokens == written.counts.valid_tokens
    assert "BOS" in fallback(report, "doc_ids")
    assert "BOS" in fallback(report, "doc_starts")
    assert len(report.fallbacks) == 16


def test_foreign_rows_may_bring_doc_ids_alone(written: Written) -> None:
    keep = ["input_ids", "loss_mask", "doc_ids", "attention_pairs", "valid_token_count"]
    report = rewritten(written, lambda table: table.select(keep), bos_id="")
    assert report.num_faults == 0
    assert "doc_ids" in fallback(report, "doc_starts")


def test_nothing_is_inferred_without_a_bos(written: Written) -> None:
    report = rewritten(written, without("doc_ids", "doc_starts"), bos_id="")
    assert {fault.rule for fault in report.faults} == {Rule.FILE}
    assert "doc_starts or doc_ids" in str(report.faults[0])


def test_the_count_of_valid_tokens_is_needed_where_pad_is_eos(written: Written) -> None:
    report = rewritten(written, without("valid_token_count"), eos_id="0")
    assert "no column valid_token_count" in str(report.faults[0])


def test_a_stored_column_that_is_wrong_is_no_reason_to_infer(written: Written) -> None:
    def negate(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index("num_docs")
        wrong = pa.array(np.full(len(table), 99, dtype=np.int32))
        return table.set_column(index, table.schema.field(index), wrong)

    report = rewritten(written, negate)
    assert report.num_faults == report.rows == written.counts.rows


def test_files_without_a_format_are_read_with_one_given(written: Written) -> None:
    for path in written.folder.glob("data/part-*.parquet"):
        pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    assert "row_length" in str(check(written.folder).faults[0])
    row_format = RowFormat(row_length=ROW, vocab_size=512, pad_id=0, bos_id=1, eos_id=2)
    assert check(written.folder, row_format=row_format).num_faults == 0


def test_a_tree_is_checked_artefact_by_artefact(tmp_path: Path, encodings: Any, kit: Any) -> None:
    for name in ("a", "b"):
        kit.write(tmp_path / "tree" / name, encodings)
    pq.write_table(pa.table({"position": [1]}), tmp_path / "tree" / "plan.parquet")
    report = check(tmp_path / "tree")
    assert report.num_faults == 0, "the same bytes in another artefact are no repetition"
    assert report.files == 2 * len(list((tmp_path / "tree" / "a").glob("data/part-*")))


def test_one_file_is_checked_alone(written: Written) -> None:
    report = check(written.folder / "data/part-00001.parquet")
    assert (report.files, report.num_faults) == (1, 0)


def test_a_folder_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, check=fields(name=tmp_path)):
        check(tmp_path)


def test_only_the_first_faults_are_kept_and_all_are_counted(written: Written) -> None:
    for path in sorted(written.folder.glob("data/part-*.parquet"))[1:]:
        path.write_text("gone")
    report = check(written.folder, max_faults=2)
    assert len(report.faults) == 2
    assert report.num_faults == report.files - 1 > 2


def test_coverage_on_disk_finds_what_coverage_in_memory_finds(
    tmp_path: Path, encodings: Any, kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = [*encodings, encodings[5], encodings[9]]
    folder = kit.write(tmp_path / "rows", twice).folder
    in_memory = check(folder)
    monkeypatch.setattr(Coverage.__init__, "__kwdefaults__", {"max_ranges": 3})
    on_disk = check(folder)
    assert in_memory.num_faults == 2
    assert sorted(map(str, in_memory.faults)) == sorted(map(str, on_disk.faults))


def test_other_objectives_and_variants_may_teach_the_same_bytes(
    tmp_path: Path, encodings: Any, kit: Any
) -> None:
    first, second = (
        pq.read_table(
            sorted(kit.write(tmp_path / name, encodings).folder.glob("data/part-*.parquet"))
        )
        for name in "ab"
    )
    index = second.schema.get_field_index("variant")
    field = second.schema.field(index)
    later = [f"d{str(name)[1:]}" for name in second["pack_id"].to_pylist()]
    second = second.set_column(0, second.schema.field(0), pa.array(later))
    path = tmp_path / "both.parquet"
    pq.write_table(pa.concat_tables([first, second]), path)
    assert {fault.rule for fault in check(path).faults} == {Rule.COVERAGE}
    second = second.set_column(index, field, pa.array(np.ones(len(second), dtype=np.int32)))
    pq.write_table(pa.concat_tables([first, second]), path)
    assert check(path).num_faults == 0
