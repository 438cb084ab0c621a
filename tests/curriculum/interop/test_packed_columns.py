"""Packed rows of the Hugging Face world are read where their columns determine documents and targets."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from curriculum.interop.dataset_export import export_packed
from curriculum.interop.foreign_parquet import parquet_rows
from curriculum.interop.row_order import Ordered
from curriculum.outputs import whole_folder
from curriculum.store import Artefact
from curriculum.tokens.codec import Roles, Tokenizer
from schemas.errors import SchemaError
from tests.curriculum.interop.in_process import publish

Row = dict[str, Any]
T = 128
BOUNDARIES = ("seq_lengths", "seq_lens", "cu_seqlens", "position_ids", "document_starts")


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A row as a reference in plain loops has it."""

    documents: tuple[tuple[int, ...], ...]
    scored: tuple[tuple[bool, ...], ...]
    """True for each token with a label."""
    padding: int

    @property
    def ids(self) -> list[int]:
        return [token for document in self.documents for token in document]

    @property
    def starts(self) -> list[int]:
        return [sum(map(len, self.documents[:at])) for at in range(len(self.documents))]

    @property
    def loss_mask(self) -> list[int]:
        """1 where the next token is of the same document and has a label."""
        mask: list[int] = []
        for labelled in self.scored:
            mask += [int(counts) for counts in labelled[1:]] + [0]
        return mask + [0] * (T - len(mask))

    def row(self, column: str, pad: int, *, counts_padding: bool) -> Row:
        ids = self.ids + [pad] * self.padding
        flags = [flag for labelled in self.scored for flag in labelled]
        flags += [False] * self.padding
        lengths = [len(document) for document in self.documents]
        lengths += [self.padding] if self.padding and counts_padding else []
        values = {
            "seq_lengths": lengths,
            "seq_lens": lengths,
            "cu_seqlens": np.cumsum([0, *lengths]).tolist(),
            "document_starts": np.cumsum([0, *lengths])[:-1].tolist(),
            "position_ids": [at for length in lengths for at in range(length)]
            + ([] if counts_padding else [0] * self.padding),
        }
        labels = [token if flag else -100 for token, flag in zip(ids, flags, strict=True)]
        return {"input_ids": ids, "labels": labels, column: values[column]}


@st.composite
def packed_rows(draw: st.DrawFn) -> Packed:
    lengths = draw(st.lists(st.integers(2, 40), min_size=1, max_size=3))
    total = sum(lengths)
    tokens = st.integers(20, 200)
    documents = tuple(
        tuple(draw(st.lists(tokens, min_size=length, max_size=length))) for length in lengths
    )
    scored = tuple(
        (draw(st.booleans()), True, *(draw(st.booleans()) for _ in document[2:]))
        for document in documents
    )
    return Packed(documents=documents, scored=scored, padding=draw(st.integers(0, T - total)))


@pytest.fixture(scope="session")
def unframed(tokenizer_file: Path) -> Tokenizer:
    return Tokenizer.load(tokenizer_file, Roles(document_tokens="none"))


def written(folder: Path, rows: list[Row]) -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "train.parquet")
    return folder


def decoded_rows(path: Path, tokenizer: Tokenizer, facts: Any) -> list[Row]:
    """The rows as an import would publish them, but for what it adds."""
    imported = parquet_rows(path, facts, tokenizer)
    return [
        row for shard in imported.shards for table in shard.tables() for row in table.to_pylist()
    ]


@pytest.mark.parametrize("column", BOUNDARIES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(packed_rows(), min_size=1, max_size=4), counts_padding=st.booleans())
def test_boundaries_and_scored_positions_are_those_of_the_reference(
    tmp_path: Path,
    unframed: Tokenizer,
    said: Callable[..., Any],
    column: str,
    rows: list[Packed],
    counts_padding: bool,
) -> None:
    counts = counts_padding or column == "document_starts"
    given_rows = [row.row(column, unframed.pad_id, counts_padding=counts) for row in rows]
    path = written(tmp_path / "rows", given_rows)
    for row, found in zip(rows, decoded_rows(path, unframed, said(family="mine")), strict=True):
        assert found["input_ids"] == row.ids + [unframed.pad_id] * (T - len(row.ids))
        assert found["doc_starts"] == row.starts
        assert found["valid_token_count"] == len(row.ids)
        assert found["loss_mask"] == row.loss_mask


def imported_rows(world: Any, path: Path, facts: Any) -> Artefact:
    return publish(world.store, parquet_rows(path, facts, world.codec), world.tokenizer)


def test_an_export_comes_back_as_the_rows_that_it_was_made_of(
    world: Any, tmp_path: Path, said: Callable[..., Any]
) -> None:
    with whole_folder(tmp_path / "out") as folder:
        export_packed(Ordered.of(world.store, world.flat), world.codec, folder, ())
    table = pq.read_table(sorted((tmp_path / "out" / "data").iterdir()))
    bare = table.select(["input_ids", "labels", "seq_lengths", "position_ids"])
    pq.write_table(bare, tmp_path / "bare.parquet")
    columns = ["input_ids", "loss_mask", "doc_ids", "doc_starts", "valid_token_count", "num_docs"]
    stored = pq.read_table(world.flat.shards(), partitioning=None).select(columns)
    for path in (tmp_path / "out" / "data", tmp_path / "bare.parquet"):
        facts = said(family="v3_simple") if path.suffix else said()
        rows = imported_rows(world, path, facts)
        found = pq.read_table(rows.shards(), partitioning=None).select(columns)
        assert found.to_pylist() == stored.to_pylist()


