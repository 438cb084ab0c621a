"""EOS stands in for boundaries only where that is asked for, and the manifest says so and counts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.interop.foreign_parquet import parquet_rows
from curriculum.interop.publish import RowFacts
from curriculum.interop.tokens_in import token_rows
from curriculum.packing.row_check import check
from curriculum.stages.tokens import given_tokenizer, load_tokenizer
from curriculum.store import Artefact, Store
from curriculum.tokens.codec import Tokenizer
from schemas.errors import SchemaError
from tests.curriculum.interop.in_process import publish
from tests.curriculum.tokens.templates import tokenizer_json
from tests.error_fields import fields
from tests.flows.cli_runner import curriculum

T = 128
FACTS = RowFacts(family="theirs", objective=None, variant=None, domain=None, split=None)


class Given:
    """A workspace with a tokenizer that has EOS, and no BOS."""

    def __init__(self, folder: Path, controls: Sequence[str], document_tokens: Any = "eos") -> None:
        folder.mkdir()
        self.store = Store(folder / "ws")
        self.store.open()
        (folder / "tokenizer.json").write_text(tokenizer_json(controls))
        self.artefact = given_tokenizer(self.store, folder / "tokenizer.json", document_tokens)
        self.codec: Tokenizer = load_tokenizer(self.artefact)

    @property
    def eos(self) -> int:
        assert self.codec.eos_id is not None
        return self.codec.eos_id

    def take(self, path: Path, **more: Any) -> Artefact:
        return publish(self.store, parquet_rows(path, FACTS, self.codec, **more), self.artefact)

    def take_flat(self, path: Path, **more: Any) -> Artefact:
        rows = token_rows(path, "flat", FACTS, self.codec, T, **more)
        return publish(self.store, rows, self.artefact)

    def rows(self, *rows: Sequence[int]) -> list[list[int]]:
        """Rows of documents by their lengths, the last without an EOS where it is negative."""
        made = []
        for lengths in rows:
            row: list[int] = []
            for length in lengths:
                row += [*[40] * (abs(length) - 1), 41 if length < 0 else self.eos]
            made.append(row + [self.codec.pad_id] * (T - len(row)))
        return made


@pytest.fixture
def with_pad(tmp_path: Path) -> Given:
    return Given(tmp_path / "pad", ("</s>", "<pad>"))


@pytest.fixture
def padded_with_eos(tmp_path: Path) -> Given:
    return Given(tmp_path / "eos", ("</s>",))


def write(file: Path, rows: Sequence[Sequence[int]], **columns: Any) -> Path:
    """Rows as they are common: every token that isn't padding is a target but for a row's last."""
    masks = [[*[1] * (T - 1), 0] for _ in rows]
    names = {"input_ids": rows, "loss_mask": masks, **columns}
    kinds = {"input_ids": pa.list_(pa.int32()), "loss_mask": pa.list_(pa.uint8())}
    arrays = {name: pa.array(values, type=kinds.get(name)) for name, values in names.items()}
    pq.write_table(pa.table(arrays), file)
    return file


def test_each_eos_ends_a_document_and_nothing_is_learnt_across(
    with_pad: Given, tmp_path: Path
) -> None:
    rows = with_pad.rows((50, 50, 28), (100, -28))
    back = with_pad.take(write(tmp_path / "rows.parquet", rows), boundaries="eos")
    assert check(back.path).faults == []
    first, second = pq.read_table(back.shards(), partitioning=None).to_pylist()
    assert first["doc_starts"] == [0, 50, 100]
    assert second["doc_starts"] == [0, 100]
    assert [t for t in range(T) if not first["loss_mask"][t]] == [49, 99, 127]
    assert [t for t in range(T) if not second["loss_mask"][t]] == [99, 127]
    assert first["doc_ids"] == [*[0] * 50, *[1] * 50, *[2] * 28]
    assert first["loss_token_count"] == sum(first["loss_mask"])


def test_the_manifest_names_the_fallback_and_counts_it(with_pad: Given, tmp_path: Path) -> None:
    rows = with_pad.rows((50, 50, 28), (100, -28))
    back = with_pad.take(write(tmp_path / "rows.parquet", rows), boundaries="eos")
    report: Any = back.manifest.report
    assert report["boundaries_from_eos"] == 3
    assert report["without_eos"] == 1
    assert report["cleared"] == 3
    assert any(line.startswith("doc_starts ") for line in report["fallbacks"])
    assert back.manifest.config["boundaries"] == "eos"


def test_what_depends_on_the_mask_is_made_anew_and_what_contradicts_the_boundaries_is_refused(
    with_pad: Given, tmp_path: Path
) -> None:
    rows = with_pad.rows((64, 64))
    targets = [[*rows[0][1:], with_pad.codec.pad_id]]
    stored = {"target_ids": targets, "loss_token_count": [T - 1], "num_docs": [2]}
    back = with_pad.take(write(tmp_path / "a.parquet", rows, **stored), boundaries="eos")
    (row,) = pq.read_table(back.shards(), partitioning=None).to_pylist()
    assert row["target_ids"][63] == with_pad.codec.pad_id
    assert row["loss_token_count"] == T - 2
    stored["num_docs"] = [1]
    with pytest.raises(SchemaError, match=r"num_docs is 1, .* 2"):
        with_pad.take(write(tmp_path / "b.parquet", rows, **stored), boundaries="eos")


def test_without_the_option_rows_without_boundaries_are_refused_with_the_cure(
    with_pad: Given, tmp_path: Path
) -> None:
    file = write(tmp_path / "rows.parquet", with_pad.rows((64, 64)))
    with pytest.raises(SchemaError, match=r"doc_starts .* doc_ids.*--boundaries eos"):
        with_pad.take(file)
    bos = Given(tmp_path / "bos", ("<s>", "</s>", "<pad>"), "bos_eos")
    file = write(tmp_path / "no_bos.parquet", bos.rows((64, 64)))
    with pytest.raises(SchemaError, match=r"row 0 .* --document-tokens eos --boundaries eos"):
        bos.take(file)
    with pytest.raises(
        SchemaError, match="--document-tokens", check=fields(name="--boundaries eos")
    ):
        bos.take(file, boundaries="eos")
    np.full(60, 40, dtype=np.uint16).tofile(tmp_path / "no_bos.bin")
    with pytest.raises(SchemaError, match="--document-tokens eos --boundaries eos"):
        bos.take_flat(tmp_path / "no_bos.bin")


def test_padding_that_is_eos_needs_the_count_of_valid_tokens(
    padded_with_eos: Given, tmp_path: Path
) -> None:
    given = padded_with_eos
    assert given.codec.pad_id == given.eos
    rows = given.rows((50, 40))
    with pytest.raises(SchemaError, match=" valid_token_count;"):
        given.take(write(tmp_path / "a.parquet", rows), boundaries="eos")
    with pytest.raises(SchemaError, match=" doc_starts") as refused:
        given.take(write(tmp_path / "b.parquet", rows))
    assert "--boundaries" not in str(refused.value)
    masks = [[*[1] * 89, *[0] * (T - 89)]]
    counted = write(tmp_path / "c.parquet", rows, valid_token_count=[90], loss_mask=masks)
    back = given.take(counted, boundaries="eos")
    (row,) = pq.read_table(back.shards(), partitioning=None).to_pylist()
    assert (row["doc_starts"], row["valid_token_count"]) == ([0, 50], 90)


def test_eos_is_refused_where_boundaries_are_stored_or_there_is_none(
    with_pad: Given, tmp_path: Path
) -> None:
    rows = with_pad.rows((64, 64))
    file = write(tmp_path / "rows.parquet", rows, doc_starts=[[0, 64]])
    with pytest.raises(SchemaError, check=fields(value="column doc_starts")):
        with_pad.take(file, boundaries="eos")
    none = Given(tmp_path / "none", ("</s>", "<pad>"), "none")
    with pytest.raises(SchemaError, match="EOS", check=fields(name="--boundaries eos")):
        none.take(write(tmp_path / "plain.parquet", rows), boundaries="eos")


def test_tokens_without_offsets_are_cut_behind_each_eos(with_pad: Given, tmp_path: Path) -> None:
    """The file is as nanoGPT writes it: concatenated uint16 ids."""
    lengths = (50, 300, 1, 20)
    ids = [token for length in lengths for token in [*[40] * (length - 1), with_pad.eos]]
    file = tmp_path / "train.bin"
    np.array([*ids, 40, 40], dtype=np.uint16).tofile(file)
    with pytest.raises(SchemaError, match="--boundaries eos"):
        with_pad.take_flat(file)
    back = with_pad.take_flat(file, boundaries="eos")
    report: Any = back.manifest.report
    assert (report["boundaries_from_eos"], report["without_eos"]) == (4, 1)
    assert report["fallbacks"][0].startswith("boundaries ")
    found = pq.read_table(back.shards(), partitioning=None).to_pylist()
    assert sorted(
        end - start
        for row in found
        for start, end in zip(
            row["doc_starts"], [*row["doc_starts"][1:], row["valid_token_count"]], strict=True
        )
    ) == [2, 20, 44, 50, 128, 128]
    np.array([0, 50], dtype=np.int64).tofile(tmp_path / "train.offsets.bin")
    with pytest.raises(SchemaError, match=r"offsets\.bin;"):
        with_pad.take_flat(file, boundaries="eos")


def test_the_option_is_in_the_key_only_where_it_is_given(with_pad: Given, tmp_path: Path) -> None:
    rows = with_pad.rows((64, 64))
    mask = [[*[1] * 63, 0, *[1] * 63, 0]]
    file = write(tmp_path / "rows.parquet", rows, doc_starts=[[0, 64]], loss_mask=mask)
    assert "boundaries" not in with_pad.take(file).manifest.config
    report: Any = with_pad.take(file).manifest.report
    assert not {"boundaries_from_eos", "without_eos", "cleared"} & report.keys()


def test_the_command_takes_the_option_and_prints_what_it_came_to(
    with_pad: Given, tmp_path: Path
) -> None:
    rows = write(tmp_path / "rows.parquet", with_pad.rows((50, 50, 28), (100, -28)))
    tokenizer = tmp_path / "pad" / "tokenizer.json"
    words = ["import", str(rows), "--family", "theirs", "--tokenizer", str(tokenizer)]
    words += ["--document-tokens", "eos"]
    home = tmp_path / "home"
    refused = curriculum(*words, home=home)
    assert refused.returncode == 2
    assert "--boundaries eos" in refused.stderr
    wrong = curriculum(*words, "--boundaries", "bos", home=home)
    assert wrong.returncode == 2
    assert "--boundaries: bos" in wrong.stderr
    done = curriculum(*words, "--boundaries", "eos", home=home)
    assert done.returncode == 0, done.stderr
    for line in (
        "documents after an EOS: 3",
        "documents without an EOS: 1",
        "cleared targets across a boundary: 3",
        "doc_starts is not stored: 0, and behind each EOS (--boundaries eos)",
    ):
        assert line in done.stdout
