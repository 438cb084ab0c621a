"""Time of catalog queries over a hundred shards and over ten thousand artefacts.

Lays out a workspace of as many artefacts as asked, with manifests as the store writes them and data files
that are few different ones, linked. Then measures each step from a folder to an answer: the first
snapshot, the next one, opening a catalog, and typical questions, each with opening and without.

    python benchmarks/catalog.py /tmp/catalog-benchmark --artefacts 10000
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
LINES = 200
"""Lines of each data file."""
ROW_LENGTH = 512
FAMILIES = ("v2_simple", "v2_doxygen", "v3_simple", "v3_doxygen")
DOMAINS = ("general", "templates", "testing", "systems_c")
QUESTIONS = {
    "documents by repository": "SELECT repository, count(*), sum(num_bytes) FROM documents GROUP BY 1",
    "one document by its id": "SELECT * FROM documents WHERE document_id = 'd-7-once'",
    "kept by domain": "SELECT domain, count(*) FROM selection WHERE keep GROUP BY 1",
    "yield by data set": "SELECT family, sum(valid_token_count) / sum(row_length) FROM rows GROUP BY 1",
    "pieces of a row": "SELECT * FROM pieces WHERE pack_id = 'r-7'",
    "a mixture's servings": """
        SELECT serving, repetition, count(*), sum(valid_tokens) FROM mixture_rows
        WHERE specialist = 's0' GROUP BY ALL
    """,
    "asked and served": "SELECT specialist, phase, family, share, served FROM strata WHERE current",
    "runs by specialist": """
        SELECT specialist, phase, phase_bpb_before - phase_bpb_after AS gain FROM runs ORDER BY gain
    """,
    "loss by phase": "SELECT phase, avg(loss) FROM metrics GROUP BY 1",
    "status": "FROM status",
    "artefacts by stage": "SELECT stage, count(*), sum(num_bytes) FROM artefacts GROUP BY 1",
}


def main() -> None:
    """Print a line a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--artefacts", type=int, default=10_000)
    parser.add_argument("--questions-only", action="store_true")
    options = parser.parse_args()
    home = options.folder / f"of-{options.artefacts}"
    if not home.is_dir():
        Workspace(home=home).fill(options.artefacts)
    print(f"{options.artefacts:,} artefacts, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    if not options.questions_only:
        for folder in (home / "catalog").glob("*"):
            for file in folder.glob("*"):
                file.unlink()
            folder.rmdir() if folder.is_dir() else folder.unlink()
        _print_time("the first snapshot", lambda: take(home), times=1)
        _print_time("the next one", lambda: take(home))
        _print_time("after one artefact more", lambda: _one_more(home), times=1)
    _print_time("open_catalog", lambda: open_catalog(home))
    catalog = open_catalog(home)
    for question, sql in QUESTIONS.items():
        _print_time(f"{question}, opened", partial(_fetched, catalog, sql))
        _print_time(f"{question}, with opening", partial(query, home, sql))


def _print_time(what: str, do: Callable[[], Any], *, times: int = TIMES) -> None:
    walls, cpus = [], []
    for _ in range(times):
        wall, cpu = time.perf_counter(), _cpu()
        do()
        walls.append(time.perf_counter() - wall)
        cpus.append(_cpu() - cpu)
    print(
        f"{what:40} {1000 * statistics.median(walls):9.1f} ms {1000 * statistics.median(cpus):9.1f} ms CPU",
        flush=True,
    )


def _fetched(catalog: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    return catalog.execute(sql).fetchall()


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _one_more(home: Path) -> None:
    number = sum(1 for _ in (home / "documents").rglob("manifest.json"))
    workspace = Workspace(home=home)
    made = workspace.documents(number, FAMILIES[0])
    Store(home).mark(f"one-more-{number}", [made])
    take(home)


@dataclass(kw_only=True)
class Workspace:
    """A workspace in the making; files of one kind are links to one file."""

    home: Path
    models: dict[str, tuple[Path, str]] = field(default_factory=dict)

    def fill(self, number: int) -> None:
        """Half documents of repositories, a tenth each of rows, mixtures, runs; the rest selections."""
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
        """The documents of a family and a repository; those of the very first stand nowhere else."""
        labels = {"family": family, "repository": f"repository-{repository}"}
        model = "once" if (repository, family) == (0, FAMILIES[0]) else "documents"
        return self._publish("documents", labels, {"data/part-00000.parquet": model})

    def selection(self, at: int) -> Artefact:
        """The documents of a corpus that are selected."""
        return self._publish(
            "selections", {"corpus": f"corpus-{at}"}, {"selection.parquet": "selection"}
        )

    def rows(self, at: int) -> Artefact:
        """The rows of one family and objective."""
        labels = {
            "family": FAMILIES[at % 4],
            "objective": "causal",
            "variant": str(at // 4),
            "row_length": str(ROW_LENGTH),
            "split": "train",
        }
        return self._publish("rows", labels, {"data/part-00000.parquet": "rows"})

    def mixture(self, at: int, rows: Artefact) -> Artefact:
        """A plan of a specialist and a phase."""
        stratum = StratumReport.model_validate(
            {
                **dict.fromkeys(("stratum", "serving", "slots", "drawn_before"), 0),
                **dict.fromkeys(("rows", "rows_tokens", "drawn", "tokens"), LINES),
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
        report = MixtureReport.model_validate({**dict.fromkeys(numbers, LINES), "strata": strata})
        return self._publish(
            "mixtures",
            _phase(at),
            {"plan.parquet": "plan"},
            inputs=(rows.as_input("rows 0"),),
            report=report.model_dump(mode="json"),
        )

    def run(self, at: int, mixture: Artefact) -> Artefact:
        """A closed run with fifty figures."""
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
            steps=LINES,
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
        """An artefact as the store would publish it, without its waits for the disk."""
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
                InputRecord(name=each.name, key=each.key, content=each.content) for each in inputs
            ),
            tools={},
            files=tuple(records),
            report=dict(report or {}),
            created=datetime.datetime.now(datetime.UTC).isoformat(),
        )
        (folder / "manifest.json").write_text(manifest.model_dump_json(indent=1))
        return Artefact(path=folder, manifest=manifest)

    def _model(self, kind: str) -> tuple[Path, str]:
        """A file of a kind and its digest. A disk lets a file have so many links and no more."""
        used = sum(1 for name in self.models if name.startswith(kind))
        name = f"{kind}-{used - 1}"
        if name not in self.models or self.models[name][0].stat().st_nlink > 1000:
            name = f"{kind}-{used}"
            file = self.home / ".models" / f"{name}-{time.time_ns()}.parquet"
            file.parent.mkdir(exist_ok=True)
            schema = _SCHEMAS[kind]
            lines = [_line(kind, at) for at in range(LINES)]
            pq.write_table(pa.Table.from_pylist(lines, schema=schema), file, compression="zstd")
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


def _line(kind: str, at: int) -> dict[str, Any]:
    """A line of a file: of its own values those that questions ask for, and nothing elsewhere."""
    blank = {each.name: _blank(each.type) for each in _SCHEMAS[kind]}
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
