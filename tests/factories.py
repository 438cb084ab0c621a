"""Values that many tests need, with plain defaults: a test names what its claim is about."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.families.document_writer import DocumentWriter
from curriculum.mixing.resolve import ResolvedPhase, ResolvedServing
from curriculum.store import Store
from curriculum.train.run_directory import JOB, claim_directory, read_job
from schemas.document import PARTS, Document, Part, Provenance
from schemas.held_out import HeldOutCount
from schemas.job import Figure, Report, TokenCounts
from schemas.mixture import TokenRepetition
from schemas.objectives import FIXED_SETS
from schemas.reports import WindowsReport
from schemas.windows import WINDOWS_NAME, WINDOWS_SCHEMA

COMMIT, BLOB = "c" * 40, "b" * 40


def provenance(**changes: Any) -> Provenance:
    """A byte of a.cc, a file that was never renamed."""
    values: dict[str, Any] = {
        "repository": "r",
        "commit": COMMIT,
        "path": "a.cc",
        "blob": BLOB,
        "start": 0,
        "end": 1,
        **changes,
    }
    return Provenance(**{"lineage": f"{values['repository']}:{values['path']}", **values})


def document(text: str, **changes: Any) -> Document:
    """A document of one part, all of it code of one file."""
    size = len(text.encode())
    sources = changes.get("provenance", (provenance(end=size),))
    values: dict[str, Any] = {
        "text": text,
        "family": "v2_simple",
        "language": "cpp",
        "licence": None,
        "timestamp": 0,
        "parts": (Part(kind="code", start=0, end=size, source=0),),
        "spans": (),
        "provenance": sources,
        "lineage": sources[-1].lineage if sources else "r:a.cc",
    }
    return Document(**{**values, **changes})


def equal_count(documents: int, lineages: int) -> HeldOutCount:
    """So many documents and lineages of a single stratum."""
    return HeldOutCount(
        documents=documents,
        lineages=lineages,
        effective_documents=documents,
        effective_lineages=lineages,
    )


def figure(val_bpb: float, **changes: Any) -> Figure:
    """A weighted mean of the phase's own evaluation, of documents enough unless `changes` say other."""
    values: dict[str, Any] = {
        "phase": "syntax",
        "family": "*",
        "domain": "*",
        "step": 0,
        "val_bpb": val_bpb,
        "low": val_bpb,
        "high": val_bpb,
        "scored_tokens": 1,
        "scored_bytes": 2,
        **equal_count(changes.pop("documents", 12), changes.pop("lineages", 5)).model_dump(),
        **changes,
    }
    name = values["phase"] if values["phase"] in FIXED_SETS else "phase"
    return Figure(**{"set": name} | values)


def run_report(**changes: Any) -> Report:
    """The report of a run of three steps, without evaluations."""
    values: dict[str, Any] = {
        "specialist": "templates",
        "phase": "syntax",
        "attempt": 1,
        "stopped": "budget",
        "reason": "3 steps",
        "steps": 3,
        "tokens": TokenCounts(positions=12, valid=9, scored=6, bytes=21),
        "before": (),
        "after": (),
        "history": (),
        "tokens_per_second": 1.0,
        "seconds": 2.0,
        "gpu_seconds": 0.0,
        "device": "cpu",
        "backend": "documents",
        "leakcheck": "passed",
        "checkpoint": "",
    }
    return Report(**{**values, **changes})


def resolved_serving(index: int = 0, **changes: Any) -> ResolvedServing:
    """All of a phase in rows of 512 tokens, without rules for domains."""
    values: dict[str, Any] = {
        "family": "v3_simple",
        "objective": "causal",
        "row_length": 512,
        "share": 1.0,
        "tokens": 0,
        "domains": (),
        "repositories": (),
    }
    return ResolvedServing(index=index, **(values | changes))


READ_ONCE = TokenRepetition(scored=1, distinct=1, new=1, limit=4)


def resolved_phase(*servings: ResolvedServing, **changes: Any) -> ResolvedPhase:
    """A phase of 100,000 tokens without a gate, which stops where rows are short."""
    values: dict[str, Any] = {
        "specialist": "templates",
        "branch": None,
        "name": "syntax",
        "tokens": 100_000,
        "rope_base": 5e5,
        "max_repetition": 4.0,
        "max_token_repetition": 4.0,
        "on_shortage": "stop",
        "advance_when": None,
        "on_budget": "advance",
        "require": (),
        "why": "",
    }
    return ResolvedPhase(servings=servings, **(values | changes))


def write_documents(
    documents: Iterable[Document], folder: Path, rows_per_file: int = 100_000
) -> int:
    """Write documents to a folder that exists, one row group in memory at a time; their number."""
    with DocumentWriter(folder, rows_per_file=rows_per_file) as writer:
        for document in documents:
            writer.append(document)
    return writer.count


def write_windows(folder: Path, windows: Mapping[str, Iterable[int]]) -> WindowsReport:
    """Write windows.pq, all windows of each row by its pack_id; every position is scored."""
    lines = [
        {"pack_id": pack_id, "hash": each, "halvings": 0}
        for pack_id, hashes in windows.items()
        for each in dict.fromkeys(hashes)
    ]
    pq.write_table(pa.Table.from_pylist(lines, schema=WINDOWS_SCHEMA), folder / WINDOWS_NAME)
    kept = len({line["hash"] for line in lines})
    return WindowsReport(scored=sum(len([*each]) for each in windows.values()), kept=kept)


def shard_path(folder: Path, number: int = 0) -> Path:
    """Return the path of a shard of documents or rows in an artefact; its folder is made."""
    path = folder / f"{PARTS}{number:05d}.parquet"
    path.parent.mkdir(exist_ok=True)
    return path


def read_documents(
    folder: Path, columns: Sequence[str] | None = None, *, rows: int = 1_000
) -> Iterator[pa.RecordBatch]:
    """The documents of an artefact in order, at most `rows` a batch; all columns, or these."""
    for file in sorted(folder.glob("data/part-*.parquet")):
        wanted = None if columns is None else list(columns)
        yield from pq.ParquetFile(file).iter_batches(batch_size=rows, columns=wanted)


def training(run: Path) -> contextlib.AbstractContextManager[None]:
    """Be the trainer of an open run."""
    return claim_directory(Store.containing(run), read_job(run / JOB), run)
