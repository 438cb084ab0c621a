"""Every question of the cookbook has the answer that the demo's files give when they are read by hand.

What is expected is counted from Parquet, JSON and manifests by polars and plain loops, never through the
catalog; which rows a step read comes from the loader that training uses.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from curriculum.catalog import open_catalog
from curriculum.store import Store, garbage
from curriculum.train.dataloader import MicroBatches, PlannedRows
from dashboards.questions import Question, cookbook, recipes
from schemas.job import Figure, Job, Report
from schemas.mixture import MixtureReport

Lines = list[tuple[Any, ...]]
Row = dict[str, Any]
COLUMNS = [
    *("pack_id", "family", "objective", "domain", "split", "document_ids", "doc_starts"),
    *("valid_token_count", "loss_token_count", "context_histogram"),
]
ENOUGH = 20
PHASES = ("syntax", "file_graph", "repository_graph", "structure", "anneal")


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """A row that a step read."""

    phase: str
    step: int
    position: int
    row: Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A closed run of the demo."""

    key: str
    path: Path
    job: Job
    report: Report
    metrics: pl.DataFrame


class Demo:
    """The demo's workspace, read by hand; the demo has one run a phase and one document an id."""

    def __init__(self, home: Path) -> None:
        self.home = home
        store = Store(home, dry=True)
        self.everything = list(store.artefacts())
        dead = {each.path for each in garbage(store)}
        self.live = [each for each in self.everything if each.path not in dead]

    def files(self, stage: str) -> Iterator[tuple[Any, Path]]:
        """The shards of a stage, or its other Parquet files, each with its artefact."""
        for each in self.live:
            if each.manifest.stage == stage:
                yield from ((each, file) for file in each.shards() or each.files())

    @cached_property
    def documents(self) -> dict[str, Row]:
        """Documents by id, with their repository."""
        found = {}
        for artefact, file in self.files("documents"):
            for row in pl.read_parquet(file).iter_rows(named=True):
                found[row["document_id"]] = row | {
                    "repository": artefact.manifest.labels["repository"]
                }
        return found

    @cached_property
    def rows(self) -> list[Row]:
        """Every packed row, without its token lists."""
        return [
            row
            | {
                "rows_key": artefact.key,
                "row_length": int(artefact.manifest.labels["row_length"]),
                "base": artefact.manifest.labels.get("base"),
                "beside": artefact.manifest.labels.get("beside"),
            }
            for artefact, file in self.files("rows")
            for row in pl.read_parquet(file, columns=COLUMNS).iter_rows(named=True)
        ]

    @cached_property
    def train(self) -> list[Row]:
        return [row for row in self.rows if row["split"] == "train"]

    @cached_property
    def runs(self) -> dict[str, Run]:
        """Runs by phase, in the order of the curriculum."""
        found = {}
        for each in self.live:
            if each.manifest.stage == "runs":
                parts = sorted((each.path / "metrics").glob("*.parquet"))
                found[each.manifest.labels["phase"]] = Run(
                    key=each.key,
                    path=each.path,
                    job=Job.model_validate_json((each.path / "job.json").read_text()),
                    report=Report.model_validate_json((each.path / "report.json").read_text()),
                    metrics=pl.concat(map(pl.read_parquet, parts)).sort("step"),
                )
        return {name: found[name] for name in PHASES}

    @cached_property
    def visits(self) -> list[Visit]:
        """Reads of each run's loader, step by step."""
        there = {row["pack_id"]: row for row in self.rows}
        found = []
        for phase, run in self.runs.items():
            rows = PlannedRows.from_job(run.job, self.home)
            batches = MicroBatches.from_job(run.job, rows)
            for step in range(run.report.steps):
                for position in sorted(at for micro, _ in batches.of_step(step) for at in micro):
                    row = there[rows.plan.at(position).pack_id]
                    found.append(Visit(phase=phase, step=step + 1, position=position, row=row))
        return found

    @cached_property
    def windows(self) -> dict[str, set[bytes]]:
        """The different windows of each row: a scored token with the 15 before it in its document."""
        columns = ["pack_id", "input_ids", "loss_mask", "doc_starts"]
        found = {}
        for _, file in self.files("rows"):
            for row in pl.read_parquet(file, columns=columns).iter_rows(named=True):
                scored = np.flatnonzero(row["loss_mask"]) + 1
                ends = [*row["doc_starts"][1:], len(row["input_ids"])]
                mine: set[bytes] = set()
                for start, end in zip(row["doc_starts"], ends, strict=True):
                    padded = np.array([*[-1] * 15, *row["input_ids"][start:end]], np.int32)
                    windows = np.lib.stride_tricks.sliding_window_view(padded, 16)
                    inside = scored[(scored >= start) & (scored < end)]
                    mine |= {window.tobytes() for window in windows[inside - start]}
                found[row["pack_id"]] = mine
        return found

    def mixture(self, phase: str) -> MixtureReport:
        (found,) = (
            each
            for each in self.live
            if each.manifest.stage == "mixtures" and each.manifest.labels["phase"] == phase
        )
        return MixtureReport.model_validate(found.manifest.report)


