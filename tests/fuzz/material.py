"""Small valid files of every kind that comes from elsewhere, made once for a run of the fuzzer."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.interop import tokens_out
from curriculum.interop.row_order import Ordered
from curriculum.mixing.diet_files import DIETS, PACKAGE
from curriculum.outputs import whole_folder
from curriculum.stages.tokens import given_tokenizer, load_tokenizer
from curriculum.starter import HERE as STARTER
from curriculum.starter import NAME, SAMPLES
from curriculum.store import Store
from curriculum.tokens.train import train_tokenizer
from schemas.job import METRICS_SCHEMA, Heartbeat
from schemas.manifest import Lease
from schemas.phase_status import Approval, ClosedGate
from tests.curriculum.interop.conftest import rows_of
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

READY = "ready"
ROWS = 6
"""Rows of an import; few, so that a case is fast."""
CODES = ("int main() { return 0; }\n", "// a comment\nstruct A { int b; };\n")
WHEN = "2026-01-01T00:00:00Z"


def make(folder: Path) -> None:
    """Write all of it below a folder, unless it is there."""
    if (folder / READY).is_file():
        return
    _imports(folder)
    workspace(folder / "workspace")
    _records(folder)
    _texts(folder)
    (folder / READY).touch()


def _imports(folder: Path) -> None:
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir(parents=True)
    file = tokenizer / "tokenizer.json"
    file.write_bytes(train_tokenizer(CODES * 20, vocab_size=300))
    store = Store(folder / "store")
    store.open()
    given = given_tokenizer(store, file, "bos_eos")
    codec = load_tokenizer(given)
    for structured in (False, True):
        rows = rows_of(store, codec, given, structured=structured)
        name = "structured" if structured else "flat"
        to = folder / f"rows-{name}"
        to.mkdir()
        table = pq.read_table(rows.shards(), partitioning=None).slice(0, ROWS)
        pq.write_table(table, to / "part-0.parquet")
        for form in ("flat", "megatron"):
            with whole_folder(folder / f"{form}-{name}") as out:
                tokens_out.export_rows(Ordered.of(store, rows), codec, out, form)


def workspace(home: Path) -> None:
    """Write documents, rows, plans, two closed runs and an open one, and what stands beside them."""
    larder = TinyWorkspace(home)
    for plan, bits in ((larder.syntax, 1.0), (larder.file_graph, 2.0)):
        run(home, job(plan, home, run_key=""), [figure(bits, 0.1)])
    open_ = job(larder.syntax, home, run_key="", specialist="open")
    folder = run(home, open_, [figure(3.0, 0.1)], closed=False)
    _measure(folder / "metrics" / "0000000001.parquet")
    beat = Heartbeat(step=1, steps=2, valid_tokens=14, tokens_per_second=9.0, at=WHEN)
    (folder / "heartbeat.json").write_text(beat.model_dump_json())
    for name, text in _states(larder.syntax.key):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(text)


def _measure(file: Path) -> None:
    """Write all columns of the metrics, of two steps."""
    columns = {field.name: pa.array([1, 2]).cast(field.type) for field in METRICS_SCHEMA}
    pq.write_table(pa.table(columns, schema=METRICS_SCHEMA), file)


def _states(key: str) -> Iterator[tuple[str, str]]:
    lease = Lease(
        host="h", pid=1, at=WHEN, begun=WHEN, heartbeat=WHEN, keys=(key,)
    )  # fmt: skip
    yield f"leases/{key[:32]}.json", lease.model_dump_json()
    said = Approval(
        run_key=key, attempt=1, content="1", specialist="fmt", phase="syntax", who="a", when=WHEN
    )
    yield f"approvals/{key[:12]}-1.json", said.model_dump_json()
    gate = ClosedGate(
        kind="waits", run="runs/x", content="1", specialist="fmt", phase="syntax", why="a", cure="b"
    )
    yield f"gates/{key[:12]}-1.json", gate.model_dump_json()


def _records(folder: Path) -> None:
    """One file of each kind of JSON record, by the name of its model."""
    kinds = {
        "Manifest": "workspace/rows/**/manifest.json",
        "WorkspaceFile": "workspace/workspace.json",
        "Lease": "workspace/leases/*.json",
        "Approval": "workspace/approvals/*.json",
        "ClosedGate": "workspace/gates/*.json",
        "Heartbeat": "workspace/runs/**/heartbeat.json",
        "Job": "workspace/runs/**/job.json",
        "Report": "workspace/runs/**/report.json",
        "ExportRecord": "flat-flat/export.json",
    }
    to = folder / "records"
    to.mkdir()
    for name, pattern in kinds.items():
        (to / f"{name}.json").write_bytes(min(folder.glob(pattern)).read_bytes())


def _texts(folder: Path) -> None:
    (folder / "yaml").mkdir()
    for kind, file in (
        ("diet", DIETS / "templates.yaml"),
        ("diet", DIETS / "templates.demo.yaml"),
        ("diet", STARTER / "diet.yaml"),
        ("corpus", STARTER / "corpus.yaml"),
        ("corpus", PACKAGE / "corpora" / "sample.yaml"),
        ("domains", PACKAGE / "domains.yaml"),
        ("phases", PACKAGE / "phases.yaml"),
        ("phases", PACKAGE / "phases.demo.yaml"),
    ):
        number = len(list((folder / "yaml").iterdir()))
        text = file.read_text().replace(NAME, "first")
        text = text.replace(SAMPLES, "repositories: [{name: a, path: /a}]\n")
        (folder / "yaml" / f"{kind}-{number}.yaml").write_text(text)
    turns = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    talks = [{"id": str(number), "messages": turns} for number in range(4)]
    (folder / "talks.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in talks))
    units = [
        {"directory": "/src", "file": f"{name}.cc", "command": f"c++ -Iinclude -c {name}.cc"}
        for name in "abc"
    ]
    (folder / "compile_commands.json").write_text(json.dumps(units))


def table_of(file: Path) -> pa.Table:
    """The rows of a file of the material."""
    return pq.read_table(file, partitioning=None)
