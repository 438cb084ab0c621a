"""SQL's rows of a step equal those of the training loader, and costs are correct."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from curriculum.catalog import open_catalog
from curriculum.catalog.views import text_of
from curriculum.store import Store
from curriculum.train.dataloader import MicroBatches, PlannedRows
from schemas.job import Job, Report

COLUMNS = ["pack_id", "document_ids", "valid_token_count"]
EXAMPLES = settings(max_examples=8, phases=[Phase.explicit, Phase.generate])
DRAWS = st.integers(min_value=0, max_value=10**6)
"""Numbers that pick a run, a step, a row of however many there are."""


Model = TypeVar("Model", bound=BaseModel)


def _at(kind: type[Model], file: Path) -> Model:
    return kind.model_validate_json(file.read_text())


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """A row that the loader gives."""

    position: int
    pack_id: str
    document_ids: tuple[str, ...]
    valid_tokens: int


class Demo:
    """The demo's runs as training sees them, and its catalog."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.catalog = open_catalog(home)
        closed = list(Store(home, dry=True).artefacts("runs"))
        self.jobs = [_at(Job, each.path / "job.json") for each in closed]
        reports = [_at(Report, each.path / "report.json") for each in closed]
        self.steps = [each.steps for each in reports]
        self.valid = [each.tokens.valid for each in reports]

    @cached_property
    def every(self) -> dict[tuple[int, int], list[Read]]:
        """Reads of each (run, step) by the loader, in plan order; steps are 1-based."""
        shards: dict[Path, pl.DataFrame] = {}
        found: dict[tuple[int, int], list[Read]] = {}
        for run, job in enumerate(self.jobs):
            rows = PlannedRows.from_job(job, self.home)
            micro = MicroBatches.from_job(job, rows)
            for step in range(self.steps[run]):
                positions = sorted(each for batch, _ in micro.of_step(step) for each in batch)
                found[run, step + 1] = [self._read(rows, each, shards) for each in positions]
        return found

    def _read(self, rows: PlannedRows, position: int, shards: dict[Path, pl.DataFrame]) -> Read:
        """The row at a position, from the very file and line that the loader opens."""
        there = rows.plan.at(position)
        file = sorted(rows.folders[there.rows_key].glob("data/part-*.parquet"))[there.shard]
        if file not in shards:
            shards[file] = pl.read_parquet(file, columns=COLUMNS)
        line = shards[file].row(there.row, named=True)
        assert line["pack_id"] == there.pack_id
        return Read(
            position=position,
            pack_id=line["pack_id"],
            document_ids=tuple(line["document_ids"]),
            valid_tokens=line["valid_token_count"],
        )

    def read(self, run: int, step: int) -> list[Read]:
        return self.every[run, step]

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self.catalog.execute(sql, list(values)).fetchall()

    @cached_property
    def commits(self) -> dict[str, set[str]]:
        """Commits by document id, read from the document's file."""
        files = sorted((self.home / "documents").rglob("part-*.parquet"))
        assert files
        found: dict[str, set[str]] = {}
        for file in files:
            for line in pl.read_parquet(file, columns=["document_id", "provenance"]).iter_rows(
                named=True
            ):
                commits = {each["commit"] for each in line["provenance"]}
                found.setdefault(line["document_id"], set()).update(commits)
        return found


@pytest.fixture(scope="module")
def world(demo_home: Path) -> Demo:
    return Demo(demo_home)


def picked(world: Demo, run: int, step: int) -> tuple[int, int]:
    run %= len(world.jobs)
    return run, step % world.steps[run] + 1