def spans(row: Row) -> Iterator[tuple[str, int]]:
    """The documents of a row with the tokens that each has in it."""
    ends = [*row["doc_starts"][1:], row["valid_token_count"]]
    for name, start, end in zip(row["document_ids"], row["doc_starts"], ends, strict=True):
        yield name, end - start


def commit(document: Row) -> str:
    (only,) = {each["commit"] for each in document["provenance"]}
    return str(only)


def file_of(document: Row) -> tuple[str, str, str]:
    """Repository, path and commit of the file that a document is about."""
    own = (each for each in document["provenance"] if each["lineage"] == document["lineage"])
    return document["repository"], next(own)["path"], commit(document)


def half_up(value: float, digits: int) -> float:
    """Round as SQL does: halves away from zero."""
    scale = 10.0**digits
    return math.copysign(math.floor(abs(value) * scale + 0.5), value) / scale


@pytest.fixture(scope="module")
def world(demo_home: Path) -> Demo:
    return Demo(demo_home)


@pytest.fixture(scope="module")
def catalog(demo_home: Path) -> duckdb.DuckDBPyConnection:
    return open_catalog(demo_home)


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    return open_catalog(tmp_path_factory.mktemp("nothing"))


CHECKS: dict[str, Callable[[Demo], Lines]] = {}


def answers(check: Callable[[Demo], Lines]) -> Callable[[Demo], Lines]:
    """Let a function say what the question of its name must be answered."""
    CHECKS[check.__name__] = check
    return check


def answers_by_specialist(check: Callable[[Demo], Lines]) -> Callable[[Demo], Lines]:
    """Do so for a question whose lines begin with their specialist; the demo has one."""
    CHECKS[check.__name__] = lambda world: [("templates/demo", *line) for line in check(world)]
    return check


@answers_by_specialist
def read_by_family(world: Demo) -> Lines:
    rows: Counter[tuple[str, str]] = Counter()
    tokens: Counter[tuple[str, str]] = Counter()
    for each in world.visits:
        rows[each.phase, each.row["family"]] += 1
        tokens[each.phase, each.row["family"]] += each.row["valid_token_count"]
    whole = {phase: run.report.tokens.valid for phase, run in world.runs.items()}
    return [
        (phase, family, rows[phase, family], count, half_up(100 * count / whole[phase], 1))
        for (phase, family), count in tokens.items()
    ]


@answers_by_specialist
def read_by_licence(world: Demo) -> Lines:
    documents, commits, tokens = defaultdict(set), defaultdict(set), Counter[str]()
    for visit in world.visits:
        for name, count in spans(visit.row):
            licence = world.documents[name]["licence"] or "none found"
            documents[licence].add(name)
            commits[licence].add(commit(world.documents[name]))
            tokens[licence] += count
    return [(each, len(documents[each]), len(commits[each]), tokens[each]) for each in tokens]


def _by_repository(world: Demo) -> Counter[str]:
    tokens: Counter[str] = Counter()
    for visit in world.visits:
        for name, count in spans(visit.row):
            tokens[world.documents[name]["repository"]] += count
    return tokens


@answers_by_specialist
def read_by_repository(world: Demo) -> Lines:
    tokens, so_far, lines = _by_repository(world), 0, []
    for repository, count in tokens.most_common():
        so_far += count
        shares = (100 * each / tokens.total() for each in (count, so_far))
        lines.append((repository, count, *(half_up(share, 1) for share in shares)))
    return lines


@answers
def duplicates(world: Demo) -> Lines:
    places, commits = defaultdict(set), defaultdict(set)
    for document in world.documents.values():
        for each in document["provenance"]:
            places[each["blob"]].add(f"{each['repository']}:{each['path']}")
            commits[each["blob"]].add(each["commit"])
    return [
        (blob, len(where), len(commits[blob]), min(where), max(where))
        for blob, where in places.items()
        if len(where) > 1
    ]


