"""A small workspace made by hand: a toy language whose documents repeat, packed, planned, tokenised."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from curriculum.packing.boundaries import RowLayout
from curriculum.packing.held_out_order import write_order
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from curriculum.train import run
from curriculum.train.distributed import ProcessRank
from curriculum.train.job_process import run_job
from curriculum.train.launch.launcher import Launch
from curriculum.train.run_directory import LOG, run_recipe
from schemas.document import required
from schemas.job import (
    Evaluation,
    EvaluationStratum,
    Job,
    ModelSpec,
    OptimizerSpec,
    Report,
    RowsSource,
    TokenizerRef,
)
from schemas.mixture import PLAN_SCHEMA
from schemas.packed_row import PACKED_ROW_SCHEMA, RowFormat
from schemas.reports import DomainRows, RowsReport
from schemas.structure import STRUCTURE_COLUMNS, STRUCTURE_TOKENS
from tests.factories import equal_count, shard_path

VOCAB = 64
PAD, BOS, EOS = 0, 1, 2
HELD = Path(__file__).parent / "held"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the jobs of `train` in this process, which has imported torch; their lines go to their logs."""

    def launched(_: Store, job: Path, __: Launch) -> Report:
        with (job.parent / LOG).open("a") as log, redirect_stdout(log):
            return run_job(job, lambda: False, ProcessRank())

    monkeypatch.setattr(run, "launch_job", launched)
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets a process that is started from now on wait where it says these words, until it is signalled."""

    def hold(words: str) -> None:
        monkeypatch.setenv("PYTHONPATH", str(HELD), prepend=os.pathsep)
        monkeypatch.setenv("HOLD_AT", words)

    return hold


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets those that are started from now on run freely again."""
    return lambda: monkeypatch.delenv("HOLD_AT")


@dataclass(frozen=True, kw_only=True)
class World:
    """A workspace with its artefacts, and the job over them."""

    store: Store
    rows: tuple[Artefact, ...]
    val: Artefact
    tokenizer: Artefact
    plan: Artefact

    def job(self, **changes: object) -> Job:
        """A job of 12 steps of 1024 positions; its key follows from the changes."""
        root = self.store.root
        val = source(self.val, root)
        strata = tuple(
            EvaluationStratum(
                family="v2_simple",
                objective="causal",
                domain=domain,
                weight=weight,
                rows=val,
                measured=measured,
                **equal_count(16, 4).model_dump(),
            )
            for domain, weight, measured in (
                ("one", 0.75, tuple(range(8))),
                ("two", 0.25, tuple(range(8, 16))),
            )
        )
        values: dict[str, object] = {
            "specialist": "tester",
            "branch": None,
            "phase": "syntax",
            "run_key": "",
            "attempt": 1,
            "seed": 3,
            "model": ModelSpec(
                name="small",
                vocab_size=VOCAB,
                blocks="AFAF",
                width=64,
                heads=4,
                kv_heads=2,
                mlp_width=128,
            ),
            "backend": "documents",
            "device": "cpu",
            "tokenizer": TokenizerRef(
                key=self.tokenizer.key,
                content=self.tokenizer.content,
                path=self.tokenizer.path.relative_to(root).as_posix(),
                vocab_size=VOCAB,
            ),
            "plan": (self.plan.path / "plan.parquet").relative_to(root).as_posix(),
            "plan_key": self.plan.key,
            "plan_content": self.plan.content,
            "rows": tuple(source(each, root) for each in self.rows),
            "rope_base": 10_000.0,
            "micro_positions": 512,
            "tokens_per_step": 1024,
            "steps": 12,
            "optimizer": OptimizerSpec(learning_rate=3e-3, warmup_steps=2),
            "start_from": None,
            "evaluations": tuple(
                Evaluation(
                    set=name,
                    phase=phase,
                    strata=strata,
                    **equal_count(32, 8).model_dump(),
                )
                for name, phase in (("phase", "syntax"), ("anchor", "anchor"))
            ),
            "evaluate_every": 4,
            "checkpoint_every": 3,
            "advance_when": None,
            "require": (),
            "overrides": {},
        }
        job = Job.model_validate(values | changes)
        return job.model_copy(update={"run_key": run_recipe(job).key})

    def open_run(self, job: Job) -> Path:
        """The directory of a job's first attempt, in which the job is frozen."""
        directory = self.store.root / run_recipe(job).directory / "attempt=1"
        run.freeze(directory, job)
        return directory


