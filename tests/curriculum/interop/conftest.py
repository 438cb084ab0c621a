"""A workspace with rows of a small tokenizer, flat and with structure, and a mixture of them."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.interop import tokens_out
from curriculum.interop.publish import RowFacts
from curriculum.interop.row_order import Ordered
from curriculum.interop.tokens_in import token_rows
from curriculum.mixing.mix import PLAN_NAME
from curriculum.outputs import whole_folder
from curriculum.packing import best_fit
from curriculum.packing.row_writer import RowLabels, RowWriter
from curriculum.packing.spool import Spool, SpooledDocuments
from curriculum.stages.tokens import given_tokenizer, load_tokenizer
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.tokens.codec import Tokenizer
from curriculum.tokens.encoding import EncodedStructure, Encoding
from curriculum.tokens.train import train_tokenizer
from schemas.mixture import PLAN_SCHEMA, MixtureReport
from schemas.packed_row import RowFormat
from tests.curriculum.interop.in_process import publish, publish_foreign
from tests.factories import READ_ONCE

ROW = 128
NOTHING = RowFacts(family=None, objective=None, variant=None, domain=None, split=None)


@dataclass(frozen=True, kw_only=True)
class World:
    """A workspace, and the ways into it and out of it."""

    store: Store
    tokenizer: Artefact
    codec: Tokenizer
    flat: Artefact
    structured: Artefact
    mixture: Artefact

    def export(self, artefact: Artefact, to: Path, form: Any) -> Path:
        with whole_folder(to) as folder:
            tokens_out.export_rows(Ordered.of(self.store, artefact), self.codec, folder, form)
        return to

    def take(
        self, path: Path, form: Any, facts: RowFacts = NOTHING, row_length: int | None = None
    ) -> Artefact:
        rows = token_rows(path, form, facts, self.codec, row_length)
        return publish(self.store, rows, self.tokenizer)


def encoding(codec: Tokenizer, length: int, number: int, *, structured: bool) -> Encoding:
    """[BOS] text [EOS] with some of its predictions masked."""
    random = np.random.default_rng(number)
    assert codec.bos_id is not None
    assert codec.eos_id is not None
    ids = random.integers(10, codec.vocab_size, length).astype(np.int32)
    ids[0], ids[-1] = codec.bos_id, codec.eos_id
    mask = (random.random(length) < 0.7).astype(np.uint8)
    mask[0], mask[-1] = 1, 0
    pieces = [[1, 0, 1, 0, 0], [0, 1, length - 1, 0, 3 * length], [1, length - 1, length, 0, 0]]
    flat: dict[str, Any] = {
        "document_id": f"{number:08x}" * 4,
        "ids": ids,
        "loss_mask": mask,
        "pieces": np.array(pieces, dtype=np.int32),
    }
    if not structured:
        return Encoding(**flat)
    codes = random.integers(1, 9, (length, 5)).astype(np.uint8)
    codes[[0, -1]] = 0
    codes[:, 1] = 0
    middle = length // 2
    codes[1:middle, 1] = 3
    codes[middle : length - 1, 1] = 4
    structure = EncodedStructure(
        base_document_id=f"{number:08x}" * 4,
        codes=codes,
        chunks=np.array([[1, middle, 4, 3], [middle, length - 1, 4, 4]], dtype=np.int32),
        call_edges=np.array([[0, 1, 1]], dtype=np.int32),
        type_edges=np.zeros((0, 3), dtype=np.int32),
    )
    return Encoding(**flat, structure=structure)


def rows_of(store: Store, codec: Tokenizer, tokenizer: Artefact, *, structured: bool) -> Artefact:
    """Rows of 40 documents in two domains and several shards."""
    family = "v6_enriched" if structured else "v3_simple"
    labels = {
        "family": family,
        "objective": "causal",
        "variant": "0",
        "row_length": str(ROW),
        "split": "train",
    }
    recipe = Recipe(
        stage="rows",
        labels=tuple(labels.items()),
        revision=1,
        config={"family": family},
        inputs=(tokenizer.as_input("tokenizer"),),
    )

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        (draft,) = drafts
        spool = draft.path / "spool"
        spool.mkdir()
        lengths = np.random.default_rng(7).integers(8, ROW + 1, 40)
        lengths[0] = ROW
        with Spool(spool, structured=structured) as spooling:
            for number, length in enumerate(lengths.tolist()):
                spooling.append(encoding(codec, length, number + 1, structured=structured))
        spooled = SpooledDocuments(spool)
        row_format = RowFormat(
            row_length=ROW,
            vocab_size=codec.vocab_size,
            pad_id=codec.pad_id,
            bos_id=codec.bos_id,
            eos_id=codec.eos_id,
        )
        about = RowLabels(
            rows_key=recipe.key, family=family, objective="causal", variant=0, split="train",
            structured=structured,
        )  # fmt: skip
        with RowWriter(
            draft.path, row_format=row_format, labels=about, shard_tokens=8 * ROW
        ) as writer:
            for domain, documents in (
                ("templates", np.arange(25)),
                ("testing", np.arange(25, 40)),
            ):
                ties = best_fit.tie_breakers(spooled.tie_ids[documents], seed=17)
                plan = best_fit.plan(spooled.lengths[documents], ROW, ties, seed=17).reindex(
                    documents
                )
                writer.write(spooled, plan.order, plan.row_starts, domain=domain)
        shutil.rmtree(spool)

    return store.produce([recipe], fill)[0]


def mixture_of(store: Store, rows: Sequence[Artefact]) -> Artefact:
    """Rows of both in an order of its own, some twice."""
    places = [
        (each.key, shard, row)
        for each in rows
        for shard, file in enumerate(each.shards())
        for row in range(pq.read_metadata(file).num_rows)
    ]
    chosen = np.random.default_rng(3).integers(0, len(places), 48)
    recipe = Recipe(
        stage="mixtures",
        labels=(("specialist", "tester"), ("phase", "syntax")),
        revision=1,
        inputs=tuple(each.as_input(f"rows {at}") for at, each in enumerate(rows)),
    )

    def fill(drafts: Sequence[StagingDirectory]) -> None:
        keys, shards, numbers = zip(*(places[each] for each in chosen), strict=True)
        count = len(chosen)
        values: dict[str, Any] = {
            "position": range(count),
            "slot": range(count),
            "rows_key": keys,
            "shard": shards,
            "row": numbers,
            "pack_id": [""] * count,
        }
        columns = {name: list(values.get(name, [0] * count)) for name in PLAN_SCHEMA.names}
        pq.write_table(pa.table(columns, schema=PLAN_SCHEMA), drafts[0].path / PLAN_NAME)
        report = MixtureReport(
            slot_length=ROW, slots=count, rows=count, tokens=1, budget=1,
            tokens_per_step=4 * ROW, steps=12, strata=(),
            repetition=READ_ONCE,
        )  # fmt: skip
        drafts[0].report.update(report.model_dump(mode="json"))

    return store.produce([recipe], fill)[0]


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    file.write_bytes(train_tokenizer(["int main() { return 0; }\n"] * 20, vocab_size=300))
    return file


@pytest.fixture(scope="session")
def world_home(tmp_path_factory: pytest.TempPathFactory, tokenizer_file: Path) -> Path:
    """The workspace of `world`; each test has a copy."""
    store = Store(tmp_path_factory.mktemp("interop") / "ws")
    store.open()
    tokenizer = given_tokenizer(store, tokenizer_file, "bos_eos")
    codec = load_tokenizer(tokenizer)
    flat, structured = (
        rows_of(store, codec, tokenizer, structured=structured) for structured in (False, True)
    )
    mixture_of(store, [flat, structured])
    return store.root


@pytest.fixture
def world(world_home: Path, tmp_path: Path) -> World:
    shutil.copytree(world_home, tmp_path / "ws")
    store = Store(tmp_path / "ws")
    (tokenizer,) = store.artefacts("tokenizers")
    flat, structured = store.artefacts("rows")
    (mixture,) = store.artefacts("mixtures")
    return World(
        store=store,
        tokenizer=tokenizer,
        codec=load_tokenizer(tokenizer),
        flat=flat,
        structured=structured,
        mixture=mixture,
    )


@pytest.fixture
def said() -> Callable[..., RowFacts]:
    """Return a function that makes row facts."""

    def facts(**values: Any) -> RowFacts:
        return RowFacts(
            **{
                name: values.get(name)
                for name in ("family", "objective", "variant", "domain", "split")
            }
        )

    return facts


@pytest.fixture
def read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `curriculum import` start no process; tests of that are in test_import_process.py."""
    monkeypatch.setattr("flows.cli.imports.publish_foreign", publish_foreign)