@answers_by_specialist
def seen_most_often(world: Demo) -> Lines:
    times, phases = defaultdict(set), defaultdict(set)
    for visit in world.visits:
        for name in visit.row["document_ids"]:
            times[name].add((visit.phase, visit.position))
            phases[name].add(visit.phase)
    lines = [
        (
            name,
            world.documents[name]["family"],
            *file_of(world.documents[name])[:2],
            len(seen),
            len(phases[name]),
        )
        for name, seen in times.items()
    ]
    return sorted(lines, key=lambda line: (-line[4], line[0]))[:50]


@answers
def longest_context(world: Demo) -> Lines:
    lengths: dict[tuple[str, int], list[int]] = defaultdict(list)
    scored: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in world.train:
        group = row["family"], row["row_length"]
        lengths[group] += [count for _, count in spans(row)]
        scored[group][0] += row["loss_token_count"]
        scored[group][1] += row["context_histogram"][0]
        scored[group][2] += row["context_histogram"][3]
    return [
        (
            *group,
            max(found),
            half_up(sum(found) / len(found), 1),
            half_up(100 * (1 - scored[group][1] / scored[group][0]), 2),
            half_up(100 * scored[group][2] / scored[group][0], 2),
        )
        for group, found in lengths.items()
    ]


@answers
def yield_by_data_set(world: Demo) -> Lines:
    groups = defaultdict(list)
    for row in world.train:
        objective = row["objective"] + (f" beside {row['beside']}" if row["beside"] else "")
        place = row["family"], row["base"], objective, row["row_length"], row["domain"]
        groups[place].append(row)
    lines = []
    for group, rows in groups.items():
        tokens = sum(row["valid_token_count"] for row in rows)
        positions = sum(row["row_length"] for row in rows)
        scored = sum(row["loss_token_count"] for row in rows)
        shares = half_up(100 * tokens / positions, 1), half_up(100 * scored / tokens, 1)
        lines.append((*group, len(rows), tokens, *shares))
    return lines


@answers
def why_rejected(world: Demo) -> Lines:
    lines: Lines = []
    for each in world.live:
        labels, left_out = each.manifest.labels, each.manifest.report.get("left_out")
        if each.manifest.stage == "documents" and isinstance(left_out, dict):
            lines += [
                ("documents", labels["family"], labels["repository"], why, count, None)
                for why, count in left_out.items()
            ]
    rejected: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for _, file in world.files("selections"):
        if file.name == "selection.parquet":
            for row in pl.read_parquet(file).filter(~pl.col("keep")).iter_rows(named=True):
                why = f"{row['reason']}: {row['rule']}"
                example = f"{row['lineage']}  {row['evidence'] or ''}"
                rejected["selection", row["family"], row["repository"], why].append(example)
    assert rejected, "the demo rejects twins of the same source text"
    return lines + [(*key, len(found), min(found)) for key, found in rejected.items()]


def _figures(figures: tuple[Figure, ...], phase: str) -> dict[tuple[str, str], Figure]:
    return {
        (each.family, each.domain): each
        for each in figures
        if (each.set, each.phase) == ("phase", phase)
    }


@answers
def bpb_by_set(world: Demo) -> Lines:
    lines = []
    for phase, run in sorted(world.runs.items()):
        first, last = (
            {
                tuple(line[name] for name in DOCUMENT): line
                for line in pl.read_parquet(
                    run.path / "evaluations" / f"step={step}" / "documents.parquet"
                ).to_dicts()
            }
            for step in (0, run.report.steps)
        )
        for of_phase, which in sorted({place[:2] for place in last}):
            pairs = [(first[each], last[each]) for each in last if each[:2] == (of_phase, which)]
            fell = sum(after["nats"] - before["nats"] for before, after in pairs)
            size = sum(after["bytes"] for _, after in pairs)
            better = sum(after["nats"] < before["nats"] for before, after in pairs)
            change = round(fell / math.log(2) / size, 4)
            places = ("templates/demo", phase, of_phase, which)
            lines.append((*places, len(pairs), better, change))
    return lines


DOCUMENT = ("phase", "set", "rows_key", "domain", "document_id")


