"""Hugging Face's `datasets` loads a workspace as it lies, and what was exported for it, offline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from curriculum.interop.dataset_export import export_packed
from curriculum.interop.huggingface import (
    MADE_HERE,
    card,
    configs,
    licences,
    write_card,
)
from curriculum.interop.row_order import Ordered
from curriculum.mixing.mix import PLAN_NAME
from curriculum.outputs import whole_folder
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.document import DOCUMENT_SCHEMA
from tests.factories import shard_path


@pytest.fixture
def datasets() -> Any:
    """The library, which takes seconds to import."""
    return pytest.importorskip("datasets")


def table(artefact: Artefact) -> pa.Table:
    return pq.read_table(artefact.shards(), partitioning=None)


def documents_of(
    store: Store, licence: list[str | None], repository: str, ids: Sequence[str] = ()
) -> Artefact:
    """An artefact of documents of which only the licence counts, and the ids where they are given."""
    recipe = Recipe(
        stage="documents",
        labels=(("family", "v3_simple"), ("repository", repository)),
        revision=1,
        config={"licence": [*licence], "ids": [*ids]},
    )

    def fill(drafts: Any) -> None:
        draft: StagingDirectory = drafts[0]
        values: dict[str, Any] = {
            field.name: [[]] * len(licence) if pa.types.is_list(field.type) else None
            for field in DOCUMENT_SCHEMA
        }
        values |= {
            name: ["x"] * len(licence) for name in ("document_id", "content_id", "text", "family")
        }
        values |= {name: ["x"] * len(licence) for name in ("language", "lineage")}
        values |= {name: [1] * len(licence) for name in ("timestamp", "num_bytes")}
        values["document_id"] = [*ids] or values["document_id"]
        values |= {"licence": licence, "base_document_id": [None] * len(licence)}
        columns = [pa.array(values[each.name], type=each.type) for each in DOCUMENT_SCHEMA]
        rows = pa.table(columns, schema=DOCUMENT_SCHEMA)
        pq.write_table(rows, shard_path(draft.path), row_group_size=2)

    return store.produce([recipe], fill)[0]


def test_datasets_loads_the_rows_of_a_workspace_by_their_name(
    datasets: Any, world: Any, tmp_path: Path
) -> None:
    world.store.mark("build+x", [world.flat, world.structured])
    file = write_card(world.store)
    assert file == world.store.root / "README.md"
    names = datasets.get_dataset_config_names(str(world.store.root))
    assert names == ["rows-v3_simple-causal-128", "rows-v6_enriched-causal-128"]
    for name, rows in zip(names, (world.flat, world.structured), strict=True):
        loaded = datasets.load_dataset(
            str(world.store.root), name, cache_dir=str(tmp_path / "cache")
        )
        assert list(loaded) == ["train"]
        read = loaded["train"].with_format("arrow")[:]
        assert read.column_names == table(rows).column_names
        for column in read.column_names:
            assert read[column].to_pylist() == table(rows)[column].to_pylist(), column


def test_datasets_loads_a_mixture_in_training_order(
    datasets: Any, world: Any, tmp_path: Path
) -> None:
    with whole_folder(tmp_path / "out") as folder:
        export_packed(Ordered.of(world.store, world.mixture), world.codec, folder, ())
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    there = {each.key: each for each in (world.flat, world.structured)}
    plan = pq.read_table(world.mixture.path / PLAN_NAME).to_pylist()
    expected = [
        pq.read_table(there[each["rows_key"]].shards()[each["shard"]]).slice(each["row"], 1)
        for each in plan
    ]
    assert len(loaded["train"]) == 48
    card = (tmp_path / "out" / "README.md").read_text()
    assert "48 rows, all of the 12 steps" in card
    for found, rows in zip(loaded["train"], expected, strict=True):
        (row,) = rows.to_pylist()
        assert {name: found[name] for name in row} == row
        codes = row.get("structure_ids", np.zeros(128, dtype=int).tolist())
        assert found["structure_ids"] == codes


@pytest.mark.parametrize("is_mixed", [True, False])
def test_the_card_of_an_export_counts_the_documents_of_its_rows_alone(
    world: Any, tmp_path: Path, *, is_mixed: bool
) -> None:
    sources = {rows.key: rows for rows in (world.flat, world.structured)}
    listed: list[Any] = table(world.flat)["document_ids"].to_pylist()
    ids = {name for row in listed for name in row}
    if is_mixed:
        plan = pq.read_table(world.mixture.path / PLAN_NAME).to_pylist()
        listed = [
            pq.read_table(sources[row["rows_key"]].shards()[row["shard"]])["document_ids"][
                row["row"]
            ].as_py()
            for row in plan
        ]
    inside = {name for row in listed for name in row}
    made_of = [
        documents_of(world.store, ["MIT"] * (len(ids) + 1), "one", [*sorted(ids), "of no row"]),
        documents_of(world.store, ["Zlib"], "elsewhere", ["of no row either"]),
    ]
    artefact = world.mixture if is_mixed else world.flat
    with whole_folder(tmp_path / "out") as folder:
        export_packed(Ordered.of(world.store, artefact), world.codec, folder, made_of)
    text = (tmp_path / "out" / "README.md").read_text()
    assert f"| MIT | permissive | one | {len(inside)} |" in text
    assert (tmp_path / "out" / "NOTICE.md").is_file()
    assert "Zlib" not in text


def test_licences_are_counted_by_repository_and_what_none_says_is_said(world: Any) -> None:
    documents = [
        documents_of(world.store, ["MIT", "MIT", "MIT", None, "Zlib"], "one"),
        documents_of(world.store, ["MIT"], "two"),
    ]
    found = {(each.licence, each.repository): each.documents for each in licences(documents)}
    assert found == {
        ("MIT", "one"): 3,
        ("Zlib", "one"): 1,
        ("not said", "one"): 1,
        ("MIT", "two"): 1,
    }
    world.store.mark("build+x", [*documents])
    text = write_card(world.store).read_text()  # type: ignore[union-attr]
    assert "| MIT | permissive | one | 3 |" in text
    front = yaml.safe_load(text.split("---\n")[1])
    assert [each["config_name"] for each in front["configs"]] == ["documents-v3_simple"]


def test_data_sets_that_would_have_one_name_bear_digits(world: Any) -> None:
    labels = tuple(world.flat.manifest.labels.items())
    other = Recipe(stage="rows", labels=labels, revision=1, config={"family": "other"})

    def fill(drafts: Any) -> None:
        pq.write_table(table(world.flat), shard_path(drafts[0].path))

    (second,) = world.store.produce([other], fill)
    named = configs(world.store.root, [world.flat, second])
    assert len({each.name for each in named}) == 2
    assert all(each.name.startswith("rows-v3_simple-causal-128-") for each in named)


def test_a_readme_of_ones_own_is_left_alone(world: Any) -> None:
    file = world.store.root / "README.md"
    file.write_text("# Mine\n")
    assert write_card(world.store) is None
    assert file.read_text() == "# Mine\n"
    file.unlink()
    assert MADE_HERE in write_card(world.store).read_text()  # type: ignore[union-attr]


def test_a_damaged_data_set_is_told_and_the_rest_listed(world: Any) -> None:
    world.store.mark("build+x", [world.flat, world.structured])
    (world.flat.path / "data/part-00000.parquet").unlink()
    text = write_card(world.store).read_text()  # type: ignore[union-attr]
    assert f"`{world.flat.path.relative_to(world.store.root)}`" in text
    assert "rows-v6_enriched-causal-128" in text
    assert "rows-v3_simple-causal-128" not in text


def test_an_empty_workspace_has_a_card_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "ws")
    store.open()
    text = write_card(store).read_text()  # type: ignore[union-attr]
    assert text.count("None yet.") == 2


def test_names_of_others_are_no_markup(world: Any) -> None:
    documents = [documents_of(world.store, ["<b>|\n`x`"], "one")]
    text = card(title="a|b", words="", configs=[], licences=licences(documents))
    assert "<b>" not in text.replace("\\<b\\>", "")
    (line,) = [line for line in text.splitlines() if "| one |" in line]
    assert line == r"| \<b\>\| \`x\` | unknown | one | 1 |"


def test_a_card_names_copyleft(world: Any) -> None:
    documents = [documents_of(world.store, ["MIT", "GPL-3.0-only AND MIT", None], "three")]
    kinds = {each.licence: each.kind for each in licences(documents)}
    assert kinds == {
        "MIT": "permissive",
        "GPL-3.0-only AND MIT": "copyleft",
        "not said": "unknown",
    }
