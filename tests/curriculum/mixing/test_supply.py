from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from curriculum.mixing.row_supply import pack_ids, read_supply
from schemas.errors import SchemaError

Make = Callable[..., Any]


def test_rows_are_numbered_over_all_shards(make_rows: Make) -> None:
    artefact = make_rows({"b": [5, 6, 7], "a": [8, 9]}, shards=2)
    supply = read_supply(artefact.shards(), key=artefact.key)
    assert supply.shard_starts.tolist() == [0, 3, 5]
    assert supply.valid_tokens.tolist() == [5, 6, 7, 8, 9]
    assert supply.attention_pairs.tolist() == [36, 43, 50, 57, 64]
    assert supply.pack_index.tolist() == [0, 1, 2, 3, 4]
    assert supply.domains == ("a", "b")
    assert supply.rows_of("b").tolist() == [0, 1, 2]
    assert (supply.tokens_of("a"), supply.tokens_of("b")) == (17, 18)


def test_no_rows_are_a_supply_of_none(make_rows: Make) -> None:
    artefact = make_rows({})
    supply = read_supply(artefact.shards(), key=artefact.key)
    assert (supply.rows, supply.domains, supply.shard_starts.tolist()) == (0, (), [0])


@pytest.mark.parametrize("pack_id", ["abababababab-xxxxxxxxxx", "cccccccccccc-0000000001", ""])
def test_a_pack_id_of_other_rows_is_refused(tmp_path: Path, pack_id: str) -> None:
    ids = ["abababababab-0000000000", pack_id]
    frame = pl.DataFrame({"pack_id": ids, "domain": ["x", "x"], "valid_token_count": [1, 1]})
    frame = frame.with_columns(attention_pairs=pl.lit(1, pl.Int64))
    frame.write_parquet(tmp_path / "part-00000.parquet")
    with pytest.raises(SchemaError, match=r"^row 1 of part-00000\.parquet: pack_id"):
        read_supply([tmp_path / "part-00000.parquet"], key="ab" * 32)


def test_pack_ids_are_made_as_the_rows_have_them() -> None:
    keys = pl.Series(["ab" * 32, "cd" * 32])
    made = pack_ids(keys, pl.Series([17, 9_999_999_999]).to_numpy()).to_list()
    assert made == ["abababababab-0000000017", "cdcdcdcdcdcd-9999999999"]
