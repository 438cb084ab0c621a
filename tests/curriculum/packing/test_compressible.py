"""Rows that compress a hundredfold are read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from curriculum import frames, parquet
from curriculum.packing.read import RowReader
from curriculum.packing.row_check import check
from curriculum.packing.row_writer import RowLabels, RowWriter
from schemas.packed_row import RowFormat

ROW = 1 << 16
ROW_FORMAT = RowFormat(row_length=ROW, vocab_size=512, pad_id=0, bos_id=1, eos_id=2)
LABELS = RowLabels(
    rows_key="c0ffee" * 10,
    family="v6_enriched",
    objective="causal",
    variant=0,
    split="train",
    structured=True,
)


def test_rows_of_one_token_id_are_read_though_they_decode_to_a_hundred_times_their_size(
    tmp_path: Path, kit: Any
) -> None:
    """Full rows of 65,536 equal tokens with constant masks and no structure: 128 of them."""
    rows = 128
    mask = np.ones(ROW, np.uint8)
    mask[-1] = 0
    ids = np.full(ROW, 7, np.int32)
    ids[[0, -1]] = [1, 2]
    document = replace(kit.encoding(ROW, 1), ids=ids, loss_mask=mask)
    coded = kit.enriched(kit.encoding(64, 1), 1).structure
    codes = np.zeros((ROW, 5), np.uint8)
    document = replace(document, structure=replace(coded, codes=codes))
    spooled = kit.spool(tmp_path / "spool", [document])
    with RowWriter(tmp_path, row_format=ROW_FORMAT, labels=LABELS) as writer:
        writer.write(spooled, np.zeros(rows, np.int64), np.arange(rows + 1), domain="templates")
    (file,) = sorted(tmp_path.glob("data/part-*.parquet"))
    with parquet.File(file) as opened:
        assert opened.num_row_groups == rows
        assert opened.read_row_group(0).nbytes * rows > 100 * file.stat().st_size
    assert check(tmp_path).positions == rows * ROW
    last = RowReader([file]).row(0, rows - 1)
    assert np.unique(last.input_ids).tolist() == [1, 2, 7]
    narrow = ["pack_id", "domain", "valid_token_count", "document_ids", "doc_starts"]
    assert parquet.read_table(file, narrow).num_rows == rows
    assert frames.scan(file, ["input_ids"]).select(pl.len()).collect().item() == rows
