"""Rows go to Megatron's and flat files and come back byte for byte; their real readers agree."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.interop.token_files import open_tokens
from curriculum.interop.tokens_out import LOAD, write_index
from curriculum.mixing.mix import PLAN_NAME
from curriculum.store import Artefact
from schemas.errors import SchemaError, StoreError
from schemas.structure import STRUCTURE_TOKENS
from tests.error_fields import fields
from tests.flows.cli_runner import curriculum

FORMS = ("megatron", "flat")


def table(artefact: Artefact) -> pa.Table:
    return pq.read_table(artefact.shards(), partitioning=None)


def documents(rows: pa.Table, name: str = "input_ids") -> list[list[int]]:
    """The values of every document of every row, by the row's own boundaries."""
    found = []
    for row in rows.to_pylist():
        edges = [*row["doc_starts"], row["valid_token_count"]]
        found += [row[name][start:end] for start, end in itertools.pairwise(edges)]
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["flat", "structured"])
def test_rows_come_back_as_they_were(world: Any, tmp_path: Path, form: str, kind: str) -> None:
    rows = getattr(world, kind)
    back = world.take(world.export(rows, tmp_path / "out", form), form)
    before, after = table(rows), table(back)
    assert len(before) == len(after) > 20
    names = {*before.column_names} - {"pack_id", "target_ids"}
    assert names == {*after.column_names} - {"pack_id"}
    assert [name for name in sorted(names) if before[name] != after[name]] == []
    assert back.manifest.labels == {**rows.manifest.labels, "imported": form}


@pytest.mark.parametrize("form", FORMS)
def test_a_mixture_goes_in_training_order_to_the_last_row_of_its_plan(
    world: Any, tmp_path: Path, form: str
) -> None:
    exported = world.export(world.mixture, tmp_path / "out", form)
    there = {each.key: each for each in (world.flat, world.structured)}
    plan = pq.read_table(world.mixture.path / PLAN_NAME).to_pylist()
    rows = [
        pq.read_table(there[each["rows_key"]].shards()[each["shard"]]).slice(each["row"], 1)
        for each in plan
    ]
    tokens = open_tokens(exported, form, world.codec)  # type: ignore[arg-type]
    found = [
        tokens.ids[start:end].tolist()
        for start, end in zip(tokens.edges[:-1], tokens.edges[1:], strict=True)
    ]
    assert found == [document for row in rows for document in documents(row)]
    mask = [value for row in rows for each in documents(row, "loss_mask") for value in each]
    assert tokens.marks["loss_mask"].tolist() == mask
    beside = pq.read_table(exported / "rows.parquet")
    assert beside["pack_id"].to_pylist() == [row["pack_id"][0].as_py() for row in rows]
    record = json.loads((exported / "export.json").read_text())
    assert (record["steps"], record["rows"]) == (12, 48)
    assert "48 rows, all of the 12 steps" in (exported / "README.md").read_text()


def test_rows_without_structure_have_codes_of_0_beside_those_with_it(
    world: Any, tmp_path: Path
) -> None:
    exported = world.export(world.mixture, tmp_path / "out", "flat")
    beside = pq.read_table(exported / "rows.parquet").to_pylist()
    codes = np.fromfile(exported / "structure_ids.bin", dtype=np.uint8)
    ends = np.cumsum([row["valid_token_count"] for row in beside])
    seen = set()
    for row, part in zip(beside, np.split(codes, ends[:-1]), strict=True):
        seen.add((row["family"], bool(part.any()), bool(row["chunk_boundaries"])))
    assert seen == {("v3_simple", False, False), ("v6_enriched", True, True)}


def test_megatron_reads_the_documents_that_rows_hold(world: Any, tmp_path: Path) -> None:
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", exc_type=ImportError)
    exported = world.export(world.flat, tmp_path / "out", "megatron")
    read = indexed.IndexedDataset(str(exported / "tokens"))
    assert [each.tolist() for each in read] == documents(table(world.flat))
    assert read.document_indices.tolist() == list(range(len(read) + 1))
    assert read.index.dtype is np.uint16


def test_what_megatron_wrote_becomes_rows(world: Any, tmp_path: Path, said: Any) -> None:
    """Two sequences may be one document: its boundaries are what counts."""
    indexed = pytest.importorskip("megatron.core.datasets.indexed_dataset", exc_type=ImportError)
    torch = pytest.importorskip("torch")
    builder = indexed.IndexedDatasetBuilder(str(tmp_path / "mine.bin"), dtype=np.int32)
    texts = [
        [world.codec.bos_id, *range(10, 10 + size), world.codec.eos_id] for size in (40, 90, 7)
    ]
    for text in texts:
        for half in (text[:5], text[5:]):
            builder.add_item(torch.tensor(half))
        builder.end_document()
    builder.finalize(str(tmp_path / "mine.idx"))
    rows = world.take(tmp_path / "mine", "megatron", said(family="mine"), 128)
    assert sorted(documents(table(rows))) == sorted(texts)
    assert documents(table(rows), "loss_mask") == [
        [1] * (len(each) - 1) + [0] for each in documents(table(rows))
    ]


