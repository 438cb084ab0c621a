"""Throughput of exports to other formats and of imports, in million tokens per CPU second.

    python benchmarks/interop.py [--tokens 8_000_000] [--rounds 5]

The script exports rows in the order of their files, and a mixture in training order, in which every row
occurs twice. It also imports the exported rows. For comparison, numpy converts and writes the same ids and
masks: this is the cost of the disk alone. Figures are medians of the rounds.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.interop import tokens_out
from curriculum.interop.dataset_export import export_packed
from curriculum.interop.foreign_parquet import parquet_rows
from curriculum.interop.publish import Imported, ImportKey, RowFacts, recipe, write
from curriculum.interop.row_order import Ordered
from curriculum.interop.tokens_in import token_rows
from curriculum.mixing.mix import PLAN_NAME
from curriculum.outputs import whole_folder
from curriculum.packing import best_fit
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import Encodings, Spool, SpooledDocuments
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.tokens.codec import BYTE_OF, Tokenizer
from schemas.mixture import PLAN_SCHEMA, MixtureReport, TokenRepetition
from schemas.packed_row import RowFormat

VOCAB = 32_000


def tokenizer() -> Tokenizer:
    """Return a tokenizer with VOCAB ids; most of them occur in no text."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    controls = ["<pad>", "<s>", "</s>"]
    unused = (f"a{number}" for number in range(VOCAB - len(controls) - len(BYTE_OF)))
    vocab = {piece: number for number, piece in enumerate((*controls, *BYTE_OF, *unused))}
    content = {
        "added_tokens": [
            {"id": vocab[text], "content": text, "special": True} for text in controls
        ],
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }
    return Tokenizer.parse(json.dumps(content))


TOKENIZER = tokenizer()
NOTHING = RowFacts(family=None, objective=None, variant=None, domain=None, split=None)


