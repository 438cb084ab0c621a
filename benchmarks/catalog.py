"""Time of catalog queries in a workspace with many artefacts.

    python benchmarks/catalog.py /tmp/catalog-benchmark --artefacts 10000

The script creates a workspace with the given number of artefacts. Their manifests look like manifests of
the store; their data files are hard links to a few different files. Then the script measures the first
snapshot of the workspace, the next snapshots, opening a catalog, and typical queries, both in an open
catalog and including the time to open it.
"""

import argparse
import datetime
import hashlib
import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from curriculum.catalog import open_catalog, query
from curriculum.catalog.snapshot import take
from curriculum.store import Artefact, Input, Recipe, Store, digest
from schemas.document import DOCUMENT_SCHEMA, SELECTION_SCHEMA
from schemas.job import METRICS_SCHEMA, Figure, Report, TokenCounts
from schemas.manifest import FileRecord, InputRecord, Manifest
from schemas.mixture import PLAN_SCHEMA, MixtureReport, StratumReport
from schemas.packed_row import PACKED_ROW_SCHEMA

TIMES = 5
ROWS = 200
"""Rows of a data file."""
ROW_LENGTH = 512
FAMILIES = ("v2_simple", "v2_doxygen", "v3_simple", "v3_doxygen")
DOMAINS = ("general", "templates", "testing", "systems_c")
QUERIES = {
    "documents by repository": "SELECT repository, count(*), sum(num_bytes) FROM documents GROUP BY 1",
    "one document by its id": "SELECT * FROM documents WHERE document_id = 'd-7-once'",
    "kept by domain": "SELECT domain, count(*) FROM selection WHERE keep GROUP BY 1",
    "yield by data set": "SELECT family, sum(valid_token_count) / sum(row_length) FROM rows GROUP BY 1",
    "pieces of a row": "SELECT * FROM pieces WHERE pack_id = 'r-7'",
    "rows by serving": """
        SELECT serving, repetition, count(*), sum(valid_tokens) FROM mixture_rows
        WHERE specialist = 's0' GROUP BY ALL
    """,
    "planned and realised": "SELECT specialist, phase, family, share, served FROM strata WHERE current",
    "runs by specialist": """
        SELECT specialist, phase, phase_bpb_before - phase_bpb_after AS gain FROM runs ORDER BY gain
    """,
    "loss by phase": "SELECT phase, avg(loss) FROM metrics GROUP BY 1",
    "status": "FROM status",
    "artefacts by stage": "SELECT stage, count(*), sum(num_bytes) FROM artefacts GROUP BY 1",
}