def test_rows_that_trl_packs_are_imported(
    world: Any, tmp_path: Path, said: Callable[..., Any]
) -> None:
    """trl fills no rows, and leaves the label of a document's first token."""
    datasets = pytest.importorskip("datasets")
    data_utils = pytest.importorskip("trl.data_utils")
    random = np.random.default_rng(5)
    documents = [
        [world.codec.bos_id, *random.integers(20, 200, length).tolist(), world.codec.eos_id]
        for length in (100, 60, 40, 20, 90, 7)
    ]
    data = datasets.Dataset.from_dict({"input_ids": documents, "labels": documents})
    packed = data_utils.pack_dataset(data, T, strategy="bfd")
    packed.to_parquet(tmp_path / "packed.parquet")
    rows = imported_rows(world, tmp_path / "packed.parquet", said(family="mine"))
    found = pq.read_table(rows.shards(), partitioning=None).to_pylist()
    back = []
    for row in found:
        edges = [*row["doc_starts"], row["valid_token_count"]]
        back += [row["input_ids"][a:b] for a, b in itertools.pairwise(edges)]
        last = {edge - 1 for edge in edges[1:]}
        assert [at for at, counts in enumerate(row["loss_mask"]) if not counts] == [
            at for at in range(T) if at in last or at >= edges[-1]
        ]
    assert sorted(back) == sorted(documents)


ROW: Row = {
    "input_ids": [50] * 3 + [60] * 125,
    "labels": [-100, 50, 50, -100, *[60] * 124],
    "seq_lengths": [3, 125],
}

RIGHT: Row = {
    "cu_seqlens": [0, 3, 128],
    "document_starts": [0, 3],
    "position_ids": [0, 1, 2, *range(125)],
    "loss_mask": [1, 1, 0, *[1] * 124, 0],
}


@pytest.mark.parametrize(
    ("changes", "found", "cause"),
    [
        ({"seq_lengths": [3, 126]}, "seq_lengths adds up to 129", "inside their row"),
        ({"seq_lengths": [3, 0, 125]}, "seq_lengths has a length below 1", "have tokens"),
        ({"seq_lengths": []}, "seq_lengths is empty", "has a document"),
        ({"cu_seqlens": [0, 4, 128]}, "seq_lengths and cu_seqlens differ at token 3", "agree"),
        ({"cu_seqlens": [0, 3, 3, 128]}, "cu_seqlens doesn't rise", "none empty"),
        ({"cu_seqlens": [3, 128]}, "cu_seqlens begins with 3", "begins with a document"),
        ({"cu_seqlens": [0, 3, 129]}, "cu_seqlens ends with 129", "inside its row"),
        ({"document_starts": [0, 128]}, "document_starts ends with 128", "inside their row"),
        (
            {"position_ids": [0, 1, 2, 0, *range(2, 126)]},
            "position_ids is 2 at token 4",
            "rise by 1",
        ),
        ({"position_ids": [*range(1, 129)]}, "position_ids is 1 at token 0", "begin at 0"),
        ({"position_ids": [0, 1, 2]}, "position_ids has 3 values", "one value a token"),
        ({"labels": [50, 50, 60, *[60] * 124, -100]}, "labels is 60 at token 2", "shifted by one"),
        ({"labels": [-100, 70, *[-100] * 126]}, "labels is 70 at token 1", "at its own position"),
        ({"loss_mask": [1] * 128}, "loss_mask is 1 at token 2", "labels says"),
    ],
)
def test_columns_that_determine_nothing_are_refused_for_the_true_reason(
    tmp_path: Path,
    unframed: Tokenizer,
    said: Callable[..., Any],
    changes: Row,
    found: str,
    cause: str,
) -> None:
    right = {**ROW, **{name: RIGHT[name] for name in changes if name in RIGHT}}
    path = written(tmp_path / "rows", [right, {**ROW, **changes}])
    with pytest.raises(SchemaError) as refused:
        decoded_rows(path, unframed, said(family="mine"))
    assert refused.value.name == "row 1 of train.parquet"
    assert str(refused.value.value).startswith(found)
    assert cause in refused.value.cause


def test_a_label_of_a_documents_first_token_is_of_no_use(
    tmp_path: Path, unframed: Tokenizer, said: Callable[..., Any]
) -> None:
    path = written(tmp_path / "rows", [{**ROW, "labels": ROW["input_ids"]}])
    (row,) = decoded_rows(path, unframed, said(family="mine"))
    assert [at for at, counts in enumerate(row["loss_mask"]) if not counts] == [2, 127]


def test_what_says_neither_where_documents_begin_nor_what_counts_is_refused_for_that(
    tmp_path: Path, tokenizer_file: Path, said: Callable[..., Any]
) -> None:
    """Rows as trl's strategy `wrapped` makes them: tokens end to end, cut anywhere."""
    framed = Tokenizer.load(tokenizer_file, Roles(document_tokens="eos"))
    facts = said(family="mine")
    bare = written(tmp_path / "bare", [{"input_ids": ROW["input_ids"], "labels": ROW["labels"]}])
    with pytest.raises(SchemaError, match="doc_starts") as unbounded:
        parquet_rows(bare, facts, framed)
    assert "BOS 0" in unbounded.value.cause
    assert "seq_lengths" in unbounded.value.cure
    unscored = written(tmp_path / "unscored", [{"input_ids": [50] * T, "seq_lengths": [T]}])
    with pytest.raises(SchemaError, match="loss_mask") as unlabelled:
        parquet_rows(unscored, facts, framed)
    assert "labels" in unlabelled.value.cause
