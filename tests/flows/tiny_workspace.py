"""A workspace made by hand, small enough to count on fingers: documents, rows, plans and runs.

v2_simple   alpha  src/a.h (MIT, commit aa…)     src/b.cpp (MIT, commit bb…)
            beta   lib/c.c (no licence, cc…)     lib/[d].c (no licence, cc…)
rows one    shard 0: [a 3, c 4] general, [b 8] templates      shard 1: [b 5] templates
rows two    shard 0: [d 6] general
syntax      one 0.0 twice, one 0.1 once: a 6, c 8, b 8
file_graph  one 1.0, two 0.0: b 5, d 6
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

from curriculum.published_files import sha256_of
from curriculum.store import Artefact, Input, Recipe, StagingDirectory, Store
from curriculum.train import document_sums
from curriculum.train.document_sums import DocumentSums
from schemas.job import (
    METRICS_SCHEMA,
    CheckpointRef,
    Evaluation,
    EvaluationStratum,
    Figure,
    Job,
    ModelSpec,
    OptimizerSpec,
    Report,
    RowsSource,
    TokenCounts,
    TokenizerRef,
)
from schemas.manifest import FileRecord
from schemas.mixture import PLAN_SCHEMA, MixtureReport, StratumReport
from schemas.packed_row import PACKED_ROW_SCHEMA
from schemas.specialist import SpecialistRef, file_stem
from tests import factories
from tests.factories import equal_count, write_documents, write_windows
from tests.sealing import sealed

LENGTH = 8
"""Tokens of a row."""
FILES = {
    "a": ("alpha", "src/a.h", "a" * 40, "MIT"),
    "b": ("alpha", "src/b.cpp", "b" * 40, "MIT"),
    "c": ("beta", "lib/c.c", "c" * 40, None),
    "d": ("beta", "lib/[d].c", "c" * 40, None),
}
DOCUMENTS = {
    name: factories.document(
        f"int {name};\n",
        licence=licence,
        provenance=(
            factories.provenance(
                repository=repository,
                commit=commit,
                path=path,
                blob="0" * 40,
                end=7,
                licence=licence,
            ),
        ),
    )
    for name, (repository, path, commit, licence) in FILES.items()
}
IDS = {name: document.document_id for name, document in DOCUMENTS.items()}
Held = Sequence[tuple[str, int]]
"""Documents of a row with their tokens."""


def published(
    home: Path, stage: str, labels: dict[str, str], fill: Any, inputs: tuple[Input, ...] = (),
    report: dict[str, Any] | None = None, config: dict[str, Any] | None = None,
) -> Artefact:  # fmt: skip
    """An artefact with what `fill` writes."""

    def make(drafts: Sequence[StagingDirectory]) -> None:
        fill(drafts[0].path)
        drafts[0].report.update(report or {})

    recipe = Recipe(
        stage=stage,
        labels=tuple(labels.items()),
        revision=1,
        config=config or {"of": " ".join(labels.values())},
        inputs=inputs,
    )
    return Store(home).produce([recipe], make)[0]


def documents(home: Path, repository: str) -> Artefact:
    """The documents of a repository."""
    mine = [each for each in DOCUMENTS.values() if each.provenance[0].repository == repository]
    labels = {"family": "v2_simple", "repository": repository}
    return published(home, "documents", labels, lambda folder: write_documents(mine, folder))


def rows(
    home: Path, name: str, shards: Sequence[Sequence[tuple[str, Held]]], made_of: Sequence[Artefact]
) -> Artefact:
    """Packed rows: shards of (domain, documents with their tokens)."""

    def fill(folder: Path) -> None:
        number = 0
        for shard, held in enumerate(shards):
            lines = [_row(f"{name}-{number + at}", *each) for at, each in enumerate(held)]
            number += len(held)
            table = pa.Table.from_pylist(lines, schema=PACKED_ROW_SCHEMA)
            pq.write_table(table, factories.shard_path(folder, shard))
        everything = [row for held in shards for row in held]
        write_windows(
            folder, {f"{name}-{at}": _windows(*each) for at, each in enumerate(everything)}
        )

    labels = {
        "family": "v2_simple", "objective": "causal", "variant": "0", "row_length": str(LENGTH),
        "split": "train",
    }  # fmt: skip
    inputs = tuple(each.as_input(f"documents {at}") for at, each in enumerate(made_of))
    return published(home, "rows", labels, fill, inputs, config={"name": name})


def _windows(_: str, held: Held) -> list[int]:
    """A window for each token of a document, the same wherever the document stands."""
    return [100 * ord(name) + place for name, tokens in held for place in range(tokens)]


def _row(pack_id: str, domain: str, held: Held) -> dict[str, Any]:
    valid = sum(tokens for _, tokens in held)
    starts = [sum(tokens for _, tokens in held[:at]) for at in range(len(held))]
    return {
        "pack_id": pack_id,
        "input_ids": [1] * LENGTH,
        "target_ids": [1] * LENGTH,
        "loss_mask": [1] * valid + [0] * (LENGTH - valid),
        "doc_ids": [0] * LENGTH,
        "doc_starts": [*starts, *([valid] if valid < LENGTH else [])],
        "valid_token_count": valid,
        "num_docs": len(held),
        "loss_token_count": valid,
        "attention_pairs": 1,
        "context_histogram": [valid, 0, 0, 0],
        "family": "v2_simple",
        "objective": "causal",
        "variant": 0,
        "domain": domain,
        "split": "train",
        "document_ids": [IDS[name] for name, _ in held],
        "pieces": [],
    }


def mixture(
    home: Path, phase: str, taken: Sequence[tuple[Artefact, int, int, int]], specialist: str = "fmt",
    branch: str | None = None,
) -> Artefact:  # fmt: skip
    """A plan of (rows, shard, row, valid tokens), a slot each, a stratum an artefact; two slots a step."""
    made_of = list({each.key: each for each, *_ in taken}.values())
    strata = {each.key: at for at, each in enumerate(made_of)}
    lines = [
        {
            "position": at, "slot": at, "serving": strata[each.key], "stratum": strata[each.key],
            "row_length": LENGTH, "rows_key": each.key, "shard": shard, "row": row,
            "pack_id": _pack_id(each, shard, row), "repetition": 0, "valid_tokens": tokens,
            "attention_pairs": tokens * (tokens + 1) // 2,
        }
        for at, (each, shard, row, tokens) in enumerate(taken)
    ]  # fmt: skip
    table = pa.Table.from_pylist(lines, schema=PLAN_SCHEMA)
    report = MixtureReport(
        slot_length=LENGTH, slots=len(taken), rows=len(taken),
        tokens=sum(tokens for *_, tokens in taken), budget=10, tokens_per_step=2 * LENGTH,
        steps=len(taken) // 2, strata=tuple(_stratum(taken, each, at) for at, each in enumerate(made_of)),
        repetition=factories.READ_ONCE,
    )  # fmt: skip
    servings = [
        {
            "family": "v2_simple",
            "objective": "causal",
            "row_length": LENGTH,
            "share": 1.0,
            "domains": {},
        }
    ]
    store = Store(home)
    of_branch = {"branch": branch} if branch else {}
    made = published(
        home,
        "mixtures",
        {"specialist": specialist, **of_branch, "phase": phase},
        lambda folder: pq.write_table(table, folder / "plan.parquet"),
        tuple(each.as_input(f"rows {at}") for at, each in enumerate(made_of)),
        report.model_dump(mode="json"),
        {
            "tokens": 10,
            "seed": " ".join([specialist, *of_branch.values(), phase]),
            "servings": servings,
        },
    )
    store.mark("+".join(["mixtures", file_stem((specialist, branch)), phase]), [made])
    return made


def _pack_id(rows: Artefact, shard: int, row: int) -> str:
    names: list[Any] = pq.read_table(rows.shards()[shard], columns=["pack_id"])[
        "pack_id"
    ].to_pylist()
    return str(names[row])


def _stratum(
    taken: Sequence[tuple[Artefact, int, int, int]], rows: Artefact, at: int
) -> StratumReport:
    mine = [tokens for each, _, _, tokens in taken if each.key == rows.key]
    return StratumReport(
        stratum=at, serving=at, family="v2_simple", objective="causal",
        domain=("general", "templates")[at], row_length=LENGTH, rows_key=rows.key, rows=len(mine),
        rows_tokens=sum(mine), share=0.5, served=0.5, slots=len(mine), drawn=len(mine), drawn_before=0,
        tokens=sum(mine),
    )  # fmt: skip


NO_DOCUMENTS: Mapping[str, tuple[float, int]] = {}


def figure(
    bits: float, width: float, family: str = "*", domain: str = "*", step: int = 2
) -> Figure:
    """A figure of the phase's own evaluation, with an interval so wide to both sides; of one document
    where that has no width."""
    return factories.figure(
        bits,
        family=family,
        domain=domain,
        step=step,
        low=bits - width,
        high=bits + width,
        scored_tokens=10,
        scored_bytes=30,
        **({} if width else {"documents": 1, "lineages": 1}),
    )


def job(
    plan: Artefact, root: Path, *, specialist: str = "fmt", content: str = "1", **changes: Any
) -> Job:
    """A job over a plan; `content` is that of the rows that it is measured on."""
    source = RowsSource(key="0" * 64, content=content, path="rows/x", row_length=LENGTH)
    stratum = EvaluationStratum(
        family="v2_simple",
        objective="causal",
        domain="general",
        weight=1.0,
        rows=source,
        measured=(0,),
        **equal_count(12, 5).model_dump(),
    )
    values: dict[str, Any] = {
        "specialist": specialist, "branch": None, "phase": plan.manifest.labels["phase"],
        "run_key": changes.pop("run_key"), "attempt": 1, "seed": 1,
        "model": ModelSpec(
            name="tiny", vocab_size=16, blocks="AF", width=8, heads=1, kv_heads=1, mlp_width=8
        ),
        "backend": "documents", "device": "cpu",
        "tokenizer": TokenizerRef(key="9" * 64, content="9", path="tokenizers/9", vocab_size=16),
        "plan": (plan.path / "plan.parquet").relative_to(root).as_posix(),
        "plan_key": plan.key, "plan_content": plan.content, "rows": (source,), "rope_base": 1e4,
        "micro_positions": LENGTH, "tokens_per_step": 2 * LENGTH, "steps": 2,
        "optimizer": OptimizerSpec(learning_rate=1e-3, warmup_steps=1), "start_from": None,
        "evaluations": (
            Evaluation(
                set="phase", phase="syntax", strata=(stratum,), **equal_count(12, 5).model_dump()
            ),
        ),
        "evaluate_every": 1, "checkpoint_every": 1, "advance_when": None, "require": (),
        "overrides": {},
    }  # fmt: skip
    return Job(**{**values, **changes})


def run(
    home: Path,
    ordered: Job,
    after: Sequence[Figure],
    *,
    closed: bool = True,
    documents: Mapping[str, tuple[float, int]] = NO_DOCUMENTS,
    **left: Any,
) -> Path:
    """A run's directory with a checkpoint; closed, or still open.

    Of `documents`, by their ids, it was left with so many nats and bytes at its end.
    """
    of_branch = (("branch", ordered.branch),) if ordered.branch else ()
    labels = (("specialist", ordered.specialist), *of_branch, ("phase", ordered.phase))
    recipe = Recipe(stage="runs", labels=labels, revision=1, config={"run": ordered.run_key})
    ordered = ordered.model_copy(update={"run_key": recipe.key})
    folder = home / recipe.directory / "attempt=1"
    _checkpoint(folder / "checkpoints" / "step=1", ordered, after)
    (folder / "job.json").write_text(ordered.model_dump_json())
    (folder / "metrics").mkdir()
    steps: dict[str, Any] = {
        field.name: [None if field.nullable else 0] * 2 for field in METRICS_SCHEMA
    } | {
        "step": [1, 2], "loss": [4.0, 2.0], "valid_tokens": [14, 8], "gradient_norm": [1.0, 0.5],
        "learning_rate": [0.1, 0.2], "tokens_per_second": [9.0, 9.0], "mean_context": [3.0, 3.0],
    }  # fmt: skip
    table = pa.table(steps, schema=METRICS_SCHEMA)
    pq.write_table(table, folder / "metrics" / "0000000001.parquet")
    if documents:
        ids = sorted(documents)
        sizes = np.array([documents[each][1] for each in ids], dtype=np.int64)
        sums = DocumentSums(
            document_ids=tuple(ids),
            lineages=tuple(ids),
            nats=np.array([documents[each][0] for each in ids]),
            num_bytes=sizes,
            tokens=sizes,
        )
        document_sums.write(folder, 2, document_sums.table_of(ordered.evaluations[0], [sums]))
    if not closed:
        return folder
    values: dict[str, Any] = {
        "specialist": ordered.specialist, "phase": ordered.phase, "attempt": 1, "stopped": "budget",
        "reason": "2 steps", "steps": 2,
        "tokens": TokenCounts(positions=32, valid=22, scored=20, bytes=60),
        "before": (), "after": tuple(after), "history": (), "tokens_per_second": 11.0, "seconds": 2.0,
        "gpu_seconds": 0.0, "device": "cpu", "backend": "documents", "leakcheck": "passed",
        "checkpoint": (folder / "checkpoints" / "step=1").relative_to(home).as_posix(),
    }  # fmt: skip
    report = Report(**{**values, **left})
    (folder / "report.json").write_text(report.model_dump_json())
    store = Store(home)
    made = store.publish_run(
        folder, recipe, report.model_dump(mode="json"), content="checkpoints/step=1"
    )
    ref = SpecialistRef(ordered.specialist, ordered.branch)
    store.mark("+".join(["runs", file_stem(ref), ordered.phase]), [made])
    return folder


def _checkpoint(folder: Path, ordered: Job, figures: Sequence[Figure]) -> None:
    folder.mkdir(parents=True)
    tensors = {
        "embedding.weight": np.zeros((16, 8), np.float32),
        "blocks.0.norm.weight": np.zeros(8, np.float32),
        "blocks.10.up.weight": np.zeros((8, 8), np.float32),
        "blocks.9.up.weight": np.zeros((8, 4), np.float32),
    }
    save_file(tensors, folder / "model.safetensors")
    (folder / "model.json").write_text(ordered.model.model_dump_json())
    counts = TokenCounts(positions=16, valid=14, scored=13, bytes=40)
    listed = ",".join(each.model_dump_json() for each in figures)
    (folder / "state.json").write_text(
        f'{{"step": 1, "slot": 2, "tokens": {counts.model_dump_json()}, "figures": [{listed}]}}'
    )
    files = [
        FileRecord(name=each.name, sha256=sha256_of(each), num_bytes=each.stat().st_size)
        for each in sorted(folder.iterdir())
    ]
    content = {"step": 1, "files": [each.model_dump() for each in files]}
    (folder / "manifest.json").write_text(sealed(content))


def starting(run_key: str) -> CheckpointRef:
    """A checkpoint of another run, to start from."""
    return CheckpointRef(run_key=run_key, run_content="", path="runs/x")


class TinyWorkspace:
    """The workspace, and what is in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        made_of = [documents(home, name) for name in ("alpha", "beta")]
        general, templates = [("a", 3), ("c", 4)], [("b", 8)]
        self.one = rows(
            home,
            "one",
            [[("general", general), ("templates", templates)], [("templates", [("b", 5)])]],
            made_of,
        )
        self.two = rows(home, "two", [[("general", [("d", 6)])]], made_of)
        self.syntax = mixture(
            home, "syntax", [(self.one, 0, 0, 7), (self.one, 0, 1, 8), (self.one, 0, 0, 7)]
        )
        self.file_graph = mixture(home, "file_graph", [(self.one, 1, 0, 5), (self.two, 0, 0, 6)])
