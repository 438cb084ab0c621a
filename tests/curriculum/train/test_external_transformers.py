"""Hugging Face's models and Trainer over our rows: labels, documents, and a curriculum of two phases."""

import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from curriculum.train.dataloader import MicroBatches, PlannedRows, collate, for_transformers
from curriculum.train.metrics import read_metrics
from curriculum.train.run import train
from schemas.job import CheckpointRef

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers = pytest.importorskip(
        "transformers", reason="Hugging Face's transformers isn't installed"
    )

COMMAND = shlex.join(
    [sys.executable, str(Path(__file__).parent / "foreign_transformers.py"), "{job}"]
)


@pytest.fixture
def llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return transformers.LlamaForCausalLM(config).eval()


def rows_of_a_step(world: Any) -> list[Any]:
    job = world.job()
    rows = PlannedRows.from_job(job, world.store.root)
    positions = next(iter(MicroBatches.from_job(job, rows)))
    assert len(positions) == 2
    return [rows[position] for position in positions]


def test_its_loss_is_the_mean_over_our_scored_targets(world: Any, llama: Any) -> None:
    rows = rows_of_a_step(world)
    given, batch = for_transformers(rows), collate(rows)
    with torch.no_grad():
        found = llama(**given)
    scored = batch.loss_mask.bool()
    ours = F.cross_entropy(found.logits[scored], batch.target_ids[scored].long())
    assert scored.sum() > 300
    assert torch.allclose(found.loss, ours, rtol=1e-6)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_positions_that_restart_keep_documents_apart_in_it(
    world: Any, llama: Any, attention: str
) -> None:
    llama.set_attn_implementation(attention)
    row = rows_of_a_step(world)[:1]
    given = for_transformers(row)
    documents = collate(row).boundaries.doc_ids[0]
    assert documents.max() >= 3
    assert isinstance(given["input_ids"], torch.Tensor)
    changed = given["input_ids"].clone()
    changed[0, documents == 1] = 63 - changed[0, documents == 1]
    with torch.no_grad():
        before = llama(**given).logits[0]
        after = llama(**(given | {"input_ids": changed})).logits[0]
    assert not torch.equal(before[documents == 1], after[documents == 1])
    assert torch.equal(before[documents != 1], after[documents != 1])


@pytest.mark.slow
def test_its_trainer_takes_a_model_through_two_phases(world: Any) -> None:
    pytest.importorskip("accelerate", reason="Hugging Face's Trainer needs accelerate")
    job = {"trainer": COMMAND, "checkpoint_every": 4}
    first = train(world.store, world.job(steps=8, **job))
    assert first.artefact is not None
    assert (first.report.stopped, first.report.steps) == ("budget", 8)
    losses = read_metrics(first.directory / "metrics")["loss"].to_numpy()
    assert losses[-1] < losses[0]
    start = CheckpointRef(
        run_key=first.artefact.key,
        run_content=first.artefact.content,
        path=first.report.checkpoint,
    )
    second = train(world.store, world.job(steps=4, phase="graph", start_from=start, **job))
    assert second.report.steps == 4
    assert second.artefact is not None
    after = read_metrics(second.directory / "metrics")["loss"].to_numpy()
    assert after[0] < losses[0]
    names = {each.name for each in second.artefact.manifest.files if each.in_content}
    assert "checkpoints/step=4/model.safetensors" in names