def main() -> None:
    """Create the workspace unless it exists; print a line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the workspace; it is kept and reused")
    parser.add_argument("--artefacts", type=int, default=10_000, help="number of artefacts")
    parser.add_argument("--queries-only", action="store_true", help="skip the snapshots")
    options = parser.parse_args()
    home = options.folder / f"of-{options.artefacts}"
    if not home.is_dir():
        Workspace(home=home).fill(options.artefacts)
    print(f"{options.artefacts:,} artefacts, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if not options.queries_only:
        for folder in (home / "catalog").glob("*"):
            for file in folder.glob("*"):
                file.unlink()
            folder.rmdir() if folder.is_dir() else folder.unlink()
        _print_time("first snapshot", lambda: take(home), times=1)
        _print_time("next snapshot", lambda: take(home))
        _print_time("snapshot after a new artefact", lambda: _add_artefact(home), times=1)
    _print_time("open_catalog", lambda: open_catalog(home))
    catalog = open_catalog(home)
    for title, sql in QUERIES.items():
        _print_time(f"{title}, in an open catalog", partial(_fetch, catalog, sql))
        _print_time(f"{title}, with opening", partial(query, home, sql))


def _print_time(title: str, do: Callable[[], Any], *, times: int = TIMES) -> None:
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), _cpu()
        do()
        walls.append(time.perf_counter() - wall)
        cpus.append(_cpu() - cpu)
    print(
        f"{title:40} {1000 * statistics.median(walls):9.1f} ms {1000 * statistics.median(cpus):9.1f} ms CPU",
        flush=True,
    )


def _fetch(catalog: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return catalog.execute(sql).fetchall()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _add_artefact(home: Path) -> None:
    number = sum(1 for _ in (home / "documents").rglob("manifest.json"))
    workspace = Workspace(home=home)
    artefact = workspace.documents(number, FAMILIES[0])
    Store(home).mark(f"added-{number}", [artefact])
    take(home)


@dataclass(kw_only=True)
class Workspace:
    """Workspace that is being created; data files of one kind are hard links to the same file."""

    home: Path
    models: dict[str, tuple[Path, str]] = field(default_factory=dict)

    def fill(self, number: int) -> None:
        """Create about `number` artefacts.

        Half are documents, a fifth are rows, a tenth are mixtures, a tenth are runs, the rest selections.
        """
        Store(self.home).open()
        made = [
            self.documents(at // len(FAMILIES), FAMILIES[at % len(FAMILIES)])
            for at in range(number // 2)
        ]
        rows = [self.rows(at) for at in range(max(1, number // 5))]
        mixtures = [self.mixture(at, rows[at % len(rows)]) for at in range(max(1, number // 10))]
        runs = [self.run(at, mixture) for at, mixture in enumerate(mixtures)]
        made += [*rows, *mixtures, *runs]
        made += [self.selection(at) for at in range(number - len(made))]
        Store(self.home).mark("everything", made)

    def documents(self, repository: int, family: str) -> Artefact:
        """Create the documents of a family and a repository; the first ones have ids of their own."""
        labels = {"family": family, "repository": f"repository-{repository}"}
        model = "once" if (repository, family) == (0, FAMILIES[0]) else "documents"
        return self._publish("documents", labels, {"data/part-00000.parquet": model})

    def selection(self, at: int) -> Artefact:
        """Create the selection of a corpus."""
        return self._publish(
            "selections", {"corpus": f"corpus-{at}"}, {"selection.parquet": "selection"}
        )

    def rows(self, at: int) -> Artefact:
        """Create rows of a family."""
        labels = {
            "family": FAMILIES[at % 4],
            "objective": "causal",
            "variant": str(at // 4),
            "row_length": str(ROW_LENGTH),
            "split": "train",
        }
        return self._publish("rows", labels, {"data/part-00000.parquet": "rows"})

    def mixture(self, at: int, rows: Artefact) -> Artefact:
        """Create the mixture of a specialist's phase, whose plan reads `rows`."""
        stratum = StratumReport.model_validate(
            {
                **dict.fromkeys(("stratum", "serving", "slots", "drawn_before"), 0),
                **dict.fromkeys(("rows", "rows_tokens", "drawn", "tokens"), ROWS),
                **dict.fromkeys(("share", "served"), 0.25),
                "family": rows.manifest.labels["family"],
                "objective": "causal",
                "domain": "general",
                "row_length": ROW_LENGTH,
                "rows_key": rows.key,
            }
        )
        numbers = ("slot_length", "slots", "rows", "tokens", "budget", "tokens_per_step", "steps")
        strata = tuple(
            stratum.model_copy(update={"stratum": number, "domain": DOMAINS[number % 4]})
            for number in range(8)
        )
        report = MixtureReport.model_validate({**dict.fromkeys(numbers, ROWS), "strata": strata})
        return self._publish(
            "mixtures",
            _phase(at),
            {"plan.parquet": "plan"},
            inputs=(rows.as_input("rows 0"),),
            report=report.model_dump(mode="json"),
        )

    def run(self, at: int, mixture: Artefact) -> Artefact:
        """Create a finished run of a mixture, with fifty figures."""
        figure = Figure(
            set="phase",
            phase="p",
            family="*",
            domain="*",
            step=0,
            val_bpb=1.5 + at % 7,
            low=1.0,
            high=2.0,
            scored_tokens=1,
            scored_bytes=2,
            documents=12,
            lineages=5,
            effective_documents=12,
            effective_lineages=5,
        )
        labels = _phase(at)
        report = Report(
            specialist=labels["specialist"],
            phase=labels["phase"],
            attempt=1,
            stopped="budget",
            reason="",
            steps=ROWS,
            tokens=TokenCounts(positions=12, valid=9, scored=6, bytes=21),
            before=(figure,) * 20,
            after=(figure,) * 20,
            history=(figure,) * 10,
            tokens_per_second=1.0,
            seconds=2.0,
            gpu_seconds=0.0,
            device="cpu",
            backend="documents",
            leakcheck="passed",
            checkpoint="",
        )
        return self._publish(
            "runs",
            labels,
            {"metrics/0000000001.parquet": "metrics"},
            inputs=(mixture.as_input("plan"),),
            below="attempt=1",
            texts={"report.json": report.model_dump_json()},
        )

    def _publish(
        self,
        stage: str,
        labels: Mapping[str, str],
        files: Mapping[str, str],
        *,
        inputs: tuple[Input, ...] = (),
        report: Mapping[str, Any] | None = None,
        below: str = "",
        texts: Mapping[str, str] | None = None,
    ) -> Artefact:
        """Publish an artefact like the store, but without syncing files to the disk."""
        recipe = Recipe(
            stage=stage,
            labels=tuple(labels.items()),
            revision=1,
            config={**labels},
            inputs=inputs,
        )
        folder = self.home / recipe.directory / below
        records = []
        for name, model in files.items():
            source, sha256 = self._model(model)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).hardlink_to(source)
            size = source.stat().st_size
            records.append(FileRecord(name=name, sha256=sha256, num_bytes=size))
        for name, text in (texts or {}).items():
            (folder / name).write_text(text)
            sha256 = hashlib.sha256(text.encode()).hexdigest()
            records.append(FileRecord(name=name, sha256=sha256, num_bytes=len(text.encode())))
        manifest = Manifest(
            stage=stage,
            labels=dict(labels),
            key=recipe.key,
            content=digest([list(pair) for pair in sorted((r.name, r.sha256) for r in records)]),
            revision=1,
            config=dict(recipe.config),
            inputs=tuple(
                InputRecord(name=item.name, key=item.key, content=item.content) for item in inputs
            ),
            tools={},
            files=tuple(records),
            report=dict(report or {}),
            created=datetime.datetime.now(datetime.UTC).isoformat(),
        )
        (folder / "manifest.json").write_text(manifest.model_dump_json(indent=1))
        return Artefact(path=folder, manifest=manifest)

    def _model(self, kind: str) -> tuple[Path, str]:
        """Return a data file of a kind and its digest.

        A new file is written after 1,000 links, because file systems limit the links of a file.
        """
        used = sum(1 for name in self.models if name.startswith(kind))
        name = f"{kind}-{used - 1}"
        if name not in self.models or self.models[name][0].stat().st_nlink > 1000:
            name = f"{kind}-{used}"
            file = self.home / ".models" / f"{name}-{time.time_ns()}.parquet"
            file.parent.mkdir(exist_ok=True)
            schema = _SCHEMAS[kind]
            rows = [_row(kind, at) for at in range(ROWS)]
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), file, compression="zstd")
            self.models[name] = file, hashlib.sha256(file.read_bytes()).hexdigest()
        return self.models[name]