@answers
def bpb_by_domain(world: Demo) -> Lines:
    lines = []
    for phase, run in world.runs.items():
        if phase == "anneal":
            continue
        pairs = [
            (a, b)
            for a in run.report.after
            for b in run.report.before
            if (a.set, a.phase, a.family, a.domain) == ("phase", phase, b.family, b.domain)
            and (b.set, b.phase) == ("phase", phase)
        ]
        lines += [
            (
                *("templates/demo", phase, a.family, a.domain),
                *(half_up(b.val_bpb, 4), half_up(a.val_bpb, 4), half_up(a.val_bpb - b.val_bpb, 4)),
                *((half_up(a.low, 4), half_up(a.high, 4)) if a.is_sure else (None, None)),
                *(a.documents, a.lineages),
            )
            for a, b in pairs
        ]
    return lines


@answers
def forgetting(world: Demo) -> Lines:
    lines = []
    for at, after in enumerate(PHASES):
        for phase in PHASES[:at]:
            own = _figures(world.runs[phase].report.after, phase)["*", "*"]
            now = _figures(world.runs[after].report.after, phase)["*", "*"]
            bits = own.val_bpb, now.val_bpb, now.val_bpb - own.val_bpb
            rounded = (half_up(each, 4) for each in bits)
            is_sure = now.is_sure and now.low > own.val_bpb
            of = now.documents, now.lineages
            lines.append(("templates/demo", phase, after, *rounded, is_sure, *of))
    return lines


@answers
def cost_of_bpb(world: Demo) -> Lines:
    lines = []
    for phase, run in world.runs.items():
        own = "structure" if phase == "anneal" else phase
        told = run.report
        before, after = (
            _figures(each, own)["*", "*"].val_bpb for each in (told.before, told.after)
        )
        won = before - after
        lines.append(
            (
                *("templates/demo", phase, 1, told.tokens.valid, half_up(told.seconds, 1), None),
                half_up(won, 4),
                half_up(told.seconds / won / 100, 2) if won > 0 else None,
                None,
            )
        )
    return lines


@answers
def before_a_spike(world: Demo) -> Lines:
    rises = []
    for phase, run in world.runs.items():
        norms = run.metrics["gradient_norm"].to_list()
        for at in range(1, len(norms)):
            before = norms[max(0, at - 5) : at]
            rises.append((norms[at] / (sum(before) / len(before)), phase, at + 1))
    rise, phase, spike = max(rises)
    return [
        (
            *("templates/demo", phase, visit.step, spike, half_up(rise, 2)),
            visit.row["pack_id"],
            *file_of(world.documents[name]),
        )
        for visit in world.visits
        if visit.phase == phase and visit.step in (spike - 1, spike)
        for name in visit.row["document_ids"]
    ]


@answers
def what_is_stale(world: Demo) -> Lines:
    return []


@answers_by_specialist
def licences_of_checkpoint(world: Demo) -> Lines:
    documents, commits, repositories = defaultdict(set), defaultdict(set), defaultdict(set)
    for visit in world.visits:
        for name in visit.row["document_ids"]:
            document = world.documents[name]
            licence = document["licence"] or "none found"
            documents[licence].add(name)
            commits[licence].add(commit(document))
            repositories[licence].add(document["repository"])
    return [
        (each, len(repositories[each]), len(commits[each]), len(documents[each]))
        for each in documents
    ]


@answers_by_specialist
def commits_by_phase(world: Demo) -> Lines:
    known: set[str] = set()
    lines = []
    for phase in PHASES:
        read = [
            world.documents[name]
            for visit in world.visits
            if visit.phase == phase
            for name in visit.row["document_ids"]
        ]
        seen = {commit(each) for each in read}
        lines.append(
            (phase, len(seen), len(seen - known), len({each["repository"] for each in read}))
        )
        known |= seen
    return lines


@answers_by_specialist
def planned_against_realised(world: Demo) -> Lines:
    mixture = world.mixture("syntax")
    realised: Counter[tuple[str, str]] = Counter()
    for visit in world.visits:
        if visit.phase == "syntax":
            realised[visit.row["family"], visit.row["domain"]] += visit.row["valid_token_count"]
    lines = []
    for each in mixture.strata:
        share = realised[each.family, each.domain] / realised.total()
        shares = each.share, each.tokens / mixture.tokens, share, share - each.served
        rounded = (half_up(100 * value, 2) for value in shares)
        lines.append((each.family, each.objective, each.domain, each.row_length, *rounded))
    return lines