def encodings(tokens: int, row_length: int) -> Encodings:
    """Return documents with log-normal lengths (mean 300), Zipf-distributed ids and three pieces."""
    random = np.random.default_rng(20261121)
    lengths = np.clip(random.lognormal(5.1, 1.1, tokens // 250), 8, row_length).astype(np.int64)
    lengths = lengths[np.cumsum(lengths) <= tokens]
    ends = np.cumsum(lengths)
    ids = random.zipf(1.2, int(ends[-1])).clip(3, VOCAB - 1).astype(np.int32)
    mask = np.ones(len(ids), dtype=np.uint8)
    ids[ends - lengths], ids[ends - 1], mask[ends - 1] = 1, 2, 0
    one, zero = np.ones_like(lengths), np.zeros_like(lengths)
    first = np.stack([one, zero, one, zero, zero], axis=1)
    text = np.stack([zero, one, lengths - 1, zero, 4 * lengths], axis=1)
    last = np.stack([one, lengths - 1, lengths, 4 * lengths, 4 * lengths], axis=1)
    return Encodings(
        document_ids=random.integers(0, 256, (len(lengths), 16), dtype=np.uint8),
        lengths=lengths,
        ids=ids,
        loss_mask=mask,
        piece_counts=np.full(len(lengths), 3, dtype=np.int64),
        pieces=np.stack([first, text, last], axis=1).reshape(-1, 5).astype(np.int32),
    )


def rows_artefact(store: Store, tokens: int, row_length: int) -> Artefact:
    labels = {
        "family": "v2_simple",
        "objective": "causal",
        "variant": "0",
        "row_length": str(row_length),
        "split": "train",
    }
    recipe = Recipe(stage="rows", labels=tuple(labels.items()), revision=1, config={"n": tokens})

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        spool = draft.path / "spool"
        spool.mkdir()
        with Spool(spool) as spooling:
            spooling.extend(encodings(tokens, row_length))
        spooled = SpooledDocuments(spool)
        ties = best_fit.tie_breakers(spooled.document_ids, seed=17)
        plan = best_fit.plan(spooled.lengths, row_length, ties, seed=17)
        row_format = RowFormat(
            row_length=row_length, vocab_size=VOCAB, pad_id=0, bos_id=1, eos_id=2
        )
        about = RowLabels(
            rows_key=recipe.key, family="v2_simple", objective="causal", variant=0, split="train"
        )
        with RowWriter(draft.path, row_format=row_format, labels=about) as writer:
            writer.write(spooled, plan.order, plan.row_starts, domain="all")
        shutil.rmtree(spool)

    return store.produce([recipe], fill)[0]


def mixture(store: Store, rows: Artefact, row_length: int) -> Artefact:
    """Return a mixture that contains every row twice, in two different orders."""
    numbers = np.arange(pq.read_metadata(rows.shards()[0]).num_rows)
    random = np.random.default_rng(5)
    order = np.concatenate([random.permutation(numbers) for _ in range(2)])
    count = len(order)
    recipe = Recipe(
        stage="mixtures",
        labels=(("specialist", "bench"), ("phase", "one")),
        revision=1,
        inputs=(rows.as_input("rows 0"),),
    )

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        zeros = np.zeros(count, dtype=np.int32)
        values: dict[str, Any] = {
            "position": np.arange(count),
            "slot": np.arange(count),
            "row_length": zeros + row_length,
            "rows_key": [rows.key] * count,
            "row": order.astype(np.int32),
            "pack_id": [""] * count,
        }
        columns = {name: values.get(name, zeros) for name in PLAN_SCHEMA.names}
        pq.write_table(pa.table(columns, schema=PLAN_SCHEMA), drafts[0].path / PLAN_NAME)
        report = MixtureReport(
            slot_length=row_length,
            slots=count,
            rows=count,
            tokens=count * row_length,
            budget=count * row_length,
            tokens_per_step=row_length,
            steps=count,
            strata=(),
            repetition=TokenRepetition(scored=1, distinct=1, new=1, limit=4),
        )
        drafts[0].report.update(report.model_dump(mode="json"))

    return store.produce([recipe], fill)[0]


def rate(tokens: int, rounds: int, action: Callable[[Path], object]) -> float:
    """Return the median rate of `action` in million tokens per CPU second."""
    seconds = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.process_time()
            action(Path(folder))
            seconds.append(time.process_time() - begin)
    return tokens / statistics.median(seconds) / 1e6


def export(store: Store, artefact: Artefact, form: str) -> Callable[[Path], object]:
    def write(scratch: Path) -> None:
        with whole_folder(scratch / "out") as folder:
            ordered = Ordered.of(store, artefact)
            if form == "huggingface":
                export_packed(ordered, TOKENIZER, folder, ())
            else:
                tokens_out.export_rows(ordered, TOKENIZER, folder, cast(Any, form))

    return write


def import_rows(source: Path, form: str, tokenizer: Artefact) -> Callable[[Path], object]:
    def read(scratch: Path) -> None:
        store = Store(scratch / "ws")
        store.open()
        imported = (
            parquet_rows(source, NOTHING, TOKENIZER)
            if form == "parquet"
            else token_rows(source, cast(Any, form), NOTHING, TOKENIZER, None)
        )
        made = recipe(ImportKey.of(imported), tokenizer)
        store.produce([made], lambda drafts: write_rows(imported, drafts[0]))

    return read


def write_rows(imported: Imported, draft: StagingDirectory) -> None:
    draft.report.update(write(imported, draft.path, draft.recipe.key))


def numpy_copy(tokens: int) -> Callable[[Path], object]:
    """Return a function that converts and writes as many ids and masks with numpy."""
    ids, mask = np.ones(tokens, dtype=np.int32), np.ones(tokens, dtype=np.uint8)

    def copy(scratch: Path) -> None:
        ids.astype(np.uint16).tofile(scratch / "ids.bin")
        mask.tofile(scratch / "mask.bin")

    return copy


def measure(row_length: int, tokens: int, rounds: int, home: Path) -> None:
    store = Store(home)
    store.open()
    rows = rows_artefact(store, tokens, row_length)
    planned = mixture(store, rows, row_length)
    count = sum(
        int(np.sum(pq.read_table(file, columns=["valid_token_count"])[0].to_numpy()))
        for file in rows.shards()
    )
    print(f"T = {row_length}, million tokens per CPU second")
    for form in ("megatron", "flat", "huggingface"):
        print(f"  rows to {form:20} {rate(count, rounds, export(store, rows, form)):8.1f}")
        print(
            f"  mixture to {form:17} {rate(2 * count, rounds, export(store, planned, form)):8.1f}"
        )
    print(f"  numpy, the same ids and masks {rate(count, rounds, numpy_copy(count)):7.1f}")
    for form in ("megatron", "flat"):
        exported = home / "exports" / form
        export(store, rows, form)(exported)
        print(
            f"  {form} to rows {rate(count, rounds, import_rows(exported / 'out', form, rows)):12.1f}"
        )
    print(f"  Parquet to rows {rate(count, rounds, import_rows(rows.path, 'parquet', rows)):13.1f}")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokens", type=int, default=8_000_000, help="tokens of the rows")
    arguments.add_argument("--rounds", type=int, default=5, help="number of rounds")
    options = arguments.parse_args()
    for row_length in (512, 4096, 65536):
        with tempfile.TemporaryDirectory() as folder:
            measure(row_length, options.tokens, options.rounds, Path(folder))


if __name__ == "__main__":
    main()