@pytest.mark.parametrize("form", FORMS)
def test_the_card_loads_what_it_lies_beside(world: Any, tmp_path: Path, form: str) -> None:
    if form == "megatron":
        pytest.importorskip("megatron.core.datasets.indexed_dataset", exc_type=ImportError)
    exported = world.export(world.flat, tmp_path / "out", form)
    (code,) = re.findall(r"```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL)
    assert code == LOAD[form].format(dtype="uint16")  # type: ignore[index]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"{code}\nprint(first.tolist())"],
        cwd=exported,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout.splitlines()[-1]) == documents(table(world.flat))[0]


def test_documents_longer_than_a_row_are_cut_and_each_piece_is_led(
    world: Any, tmp_path: Path, said: Any
) -> None:
    bos, eos = world.codec.bos_id, world.codec.eos_id
    text = [bos, *range(10, 280), eos]
    np.array(text, dtype=np.uint16).tofile(tmp_path / "one.bin")
    rows = world.take(tmp_path / "one.bin", "flat", said(family="mine"), 128)
    pieces = sorted(documents(table(rows)), key=lambda each: text.index(each[1]))
    assert [len(each) for each in pieces] == [128, 128, 18]
    assert all(each[0] == bos for each in pieces)
    whole = [token for each in pieces for token in each]
    assert [token for token in whole if token != bos] == text[1:]
    report = rows.manifest.report
    assert (report["divided"], report["added_bos"]) == (1, 2)


@pytest.mark.parametrize("form", FORMS)
def test_pieces_of_a_document_have_its_id(world: Any, tmp_path: Path, said: Any, form: str) -> None:
    """The first and last of four documents are equal, and ids of texts depend on the text alone."""
    bos, eos = world.codec.bos_id, world.codec.eos_id
    texts = [[bos, *range(10, 10 + length), eos] for length in (268, 40, 200, 268)]
    edges = np.cumsum([0, *map(len, texts)])
    np.concatenate(texts).astype("uint16").tofile(tmp_path / "x.bin")
    if form == "megatron":
        write_index(tmp_path / "x.idx", edges, "uint16")
    else:
        edges.astype("<i8").tofile(tmp_path / "x.offsets.bin")
    rows = table(world.take(tmp_path / "x.bin", form, said(family="mine"), 128))
    lengths: dict[str, list[int]] = {}
    for row in rows.to_pylist():
        edges_of_row = [*row["doc_starts"], row["valid_token_count"]]
        for name, (start, end) in zip(
            row["document_ids"], itertools.pairwise(edges_of_row), strict=True
        ):
            lengths.setdefault(name, []).append(end - start)
    assert sorted(sorted(pieces) for pieces in lengths.values()) == [
        [16, 16, 128, 128, 128, 128],
        [42],
        [75, 128],
    ]


def test_the_import_prints_documents_and_their_further_pieces(world: Any, tmp_path: Path) -> None:
    ids = [world.codec.bos_id, *range(10, 280), world.codec.eos_id]
    np.array(ids, dtype=np.uint16).tofile(tmp_path / "x.bin")
    tokenizer = str(world.tokenizer.path / "tokenizer.json")
    words = (
        "--format",
        "flat",
        "--tokenizer",
        tokenizer,
        "--family",
        "mine",
        "--row-length",
        "128",
    )
    done = curriculum("import", str(tmp_path / "x.bin"), *words, home=tmp_path / "new")
    assert "3 rows  1 documents  274 tokens" in done.stdout
    assert "further pieces: 2" in done.stdout


@pytest.mark.parametrize("form", ["parquet", "flat"])
def test_rows_that_come_back_count_documents_and_their_further_pieces(
    world: Any, said: Any, tmp_path: Path, form: str
) -> None:
    """They come as Parquet, with ids of documents, or as our export of tokens."""
    text = [world.codec.bos_id, *range(10, 280), world.codec.eos_id]
    edges = np.cumsum([0, len(text), 40, len(text) - 100])
    short = [world.codec.bos_id, *[20] * 38, world.codec.eos_id]
    other = [*text[:-101], world.codec.eos_id]
    np.array([*text, *short, *other], dtype=np.uint16).tofile(tmp_path / "x.bin")
    edges.astype("<i8").tofile(tmp_path / "x.offsets.bin")
    rows = world.take(tmp_path / "x.bin", "flat", said(family="mine"), 128)
    if form == "flat":
        path = world.export(rows, tmp_path / "out", "flat")
    else:
        path = tmp_path / "out"
        path.mkdir()
        for file in rows.shards():
            shutil.copy(file, path)
    tokenizer = str(world.tokenizer.path / "tokenizer.json")
    words = ("--format", form, "--tokenizer", tokenizer)
    done = curriculum("import", str(path), *words, home=tmp_path / "new")
    assert done.returncode == 0, done.stderr
    assert "  3 documents  " in done.stdout
    assert "divided: 2" in done.stdout
    assert "further pieces: 3" in done.stdout