@EXAMPLES
@given(run=DRAWS, step=DRAWS)
def test_a_random_step_consumed_the_rows_and_documents_that_the_loader_reads(
    world: Demo, run: int, step: int
) -> None:
    run, step = picked(world, run, step)
    wanted = world.read(run, step)
    lines = world.ask(
        'SELECT position, pack_id, doc, document_id, "commit", valid_tokens FROM consumed(?, ?)',
        world.jobs[run].run_key,
        step,
    )
    assert wanted
    assert sorted({(line[0], line[1], line[5]) for line in lines}) == [
        (each.position, each.pack_id, each.valid_tokens) for each in wanted
    ]
    assert {(line[0], line[2], line[3], line[4]) for line in lines} == {
        (each.position, number, document, commit)
        for each in wanted
        for number, document in enumerate(each.document_ids)
        for commit in world.commits[document]
    }


@EXAMPLES
@given(run=DRAWS, step=DRAWS, which=DRAWS)
def test_the_consumers_of_a_commit_are_the_steps_that_read_one_of_its_documents(
    world: Demo, run: int, step: int, which: int
) -> None:
    run, step = picked(world, run, step)
    documents = [name for each in world.read(run, step) for name in each.document_ids]
    commit = sorted(world.commits[documents[which % len(documents)]])[0]
    found = {
        (line[0], line[1]): line[2:]
        for line in world.ask("SELECT run_key, step, rows, documents FROM consumers(?)", commit)
    }
    wanted: dict[tuple[str, int], tuple[int, int]] = {}
    for at, job in enumerate(world.jobs):
        for each in range(1, world.steps[at] + 1):
            held = [
                (row.position, name)
                for row in world.read(at, each)
                for name in row.document_ids
                if commit in world.commits[name]
            ]
            if held:
                rows, names = ({one[part] for one in held} for part in (0, 1))
                wanted[job.run_key, each] = len(rows), len(names)
    assert (world.jobs[run].run_key, step) in wanted
    assert found == wanted


def test_the_steps_of_a_run_hold_exactly_the_tokens_that_it_reports(world: Demo) -> None:
    sums = dict(world.ask("SELECT run_key, sum(valid_tokens)::BIGINT FROM steps GROUP BY ALL"))
    assert sums == {job.run_key: valid for job, valid in zip(world.jobs, world.valid, strict=True)}


@EXAMPLES
@given(run=DRAWS, step=DRAWS)
def test_what_was_seen_before_a_step_is_all_runs_before_and_the_steps_before_it(
    world: Demo, run: int, step: int
) -> None:
    run, step = picked(world, run, step)
    keys = [job.run_key for job in world.jobs]
    line, job = [], world.jobs[run]
    while job.start_from is not None:
        line.append(
            (keys.index(job.start_from.run_key), int(job.start_from.path.rpartition("=")[2]))
        )
        job = world.jobs[line[-1][0]]
    wanted = [
        (keys[at], each, read.pack_id)
        for at, last in [*reversed(line), (run, step - 1)]
        for each in range(1, last + 1)
        for read in world.read(at, each)
    ]
    found = world.ask("SELECT run_key, step, pack_id FROM seen_before(?, ?)", keys[run], step)
    assert sorted(found) == sorted(wanted)


def test_realised_tokens_are_those_of_the_run_and_shares_sum_to_one(world: Demo) -> None:
    for job, valid in zip(world.jobs, world.valid, strict=True):
        ((tokens, realised, planned, drift),) = world.ask(
            "SELECT sum(realised_tokens)::BIGINT, sum(realised_share), sum(planned_share), max(abs(drift)) "
            "FROM planned_vs_realised(?, ?)",
            f"{job.specialist}/{job.branch}",
            job.phase,
        )
        assert tokens == valid
        assert realised == pytest.approx(1)
        assert planned == pytest.approx(1)
        assert drift < 0.2


