"""Rows in which one token is poison: an embedding that isn't finite, or whose gradient isn't."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from curriculum.model.decoder import Decoder, initialise
from curriculum.train.batch import Row
from curriculum.train.dataloader import Batch, collate
from curriculum.train.step import FinitenessCheck, NonfiniteRow, RowVerdict
from schemas.errors import JobError
from schemas.job import ModelSpec
from tests.factories import shard_path

POISON = 9
DOCUMENTS = ("d0", "d1", "d2")


@pytest.fixture
def model() -> Decoder:
    spec = ModelSpec(
        name="small", vocab_size=16, blocks="AF", width=16, heads=2, kv_heads=1, mlp_width=16
    )
    return initialise(Decoder(spec, "documents"), 3)


def row(number: int, *, poisoned: tuple[int, ...] = (), ids: bool = False) -> Row:
    """Three documents of four tokens; the poisoned ones have POISON as their second token."""
    tokens = np.tile(np.array([1, 3, 4, 2], dtype=np.int32), 3)
    for document in poisoned:
        tokens[4 * document + 1] = POISON
    mask = np.tile(np.array([1, 1, 1, 0], dtype=np.uint8), 3)
    return Row(
        pack_id=f"abcdefabcdef-{number:010d}",
        input_ids=tokens,
        target_ids=np.where(mask, np.append(tokens[1:], 0), 0).astype(np.int32),
        loss_mask=mask,
        doc_ids=np.repeat(np.arange(3, dtype=np.int32), 4),
        valid_token_count=12,
        attention_pairs=30,
        document_ids=DOCUMENTS if ids else (),
    )


def finite(model: Decoder, folders: dict[str, Path] | None = None) -> FinitenessCheck:
    return FinitenessCheck(model=model, step=8, count=9, z_weight=1e-5, folders=folders or {})


def poisoned(model: Decoder, what: str) -> None:
    weight: Any = model.embedding.weight
    if what == "the loss":
        with torch.no_grad():
            weight[POISON] = math.nan
    else:
        weight.register_hook(
            lambda gradient: gradient * (math.nan if gradient[POISON].any() else 1)
        )


@pytest.mark.parametrize("what", ["the loss", "the gradient"])
def test_the_rows_and_documents_to_blame_are_named_and_no_others(model: Decoder, what: Any) -> None:
    poisoned(model, what)
    batches = [
        collate([row(0, ids=True), row(1, poisoned=(0, 2), ids=True)]),
        collate([row(2, poisoned=(1,), ids=True), row(3, ids=True)]),
    ]
    found = finite(model).find_nonfinite(what, batches)
    assert found.rows == 4
    assert found.blamed == (
        NonfiniteRow(
            pack_id="abcdefabcdef-0000000001", documents=(0, 2), document_ids=("d0", "d2")
        ),
        NonfiniteRow(pack_id="abcdefabcdef-0000000002", documents=(1,), document_ids=("d1",)),
    )
    assert all(weight.grad is None for weight in model.parameters())


def test_rows_that_are_finite_one_by_one_are_said_to_be(model: Decoder) -> None:
    found = finite(model).find_nonfinite("the loss", [collate([row(0), row(1)])])
    assert found == RowVerdict(what="the loss", rows=2, blamed=())
    assert "2 rows" in str(found)


def test_weights_that_are_broken_are_not_blamed_on_rows(model: Decoder) -> None:
    with torch.no_grad():
        model.head.weight[5] = math.inf
    with pytest.raises(JobError, match="2 rows") as error:
        finite(model).require(math.inf, "the loss", [collate([row(0), row(1)])])
    assert "--without-rows" not in error.value.cure


def test_the_error_says_how_to_go_on_without_the_row(model: Decoder) -> None:
    poisoned(model, "the loss")
    batch = collate([row(0), row(1, poisoned=(1,))])
    with pytest.raises(JobError, match=r"step 8: .* nan .*abcdefabcdef-0000000000") as error:
        finite(model).require(math.nan, "the loss", [batch])
    assert "abcdefabcdef-0000000001 (document number 1)" in error.value.cause
    assert error.value.cure.endswith("--from-step 7 --without-rows abcdefabcdef-0000000001")


def test_a_finite_value_passes_without_a_look_at_the_rows(model: Decoder) -> None:
    batches: list[Batch] = []
    finite(model).require(3.0, "the loss", batches)


def test_documents_are_read_from_the_rows_where_a_batch_lacks_them(
    model: Decoder, tmp_path: Path
) -> None:
    packs = [f"abcdefabcdef-{number:010d}" for number in range(3)]
    table = pa.table({"pack_id": packs, "document_ids": [["x"] * 3, ["a", "b", "c"], ["y"] * 3]})
    pq.write_table(table, shard_path(tmp_path))
    poisoned(model, "the loss")
    folders = {"0" * 64: tmp_path / "absent", "abcdefabcdef" + "0" * 52: tmp_path}
    (found,) = (
        finite(model, folders).find_nonfinite("the loss", [collate([row(1, poisoned=(2,))])]).blamed
    )
    assert found.document_ids == ("c",)