def _phase(at: int) -> dict[str, str]:
    return {"specialist": f"s{at // 5}", "phase": f"p{at % 5}"}


_SCHEMAS = {
    "documents": DOCUMENT_SCHEMA,
    "once": DOCUMENT_SCHEMA,
    "selection": SELECTION_SCHEMA,
    "rows": PACKED_ROW_SCHEMA,
    "plan": PLAN_SCHEMA,
    "metrics": METRICS_SCHEMA,
}


def _row(kind: str, at: int) -> dict[str, Any]:
    """Return row `at` of a data file, with values in the columns that queries read, else blanks."""
    blank = {column.name: _blank(column.type) for column in _SCHEMAS[kind]}
    own: dict[str, Any] = {
        "document_id": f"d-{at}-once" if kind == "once" else f"d-{at}",
        "document_ids": [f"d-{at}"],
        "pack_id": f"r-{at}",
        "family": FAMILIES[at % 4],
        "domain": DOMAINS[at % 4],
        "num_bytes": 1000 + at,
        "text": f"int f{at}() {{ return {at}; }}\n" * 40,
        "keep": at % 10 > 0,
        "valid_token_count": ROW_LENGTH - at % 9,
        "input_ids": list(range(ROW_LENGTH)),
        "loss_mask": [1] * ROW_LENGTH,
        "pieces": [
            {"doc": 0, "kind": 0, "token_start": 0, "token_end": 9, "byte_start": 0, "byte_end": 30}
        ],
        "step": at,
        "position": at,
        "serving": at % 4,
        "valid_tokens": ROW_LENGTH,
        "attention_pairs": 1 << 20,
        "loss": 1 / (1 + at),
    }
    return blank | {name: value for name, value in own.items() if name in blank}


def _blank(kind: pa.DataType) -> Any:
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ""
    return [] if pa.types.is_list(kind) else 0


if __name__ == "__main__":
    main()