@answers_by_specialist
def tokens_left(world: Demo) -> Lines:
    seen = {visit.row["pack_id"] for visit in world.visits}
    groups = defaultdict(list)
    for row in world.train:
        groups[row["family"], row["row_length"], row["domain"]].append(row)
    lines = []
    for group, rows in groups.items():
        left = [row for row in rows if row["pack_id"] not in seen]
        both = ((len(some), sum(row["valid_token_count"] for row in some)) for some in (rows, left))
        lines.append((*group, *(count for pair in both for count in pair)))
    return lines


@answers_by_specialist
def epochs_by_serving(world: Demo) -> Lines:
    taken: Counter[tuple[str, str]] = Counter()
    for visit in world.visits:
        if visit.phase == "syntax":
            taken[visit.row["family"], visit.row["domain"]] += 1
    return [
        (
            *(each.family, each.objective, each.domain, each.row_length, each.rows, 0.0),
            half_up(each.drawn / each.rows, 2),
            half_up(taken[each.family, each.domain] / each.rows, 2),
            4.0,
            max(0, each.rows - taken[each.family, each.domain]),
        )
        for each in world.mixture("syntax").strata
    ]


@answers_by_specialist
def new_tokens_by_phase(world: Demo) -> Lines:
    shown: set[bytes] = set()
    so_far, lines = 0, []
    for phase in PHASES:
        visited = [visit.row for visit in world.visits if visit.phase == phase]
        scored = sum(row["loss_token_count"] for row in visited)
        mine = set[bytes]().union(*(world.windows[row["pack_id"]] for row in visited))
        new = mine - shown
        shown |= new
        so_far += scored
        lines.append((phase, scored, len(mine), len(new), half_up(so_far / len(shown), 2)))
    assert 1 < so_far / len(shown) < 100, "phases show some text again"
    return lines


@answers
def loss_curve(world: Demo) -> Lines:
    lines = []
    for phase, run in world.runs.items():
        steps = run.metrics.to_dicts()
        for first in range(0, len(steps), 10):
            ten = steps[first : first + 10]
            lines.append(
                (
                    *("templates/demo", phase, 1, first + 10),
                    half_up(sum(each["loss"] for each in ten) / len(ten), 4),
                    half_up(max(each["gradient_norm"] for each in ten), 3),
                    half_up(ten[-1]["learning_rate"], 6),
                    sum(each["valid_tokens"] for each in ten),
                )
            )
    return lines


