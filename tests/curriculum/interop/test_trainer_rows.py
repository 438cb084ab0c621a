"""Exports for Hugging Face's trainers score what our rows score, and keep documents apart."""

import itertools
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.interop.dataset_export import export_packed, export_unpacked
from curriculum.interop.row_order import Ordered
from curriculum.interop.trainer_rows import IGNORED
from curriculum.outputs import whole_folder

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
Row = dict[str, Any]


def exported(world: Any, to: Path, *, unpacked: bool = False) -> pa.Table:
    export = export_unpacked if unpacked else export_packed
    with whole_folder(to) as folder:
        export(Ordered.of(world.store, world.mixture), world.codec, folder, ())
    return pq.read_table(sorted((to / "data").iterdir()))


def expected_labels(row: Row) -> list[int]:
    labels = [IGNORED] * len(row["input_ids"])
    for at, counts in enumerate(row["loss_mask"]):
        if counts:
            labels[at + 1] = row["input_ids"][at + 1]
    return labels


def segment_edges(row: Row) -> list[int]:
    """Edges of the documents of a row, and of its padding."""
    return sorted({*row["doc_starts"], row["valid_token_count"], len(row["input_ids"])})


def test_an_exported_mixture_has_the_columns_that_trainers_read(world: Any, tmp_path: Path) -> None:
    rows = exported(world, tmp_path / "out").to_pylist()
    assert len(rows) == 48
    assert any(row["valid_token_count"] < len(row["input_ids"]) for row in rows)
    for row in rows:
        lengths = np.diff(segment_edges(row)).tolist()
        assert row["labels"] == expected_labels(row)
        assert sum(label != IGNORED for label in row["labels"]) == row["loss_token_count"]
        assert row["seq_lengths"] == lengths
        assert row["position_ids"] == [at for length in lengths for at in range(length)]


def test_rows_of_one_data_set_have_those_columns_too(world: Any, tmp_path: Path) -> None:
    with whole_folder(tmp_path / "out") as folder:
        export_packed(Ordered.of(world.store, world.flat), world.codec, folder, ())
    stored = pq.read_table(world.flat.shards(), partitioning=None)
    found = pq.read_table(sorted((tmp_path / "out" / "data").iterdir()))
    assert found.select(stored.column_names).to_pylist() == stored.to_pylist()
    assert [row["labels"] for row in found.to_pylist()] == [
        expected_labels(row) for row in stored.to_pylist()
    ]


def test_unpacked_documents_are_those_of_the_rows_in_their_order(
    world: Any, tmp_path: Path
) -> None:
    rows = exported(world, tmp_path / "rows").to_pylist()
    found = exported(world, tmp_path / "documents", unpacked=True).to_pylist()
    wanted = [
        (name, row["input_ids"][start:end], row["labels"][start:end], row["domain"])
        for row in rows
        for name, (start, end) in zip(
            row["document_ids"],
            itertools.pairwise([*row["doc_starts"], row["valid_token_count"]]),
            strict=True,
        )
    ]
    columns = ("document_id", "input_ids", "labels", "domain")
    assert [tuple(example[name] for name in columns) for example in found] == [
        document for document in wanted if set(document[2]) != {IGNORED}
    ]


def test_the_tokenizer_has_its_control_tokens(world: Any, tmp_path: Path) -> None:
    transformers = imported("transformers")
    exported(world, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    found = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert found == (world.codec.bos_id, world.codec.eos_id, world.codec.pad_id)


def imported(name: str) -> ModuleType:
    """A library that takes seconds to import, and warns meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library: ModuleType = pytest.importorskip(name)
    return library


@pytest.fixture
def in_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`datasets` keeps what it reads below the test's folder."""
    config = imported("datasets").config
    monkeypatch.setattr(config, "HF_DATASETS_CACHE", tmp_path / "cache")


def run_card(folder: Path, monkeypatch: pytest.MonkeyPatch, chosen: str) -> dict[str, Any]:
    """Run the card's first block and the one that has a word in it; the names that they define."""
    monkeypatch.chdir(folder)
    # transformers takes any process that has imported marimo for a notebook, and then wants IPython.
    monkeypatch.delitem(sys.modules, "marimo", raising=False)
    imported("transformers").utils.import_utils.is_in_notebook.cache_clear()
    blocks = BLOCK.findall((folder / "README.md").read_text().partition("## Training")[2])
    names: dict[str, Any] = {}
    for code in (blocks[0], *(block for block in blocks[1:] if chosen in block)):
        exec(compile(code, "README.md", "exec"), names)
    return names


def with_strong_attention(model: Any) -> Any:
    """The model with weights so large that a document that another one reads changes its loss."""
    with imported("torch").no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    return model.eval()


def losses_alone(model: Any, row: Row) -> list[float]:
    """Losses of a row's scored targets, each document through the model on its own."""
    torch = imported("torch")
    found: list[float] = []
    edges = [*row["doc_starts"], row["valid_token_count"]]
    for start, end in itertools.pairwise(edges):
        ids = torch.tensor([row["input_ids"][start:end]])
        logits = model(input_ids=ids, use_cache=False).logits[0]
        at = np.flatnonzero(row["loss_mask"][start:end])
        losses = torch.nn.functional.cross_entropy(logits[at], ids[0, at + 1], reduction="none")
        found += losses.tolist()
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("in_cache")
@pytest.mark.parametrize("chosen", ["data_collator=default", "SFTTrainer", "DataLoader"])
def test_the_cards_lines_for_rows_score_our_targets_and_have_our_loss(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    torch, _ = imported("torch"), imported("trl" if chosen == "SFTTrainer" else "transformers")
    rows = exported(world, tmp_path / "out").to_pylist()
    names = run_card(tmp_path / "out", monkeypatch, chosen)
    model = with_strong_attention(names["model"])
    if "trainer" in names:
        assert names["trainer"].state.global_step == 12
        batches = [
            (batch["labels"], names["trainer"].compute_loss(model, dict(batch)))
            for batch in names["trainer"].get_train_dataloader()
        ]
    else:
        batches = [
            (batch["labels"], model(**batch, use_cache=False).loss) for batch in names["batches"]
        ]
    per_batch = len(rows) // len(batches)
    for number, (labels, loss) in enumerate(batches):
        own = rows[number * per_batch : (number + 1) * per_batch]
        assert labels.flatten().tolist() == [label for row in own for label in expected_labels(row)]
        with torch.no_grad():
            losses = [loss for row in own for loss in losses_alone(model, row)]
        assert float(loss) == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("in_cache")
@pytest.mark.parametrize("chosen", ["DataCollatorWithFlattening", "SFTTrainer"])
def test_the_cards_lines_for_documents_score_our_targets_and_have_our_loss(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    torch, _ = imported("torch"), imported("trl" if chosen == "SFTTrainer" else "transformers")
    rows = exported(world, tmp_path / "rows").to_pylist()
    exported(world, tmp_path / "out", unpacked=True)
    names = run_card(tmp_path / "out", monkeypatch, chosen)
    model = with_strong_attention(names["model"])
    scored, total = 0, 0.0
    for batch in names["trainer"].get_train_dataloader():
        count = int((batch["labels"] != IGNORED).sum())
        total += count * float(names["trainer"].compute_loss(model, dict(batch)))
        scored += count
    with torch.no_grad():
        losses = [loss for row in rows for loss in losses_alone(model, row)]
    assert scored == len(losses)
    assert total / scored == pytest.approx(np.mean(losses), rel=1e-5)