def test_structure_goes_a_value_a_token(world: Any, tmp_path: Path) -> None:
    exported = world.export(world.structured, tmp_path / "out", "flat")
    rows = table(world.structured)
    for name in STRUCTURE_TOKENS:
        found = np.fromfile(exported / f"{name}.bin", dtype=np.uint8).tolist()
        assert found == [value for each in documents(rows, name) for value in each]


def _cut_off(folder: Path, form: str) -> None:
    with (folder / "tokens.bin").open("r+b") as file:
        file.truncate(101)


def _without_mask(folder: Path, form: str) -> None:
    (folder / "loss_mask.bin").unlink()


def _without_boundaries(folder: Path, form: str) -> None:
    (folder / ("tokens.idx" if form == "megatron" else "offsets.bin")).unlink()


def _of_a_newer_version(folder: Path, form: str) -> None:
    file = folder / "export.json"
    file.write_text(file.read_text().replace('"schema_version":"1.', '"schema_version":"9.').replace(
        '"schema_version": "1.', '"schema_version": "9.'))  # fmt: skip


def _with_a_foreign_id(folder: Path, form: str) -> None:
    ids = np.memmap(folder / "tokens.bin", dtype=np.uint16, mode="r+")
    ids[17] = 60_000
    ids.flush()


def _with_another_row_count(folder: Path, form: str) -> None:
    file = folder / "rows.parquet"
    lines = pq.read_table(file)
    pq.write_table(lines.slice(1), file)
    record = json.loads((folder / "export.json").read_text())
    record["files"]["rows.parquet"] = file.stat().st_size
    (folder / "export.json").write_text(json.dumps(record))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_cut_off, "tokens.bin: 101 bytes; export.json says that it has"),
        (_without_mask, "loss_mask.bin: missing"),
        (_without_boundaries, "missing"),
        (_of_a_newer_version, "schema_version 9."),
        (_with_a_foreign_id, "token 17 of tokens.bin: 60000; the tokenizer has ids 0 to"),
        (_with_another_row_count, "rows.parquet"),
    ],
)
def test_an_export_that_is_spoilt_is_refused_by_name(
    world: Any, tmp_path: Path, form: str, spoil: Callable[[Path, str], None], told: str
) -> None:
    exported = world.export(world.flat, tmp_path / "out", form)
    spoil(exported, form)
    with pytest.raises(SchemaError, match=re.escape(told)):
        world.take(exported, form)
    assert len(list(world.store.artefacts("rows"))) == 2


def test_flat_ids_of_another_size_than_their_offsets_are_refused(
    world: Any, tmp_path: Path, said: Any
) -> None:
    np.arange(10, 20, dtype=np.uint16).tofile(tmp_path / "x.bin")
    np.array([0, 4, 9], dtype=np.int64).tofile(tmp_path / "x.offsets.bin")
    with pytest.raises(SchemaError, match="9 ids of 2, 4 or 8 bytes"):
        world.take(tmp_path / "x.bin", "flat", said(family="mine"), 128)


def test_documents_without_the_bos_of_their_tokenizer_are_refused(
    world: Any, tmp_path: Path, said: Any
) -> None:
    ids = [world.codec.bos_id, 11, 12, 13, 14]
    np.array(ids, dtype=np.uint16).tofile(tmp_path / "x.bin")
    np.array([0, 3, 5], dtype=np.int64).tofile(tmp_path / "x.offsets.bin")
    with pytest.raises(SchemaError, match="1 of 2 documents"):
        world.take(tmp_path / "x.bin", "flat", said(family="mine"), 128)


@pytest.mark.parametrize(
    ("facts", "row_length", "told"),
    [
        ({}, 128, "--family"),
        ({"family": "mine"}, None, "--row-length"),
        ({"family": "mine"}, 100, "a multiple of 128"),
        ({"family": "mine", "objective": "fim"}, 128, "which is causal"),
    ],
)
def test_what_must_be_said_of_bare_documents_is_asked_for(
    world: Any, tmp_path: Path, said: Any, facts: Any, row_length: int | None, told: str
) -> None:
    ids = [world.codec.bos_id, 11, world.codec.eos_id]
    np.array(ids, dtype=np.uint16).tofile(tmp_path / "x.bin")
    with pytest.raises(SchemaError, match=told):
        world.take(tmp_path / "x.bin", "flat", said(**facts), row_length)


def test_rows_of_a_mixture_are_no_rows_of_one_artefact(world: Any, tmp_path: Path) -> None:
    exported = world.export(world.mixture, tmp_path / "out", "flat")
    with pytest.raises(SchemaError, match="family"):
        world.take(exported, "flat")


def test_nothing_is_written_over_and_nothing_half(world: Any, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(StoreError, check=fields(name="--to", value=tmp_path / "out")):
        world.export(world.flat, tmp_path / "out", "flat")
    next(iter(world.structured.path.glob("data/part-*.parquet"))).unlink()
    with pytest.raises((StoreError, OSError)):
        world.export(world.structured, tmp_path / "other", "flat")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out", "ws"]