def source(rows: Artefact, root: Path) -> RowsSource:
    """A rows artefact as a job names it."""
    return RowsSource(
        key=rows.key,
        content=rows.content,
        path=rows.path.relative_to(root).as_posix(),
        row_length=int(rows.manifest.labels["row_length"]),
    )


def row_values(key: str, index: int, length: int, domain: str) -> dict[str, Any]:
    """One packed row: documents that count upwards, of seeded lengths, and some padding."""
    generator = np.random.default_rng([length, index])
    lengths: list[int] = []
    while sum(lengths) < length - 60:
        lengths.append(int(generator.integers(20, 56)))
    valid = sum(lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    ids = np.full(length, PAD, dtype=np.int32)
    mask = np.zeros(length, dtype=np.uint8)
    for start, size in zip(starts, lengths, strict=True):
        first = int(generator.integers(3, VOCAB))
        ids[start : start + size] = 3 + (first + np.arange(size)) % (VOCAB - 3)
        ids[start], ids[start + size - 1] = BOS, EOS
        mask[start : start + size - 1] = 1
    return {
        "pack_id": f"{key[:12]}-{index:010d}",
        "input_ids": ids,
        "target_ids": np.where(mask, np.append(ids[1:], PAD), PAD).astype(np.int32),
        "loss_mask": mask,
        "doc_ids": RowLayout.from_starts(
            starts, np.array([len(starts)]), np.array([valid]), length
        ).doc_ids,
        "doc_starts": starts.astype(np.int32),
        "valid_token_count": valid,
        "num_docs": len(lengths),
        "loss_token_count": int(mask.sum()),
        "attention_pairs": sum(size * (size + 1) // 2 for size in lengths),
        "context_histogram": [int(mask.sum()), 0, 0, 0],
        "family": "v2_simple",
        "objective": "causal",
        "variant": 0,
        "domain": domain,
        "split": "train",
        "document_ids": [f"{index:016x}{number:016x}" for number in range(len(lengths))],
        "pieces": [],
    }


def lineage_of(document: str) -> str:
    """The documents of a row are versions of one file."""
    return document[:16]


def structure_values(values: dict[str, Any]) -> dict[str, object]:
    """Structure columns of a row: two chunks a document, of which the second calls the first."""
    length = len(values["input_ids"])
    codes = np.zeros((length, len(STRUCTURE_TOKENS)), dtype=np.uint8)
    chunks: list[dict[str, int]] = []
    ends = np.append(values["doc_starts"][1:], values["valid_token_count"])
    for document, (start, end) in enumerate(zip(values["doc_starts"], ends, strict=True)):
        middle = (start + end) // 2
        for level, (first, after) in enumerate([(start + 1, middle), (middle, end - 1)], start=1):
            place = {"start": first, "end": after, "kind": 2 + 2 * level, "dep_level": level}
            chunks.append({name: int(value) for name, value in place.items()} | {"doc": document})
            codes[first:after] = [2 + 2 * level, level, 1 + document % 64, level, 200]
    calls = [{"source": at, "target": at - 1, "label": 1} for at in range(1, len(chunks), 2)]
    columns = dict(zip(STRUCTURE_TOKENS, codes.T, strict=True))
    return {**columns, "chunk_boundaries": chunks, "call_edges": calls, "type_edges": []}


def domain_rows(values: Sequence[dict[str, Any]]) -> DomainRows:
    """Return a report's figures for the rows of one domain."""
    return DomainRows(
        rows=len(values),
        documents=sum(row["num_docs"] for row in values),
        tokens=sum(row["valid_token_count"] for row in values),
        scored_tokens=sum(row["loss_token_count"] for row in values),
    )


def make_rows(
    store: Store, *, length: int, count: int, split: str = "train", enriched: bool = False
) -> Artefact:
    """Rows of two domains in two shards of small row groups, without stored targets.

    Their report says the domains, as the weights of a set of validation rows are read from there.
    """
    family = "v6_enriched" if enriched else "v2_simple"

    def make(drafts: Sequence[StagingDirectory]) -> None:
        layout = RowFormat(row_length=length, vocab_size=VOCAB, pad_id=PAD, bos_id=BOS, eos_id=EOS)
        schema = PACKED_ROW_SCHEMA.with_metadata(layout.metadata())
        schema = schema.remove(schema.get_field_index("target_ids"))
        for field in STRUCTURE_COLUMNS if enriched else ():
            schema = schema.append(field)
        half = (count + 1) // 2
        for draft in drafts:
            domains: dict[str, DomainRows] = {}
            documents: list[str] = []
            for shard, domain in enumerate(("one", "two")):
                numbers = range(count)[shard * half : (shard + 1) * half]
                values = [row_values(draft.recipe.key, each, length, domain) for each in numbers]
                domains[domain] = domain_rows(values)
                documents += [name for row in values for name in row["document_ids"]]
                for each in values:
                    del each["target_ids"]
                    each.update(structure_values(each) if enriched else {})
                table = pa.Table.from_pylist(values, schema)
                pq.write_table(table, shard_path(draft.path, shard), row_group_size=3)
            if split != "train":
                write_order(draft.path, length, {name: lineage_of(name) for name in documents})
            draft.record(RowsReport(domains=domains))

    recipe = Recipe(
        stage="rows",
        labels=(
            ("family", family),
            ("objective", "causal"),
            ("row_length", str(length)),
            ("split", split),
        ),
        revision=1,
        config={"length": length, "count": count, "split": split, "family": family},
    )
    (made,) = store.produce([recipe], make)
    return made


def make_tokenizer(store: Store) -> Artefact:
    """token_bytes.parquet alone: two bytes an id, none for the first three."""

    def make(drafts: Sequence[StagingDirectory]) -> None:
        schema = pa.schema([required("id", pa.int32()), required("num_bytes", pa.int32())])
        sizes = [0, 0, 0, *[2] * (VOCAB - 3)]
        columns = {"id": list(range(VOCAB)), "num_bytes": sizes}
        for draft in drafts:
            pq.write_table(pa.table(columns, schema), draft.path / "token_bytes.parquet")

    (made,) = store.produce([Recipe(stage="tokenizers", labels=(), revision=1)], make)
    return made


def make_plan(store: Store, rows: Sequence[Artefact], *, slots: int, slot: int = 256) -> Artefact:
    """Slots of `slot` positions that take the artefacts in turn, and their rows round and round."""

    def make(drafts: Sequence[StagingDirectory]) -> None:
        planned: list[dict[str, object]] = []
        used = dict.fromkeys(range(len(rows)), 0)
        for number in range(slots):
            turn = number % len(rows)
            length = int(rows[turn].manifest.labels["row_length"])
            for _ in range(slot // length):
                planned.append(planned_row(rows[turn], used[turn], slot=number, at=len(planned)))
                used[turn] += 1
        for draft in drafts:
            table = pa.Table.from_pylist(planned, PLAN_SCHEMA)
            pq.write_table(table, draft.path / "plan.parquet", row_group_size=7)

    recipe = Recipe(
        stage="mixtures",
        labels=(("specialist", "tester"), ("phase", "syntax")),
        revision=1,
        config={"slots": slots, "slot": slot},
        inputs=tuple(each.as_input("rows") for each in rows),
    )
    (made,) = store.produce([recipe], make)
    return made


def planned_row(rows: Artefact, count: int, *, slot: int, at: int) -> dict[str, object]:
    """The plan's line for the count-th row drawn from an artefact, round and round."""
    sizes = [pq.read_metadata(file).num_rows for file in rows.shards()]
    index = count % sum(sizes)
    shard = int(index >= sizes[0])
    length = int(rows.manifest.labels["row_length"])
    return {
        "position": at,
        "slot": slot,
        "serving": 0,
        "stratum": 0,
        "row_length": length,
        "rows_key": rows.key,
        "shard": shard,
        "row": index - shard * sizes[0],
        "pack_id": f"{rows.key[:12]}-{index:010d}",
        "repetition": count // sum(sizes),
        "valid_tokens": length - 30,
        "attention_pairs": length**2 // 4 + at % 7,
    }


@pytest.fixture(scope="session")
def make_world() -> Callable[..., World]:
    """A maker of workspaces; `lengths` are the plan's row lengths, with structure those in `enriched`.

    Where any have it, validation rows do.
    """

    def make(
        root: Path,
        *,
        lengths: Sequence[int] = (256, 128),
        slots: int = 60,
        enriched: Sequence[int] = (),
    ) -> World:
        store = Store(root)
        rows = tuple(
            make_rows(store, length=length, count=24, enriched=length in enriched)
            for length in lengths
        )
        return World(
            store=store,
            rows=rows,
            val=make_rows(store, length=128, count=16, split="val", enriched=bool(enriched)),
            tokenizer=make_tokenizer(store),
            plan=make_plan(store, rows, slots=slots, slot=max(lengths)),
        )

    return make


@pytest.fixture
def world(tmp_path: Path, make_world: Callable[..., World]) -> World:
    return make_world(tmp_path / "workspace")