def _readers(world: Demo) -> dict[str, dict[tuple[str, int], list[tuple[str, int, int]]]]:
    """Documents, positions and tokens read of each commit, by commit and step."""
    found: dict[str, dict[tuple[str, int], list[tuple[str, int, int]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for visit in world.visits:
        for name, count in spans(visit.row):
            place = visit.phase, visit.step
            found[commit(world.documents[name])][place].append((name, visit.position, count))
    return found


@answers
def who_saw_the_commit(world: Demo) -> Lines:
    readers = _readers(world)
    most = min(readers, key=lambda each: (-len(readers[each]), each))
    return [
        (
            *("templates/demo", phase, world.runs[phase].key, step),
            len({position for _, position, _ in read}),
            len({name for name, _, _ in read}),
            sum(count for _, _, count in read),
        )
        for (phase, step), read in readers[most].items()
    ]


@answers_by_specialist
def what_a_step_read(world: Demo) -> Lines:
    return [
        (
            *(visit.position, visit.row["pack_id"], visit.row["family"], visit.row["domain"]),
            *(number, name, count, *file_of(document), document["licence"]),
        )
        for visit in world.visits
        if (visit.phase, visit.step) == ("syntax", 3)
        for number, (name, count) in enumerate(spans(visit.row))
        if (document := world.documents[name])
    ]


@answers_by_specialist
def seen_again(world: Demo) -> Lines:
    known: set[str] = set()
    rows, again = Counter[str](), Counter[str]()
    for visit in world.visits:
        rows[visit.phase] += 1
        again[visit.phase] += visit.row["pack_id"] in known
        known.add(visit.row["pack_id"])
    return [
        (phase, rows[phase], again[phase], half_up(100 * again[phase] / rows[phase], 1))
        for phase in PHASES
    ]


@answers
def val_in_train(world: Demo) -> Lines:
    sides = defaultdict(set)
    for row in world.rows:
        for name in row["document_ids"]:
            sides[world.documents[name]["lineage"]].add(row["split"] == "train")
    assert {len(each) for each in sides.values()} == {1}
    assert {next(iter(each)) for each in sides.values()} == {True, False}
    return []


@answers
def divided_documents(world: Demo) -> Lines:
    rows = defaultdict(set)
    for row in world.train:
        for name in row["document_ids"]:
            rows[row["family"], row["row_length"], row["rows_key"], name].add(row["pack_id"])
    groups = defaultdict(list)
    for (family, length, _, _), packs in rows.items():
        groups[family, length].append(len(packs))
    return [
        (*group, len(counts), sum(each > 1 for each in counts), max(counts))
        for group, counts in groups.items()
    ]


@answers
def speed_by_phase(world: Demo) -> Lines:
    lines = []
    for phase, run in world.runs.items():
        steps = run.metrics.to_dicts()
        seconds = sum(each["seconds"] for each in steps)
        scored = sum(each["scored_tokens"] for each in steps)
        padding = sum(each["padding_share"] for each in steps) / len(steps)
        density = sum(each["attention_density"] for each in steps) / len(steps)
        context = sum(each["mean_context"] * each["scored_tokens"] for each in steps) / scored
        valid = sum(each["valid_tokens"] for each in steps)
        speeds = half_up(seconds, 1), half_up(valid / seconds, 0)
        shares = half_up(100 * padding, 2), half_up(100 * density, 1), half_up(context, 1)
        lines.append(("templates/demo", phase, 1, len(steps), *speeds, *shares))
    return lines


@answers
def disk_by_stage(world: Demo) -> Lines:
    stages = defaultdict(list)
    live = {each.path for each in world.live}
    for each in world.everything:
        size = sum(
            (each.path / record["name"]).stat().st_size
            for record in json.loads((each.path / "manifest.json").read_text())["files"]
        )
        stages[each.manifest.stage].append((size, each.path in live))
    return [
        (
            *(stage, len(found), sum(size for size, _ in found)),
            sum(not used for _, used in found),
            sum(size for size, used in found if not used),
        )
        for stage, found in stages.items()
    ]


@answers
def age_of_code(world: Demo) -> Lines:
    groups = defaultdict(list)
    for each in world.documents.values():
        year = str(datetime.fromtimestamp(each["timestamp"], UTC).year)
        groups[each["repository"], year].append(each["num_bytes"])
    return [(*group, len(sizes), sum(sizes)) for group, sizes in groups.items()]


EMPTY = {"what_is_stale", "val_in_train"}
"""Recipes whose answer is empty."""


def _order(line: tuple[Any, ...]) -> list[str]:
    return [f"{value:.6g}" if isinstance(value, float) else str(value) for value in line]


@pytest.mark.parametrize("name", CHECKS)
def test_a_question_has_the_answer_that_the_files_give(
    name: str, world: Demo, catalog: duckdb.DuckDBPyConnection
) -> None:
    (recipe,) = (each for each in recipes() if each.name == name)
    found = sorted(catalog.execute(recipe.sql).fetchall(), key=_order)
    wanted = sorted(CHECKS[name](world), key=_order)
    assert bool(wanted) == (name not in EMPTY)
    assert len(found) == len(wanted)
    for line, right in zip(found, wanted, strict=True):
        assert line == pytest.approx(right, abs=1e-9)


def test_every_question_of_the_cookbook_is_checked() -> None:
    assert {each.name for each in recipes()} == set(CHECKS)
    assert len(CHECKS) >= ENOUGH


@pytest.mark.parametrize("recipe", recipes(), ids=lambda each: str(each.name))
def test_a_recipe_is_a_question_and_one_select_that_an_empty_workspace_answers(
    recipe: Question, nothing: duckdb.DuckDBPyConnection
) -> None:
    asked, mark, _ = recipe.words.partition("?")
    assert mark
    assert asked[0].isupper()
    (statement,) = duckdb.extract_statements(recipe.sql)
    assert statement.type.name == "SELECT"
    if "'templates/*" not in recipe.sql:
        assert nothing.execute(recipe.sql).fetchall() == []
        return
    with pytest.raises(duckdb.InvalidInputException, match=r"there is no .* nor any other"):
        nothing.execute(recipe.sql).fetchall()


def test_the_cookbook_prints_each_question_with_its_sql() -> None:
    text = cookbook()
    assert text.count("<details><summary>") == len(recipes())
    assert text.count("```sql") == len(recipes())
    assert all(each.sql.splitlines()[-1] in text for each in recipes())