@EXAMPLES
@given(which=DRAWS)
def test_provenance_counts_the_bytes_of_each_source_that_stand_in_a_row(
    world: Demo, which: int
) -> None:
    packs = world.ask("SELECT pack_id FROM steps ORDER BY position, pack_id")
    (pack,) = packs[which % len(packs)]
    found = {
        (line[0], line[1]): line[2]
        for line in world.ask("SELECT doc, source, bytes_in_row FROM provenance(?)", pack)
    }
    ((documents, pieces),) = world.ask(
        "SELECT document_ids, pieces FROM rows WHERE pack_id = ?", pack
    )
    wanted: dict[tuple[int, int], int] = {}
    for number, name in enumerate(documents):
        ((parts, sources),) = world.ask(
            "SELECT parts, len(provenance) FROM documents WHERE document_id = ?", name
        )
        for source in range(sources):
            wanted[number, source] = _overlap(
                [each for each in parts if each["source"] == source],
                [each for each in pieces if each["doc"] == number and each["kind"] == 0],
            )
    assert wanted
    assert found == wanted


def _overlap(parts: Sequence[dict[str, int]], pieces: Sequence[dict[str, int]]) -> int:
    return sum(
        max(0, min(part["end"], piece["byte_end"]) - max(part["start"], piece["byte_start"]))
        for part in parts
        for piece in pieces
    )


def test_a_run_is_meant_by_its_name_and_by_its_key(world: Demo) -> None:
    (job,) = (each for each in world.jobs if each.phase == "syntax")
    for name in ("templates/*/syntax", "templates/demo/syntax", job.run_key[:8], job.run_key):
        assert world.ask("SELECT run_key, attempt FROM run_named(?)", name) == [(job.run_key, 1)]
    # There is none without a branch.
    for name in ("templates/syntax", "templates/nonesuch", job.run_key[:3]):
        with pytest.raises(duckdb.InvalidInputException, match=f"'{name}'"):
            world.ask("FROM run_named(?)", name)


def test_a_checkpoint_holds_a_step_from_that_step_on_and_in_all_that_goes_on_from_it(
    world: Demo,
) -> None:
    (at,) = (number for number, each in enumerate(world.jobs) if each.phase == "file_graph")
    found = world.ask(
        "SELECT phase, step FROM checkpoints_after(?, ?)",
        "templates/demo/file_graph",
        world.steps[at],
    )
    assert {phase for phase, _ in found} == {
        "file_graph",
        "repository_graph",
        "structure",
        "anneal",
    }
    assert [step for phase, step in found if phase == "file_graph"] == [world.steps[at]]


@pytest.fixture
def bare() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with tables that a test fills, as sql/*.sql find them."""
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA internal")
    yield connection
    connection.close()


def test_money_of_all_attempts_counts_and_val_bpb_is_that_of_the_last(
    bare: duckdb.DuckDBPyConnection,
) -> None:
    bare.execute("""
        CREATE TABLE attempts AS SELECT * FROM (VALUES
            ('a', 'syntax', 1, 'finished', false, 1, 10, 100, 50.0, 50.0, 2.0, 4.0, 3.0),
            ('a', 'syntax', 2, 'finished', true, 3, 10, 100, 60.0, 60.0, 3.0, 4.0, 3.5),
            ('a', 'syntax', 3, 'running', true, 4, 5, 50, 1.0, 1.0, NULL, NULL, 3.9),
            ('a/b', 'syntax', 1, 'finished', true, 2, 10, 100, 50.0, 0.0, NULL, 4.0, 4.5)
        ) t(specialist, phase, attempt, state, current, ordinal, steps, valid_tokens, seconds,
            gpu_seconds, cost, phase_bpb_before, phase_bpb_after)
    """)
    bare.execute(text_of("costs"))
    found = bare.execute("""
        SELECT specialist, runs, seconds, cost, bpb_before, bpb_after, won, seconds_per_hundredth,
               cost_per_hundredth
        FROM costs ORDER BY specialist
    """).fetchall()
    assert found == [
        ("a", 3, 111.0, 5.0, 4.0, 3.5, 0.5, pytest.approx(2.22), pytest.approx(0.1)),
        ("a/b", 1, 50.0, None, 4.0, 4.5, -0.5, None, None),
    ]
