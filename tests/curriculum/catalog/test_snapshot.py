"""A snapshot reads what is new, keeps the rest, and names what can't be read; all else answers."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum import catalog
from curriculum.catalog import open_catalog, query, snapshot
from curriculum.catalog.page_query import ask
from curriculum.catalog.snapshot import walk
from curriculum.store import Artefact, Recipe, StagingDirectory, Store, garbage, published
from curriculum.train.run_directory import lock_launch
from schemas.job import (
    METRICS_SCHEMA,
    Heartbeat,
    Job,
    ModelSpec,
    OptimizerSpec,
    RowsSource,
    RunState,
    TokenizerRef,
)
from schemas.json_text import now
from schemas.manifest import read_manifest
from schemas.mixture import LEFT_OUT_SCHEMA, PLAN_SCHEMA, MixtureReport
from tests.factories import READ_ONCE, run_report, training


def _lines(schema: pa.Schema, number: int) -> pa.Table:
    """So many lines of no importance."""
    line = {
        field.name: "k" if pa.types.is_string(field.type) else 1
        for field in schema
        if pa.types.is_string(field.type) or not pa.types.is_nested(field.type)
    }
    return pa.Table.from_pylist([line] * number, schema=schema)


def _publish(home: Path, phase: str, number: int = 3, revision: int = 1) -> Artefact:
    """A mixture of so many rows; its report is empty, as no version wrote it."""
    store = Store(home)
    recipe = Recipe(
        stage="mixtures",
        labels=(("specialist", "s"), ("phase", phase)),
        revision=revision,
        config={"phase": phase},
    )

    def fill(drafts: list[StagingDirectory]) -> None:
        pq.write_table(_lines(PLAN_SCHEMA, number), drafts[0].path / "plan.parquet")

    (made,) = store.produce([recipe], fill)  # type: ignore[arg-type]
    store.mark(phase, [made])
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace of two mixtures."""
    home = tmp_path / "home"
    _publish(home, "one")
    _publish(home, "two")
    return home


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The phases of the manifests that were read, one after another."""
    seen: list[str] = []

    def reading(path: Path) -> Artefact:
        artefact = published(path)
        seen.append(artefact.manifest.labels["phase"])
        return artefact

    monkeypatch.setattr(snapshot, "artefact_at", reading)
    return seen


def _well(home: Path, phase: str, *, budget: int = 5) -> None:
    """Let a mixture's manifest hold a report as a mix writes it."""
    numbers = ("slot_length", "slots", "rows", "tokens", "tokens_per_step", "steps")
    report = MixtureReport.model_validate(
        {**dict.fromkeys(numbers, 1), "budget": budget, "strata": (), "repetition": READ_ONCE}
    )
    (file,) = (home / "mixtures" / "specialist-s" / f"phase-{phase}").glob("*/manifest.json")
    manifest = read_manifest(file)
    file.write_text(
        manifest.model_copy(update={"report": report.model_dump(mode="json")}).model_dump_json()
    )


def _budgets(home: Path) -> list[tuple[object, ...]]:
    return query(home, "SELECT phase, budget FROM mixtures ORDER BY phase").rows


def test_a_manifest_that_did_not_change_is_not_read_again(home: Path, read: list[str]) -> None:
    _well(home, "one")
    _well(home, "two")
    assert _budgets(home) == [("one", 5), ("two", 5)]
    assert sorted(read) == ["one", "two"]
    assert _budgets(home) == [("one", 5), ("two", 5)]
    _publish(home, "three")
    _well(home, "three", budget=7)
    assert _budgets(home) == [("one", 5), ("three", 7), ("two", 5)]
    assert sorted(read) == ["one", "three", "two"]


def test_a_manifest_that_changed_is_read_again_and_replaces_its_lines(home: Path) -> None:
    _well(home, "one")
    _well(home, "two")
    assert _budgets(home) == [("one", 5), ("two", 5)]
    _well(home, "two", budget=123_456)
    assert _budgets(home) == [("one", 5), ("two", 123_456)]


def test_what_was_removed_is_gone(home: Path) -> None:
    _well(home, "one")
    _well(home, "two")
    assert _budgets(home) == [("one", 5), ("two", 5)]
    shutil.rmtree(home / "mixtures" / "specialist-s" / "phase-one")
    assert _budgets(home) == [("two", 5)]


def test_kept_tables_that_a_loss_of_power_emptied_are_made_anew(home: Path) -> None:
    _well(home, "one")
    _well(home, "two")
    before = _budgets(home)
    for file in (home / "catalog").rglob("*.parquet"):
        file.write_bytes(b"")
    assert _budgets(home) == before


def test_a_workspace_that_cannot_be_written_answers_from_memory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Path.mkdir

    def refuse(folder: Path, *options: object, **others: bool) -> None:
        if folder == home / "catalog":
            raise PermissionError("a read-only workspace")
        make(folder, *options, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", refuse)
    _well(home, "one")
    _well(home, "two")
    assert _budgets(home) == [("one", 5), ("two", 5)]
    assert not (home / "catalog.sql").exists()


def test_a_question_to_no_workspace_leaves_nothing_behind(tmp_path: Path) -> None:
    assert query(tmp_path / "nowhere", "FROM runs").rows == []
    assert [*tmp_path.iterdir()] == []


def test_the_catalog_is_no_artefact(home: Path) -> None:
    query(home, "FROM runs")
    assert (home / "catalog.sql").is_file()
    store = Store(home)
    assert {each.manifest.stage for each in store.artefacts()} == {"mixtures"}
    assert garbage(store) == []


def test_replaced_snapshots_are_removed_after_a_while(home: Path) -> None:
    query(home, "FROM runs")
    first = home / "catalog" / snapshot.take(home).digest
    _publish(home, "three")
    query(home, "FROM runs")
    assert first.is_dir(), "somebody may be about to read it"
    replaced = home / "catalog" / "replaced.json"
    assert first.name in json.loads(replaced.read_text())
    replaced.write_text(json.dumps({first.name: LONG_AGO}))
    _publish(home, "four")
    query(home, "FROM runs")
    assert not first.exists()


LONG_AGO = "2001-01-01T00:00:00.000000+00:00"


# What can't be read


def _file(home: Path, phase: str) -> Path:
    return next((home / "mixtures").rglob(f"phase-{phase}/*/plan.parquet"))


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:40])


def _garble(file: Path) -> None:
    file.write_bytes(b"x" * file.stat().st_size)


def _newer(file: Path) -> None:
    manifest = file.with_name("manifest.json")
    manifest.write_text(manifest.read_text().replace('"1.2"', '"2.0"', 1))


def _edited(file: Path) -> None:
    manifest = file.with_name("manifest.json")
    text = manifest.read_text()
    assert '"revision":1' in text
    manifest.write_text(text.replace('"revision":1', '"revision":9'))


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (_truncate, "40 bytes where"),
        (_garble, "not a Parquet file"),
        (Path.unlink, "isn't there any more"),
        (_newer, "schema_version 2.0"),
        (_edited, "the file was changed since it was written"),
    ],
    ids=["truncated", "garbled", "missing", "newer", "edited"],
)
@pytest.mark.parametrize("opened_before", [True, False])
def test_what_cannot_be_read_is_named_and_the_rest_answers(
    home: Path, damage: Callable[[Path], None], word: str, opened_before: bool
) -> None:
    _well(home, "one")
    _well(home, "two")
    asked = "SELECT phase, count(*) FROM mixture_rows GROUP BY 1 ORDER BY 1"
    if opened_before:
        assert query(home, asked).rows == [("one", 3), ("two", 3)]
    damage(_file(home, "one"))
    assert query(home, asked).rows == [("two", 3)]
    ((path, problem),) = query(home, "SELECT path, problem FROM problems").rows
    assert "phase-one" in path
    assert word in problem


def test_a_foreign_file_is_named_with_the_column_that_is_wrong(home: Path) -> None:
    recipe = Recipe(stage="mixtures", labels=(("phase", "foreign"),), revision=1, config={})

    def fill(drafts: list[StagingDirectory]) -> None:
        lists = _lines(PLAN_SCHEMA, 1).set_column(0, "position", pa.array([["a"]]))
        pq.write_table(lists, drafts[0].path / "plan.parquet")

    (made,) = Store(home).produce([recipe], fill)  # type: ignore[arg-type]
    Store(home).mark("foreign", [made])
    assert query(home, "SELECT count(*) FROM mixture_rows").rows == [(6,)]
    asked = "SELECT path, problem FROM problems WHERE path LIKE '%.parquet'"
    ((path, problem),) = query(home, asked).rows
    assert "phase-foreign" in path
    assert "position is list" in problem


def test_what_is_mended_answers_again_though_its_manifest_is_as_it_was(home: Path) -> None:
    _well(home, "one")
    _well(home, "two")
    manifest = _file(home, "one").with_name("manifest.json")
    there, when = manifest.read_text(), manifest.stat()
    _newer(_file(home, "one"))
    assert query(home, "SELECT count(*) FROM problems").rows == [(1,)]
    manifest.write_text(there)
    os.utime(manifest, ns=(when.st_atime_ns, when.st_mtime_ns))
    assert query(home, "SELECT count(*) FROM problems").rows == [(0,)]
    assert [phase for phase, _ in _budgets(home)] == ["one", "two"]


def test_a_mixture_without_a_report_that_can_be_read_still_gives_its_rows(home: Path) -> None:
    assert _budgets(home) == []
    assert query(home, "SELECT count(*) FROM mixture_rows").rows == [(6,)]
    assert query(home, "SELECT count(*) FROM problems WHERE problem LIKE '%report%'").rows == [(2,)]


def test_a_file_of_an_earlier_version_lacks_columns_and_has_nulls_there(home: Path) -> None:
    made = _publish(home, "old")
    store = Store(home)
    recipe = Recipe(
        stage="mixtures", labels=(("specialist", "s"), ("phase", "older")), revision=1, config={}
    )

    def fill(drafts: list[StagingDirectory]) -> None:
        older = _lines(PLAN_SCHEMA, 2).drop_columns(["repetition"])
        pq.write_table(older, drafts[0].path / "plan.parquet")
        pq.write_table(_lines(LEFT_OUT_SCHEMA, 1), drafts[0].path / "left_out.parquet")

    (older,) = store.produce([recipe], fill)  # type: ignore[arg-type]
    store.mark("older", [made, older])
    asked = "SELECT phase, count(*), count(repetition) FROM mixture_rows WHERE phase LIKE 'old%' GROUP BY 1"
    assert sorted(query(home, asked).rows) == [("old", 3, 3), ("older", 2, 0)]
    assert query(home, "SELECT phase FROM left_out").rows == [("older",)]


# Runs that aren't closed


def _job() -> Job:
    """A job of nine steps."""
    rows = RowsSource(key="r", content="c", path="rows/r", row_length=512)
    return Job(
        specialist="s",
        branch=None,
        phase="one",
        run_key="0123456789ab",
        attempt=1,
        seed=1,
        model=ModelSpec(
            name="tiny",
            vocab_size=16,
            blocks="AF",
            width=8,
            heads=1,
            kv_heads=1,
            mlp_width=8,
        ),
        backend="math",
        device="cpu",
        tokenizer=TokenizerRef(key="t", content="c", path="tokenizers/t", vocab_size=16),
        plan="mixtures/m/plan.parquet",
        plan_key="m",
        plan_content="c",
        rows=(rows,),
        rope_base=1.0,
        micro_positions=512,
        tokens_per_step=1024,
        steps=9,
        optimizer=OptimizerSpec(learning_rate=0.1, warmup_steps=1, schedule="stable"),
        start_from=None,
        evaluations=(),
        evaluate_every=1,
        checkpoint_every=1,
        advance_when=None,
        require=(),
        overrides={},
    )


def _begin(home: Path) -> Path:
    run = home / "runs" / "specialist-s" / "phase-one" / "0123456789ab" / "attempt=1"
    (run / "metrics").mkdir(parents=True)
    (run / "job.json").write_text(_job().model_dump_json())
    beat = Heartbeat(
        step=4, steps=9, valid_tokens=77, tokens_per_second=2.5, val_bpb=1.25, at=now()
    )
    (run / "heartbeat.json").write_text(beat.model_dump_json())
    pq.write_table(_lines(METRICS_SCHEMA, 4), run / "metrics" / "0000000001.parquet")
    (run / "metrics" / ".0000000005.parquet.00.draft").write_bytes(b"half")
    return run


def _owner(run: Path, *, host: str, at: str = "") -> None:
    state = RunState(host=host, pid=os.getpid(), at=at or now())
    (run / "state.json").write_text(state.model_dump_json())


def test_a_run_that_trains_appears_with_its_heartbeat_and_metrics(home: Path) -> None:
    run = _begin(home)
    with training(run):
        assert walk(home).open_runs == (run.relative_to(home).as_posix(),)
        asked = "SELECT state, stopped, steps, valid_tokens, phase_bpb_after, current FROM attempts"
        assert query(home, asked).rows == [("running", None, 4, 77, 1.25, True)]
        assert query(home, "SELECT count(*) FROM metrics").rows == [(4,)]
        (line,) = query(home, "SELECT run, steps FROM status").rows
        assert line == (run.relative_to(home).as_posix(), 4)


def test_a_run_whose_process_ended_is_interrupted(home: Path) -> None:
    run = _begin(home)
    assert query(home, "SELECT state FROM runs").rows == [("interrupted",)]
    _owner(run, host=socket.gethostname())
    assert query(home, "SELECT state FROM runs").rows == [("interrupted",)]


def test_a_run_of_another_machine_is_alive_while_its_heartbeats_are_recent(home: Path) -> None:
    run = _begin(home)
    _owner(run, host="elsewhere")
    assert query(home, "SELECT state FROM runs").rows == [("running",)]
    beat = Heartbeat.model_validate_json((run / "heartbeat.json").read_text())
    silent = beat.model_copy(update={"at": LONG_AGO})
    (run / "heartbeat.json").write_text(silent.model_dump_json())
    _owner(run, host="elsewhere", at=LONG_AGO)
    assert query(home, "SELECT state FROM runs").rows == [("interrupted",)]


def test_a_run_is_running_from_when_its_launcher_has_it(home: Path) -> None:
    run = _begin(home)
    (run / "heartbeat.json").unlink()
    with lock_launch(Store(home), _job(), lambda _: None):
        assert query(home, "SELECT state FROM runs").rows == [("running",)]
    assert query(home, "SELECT state FROM runs").rows == [("interrupted",)]


def test_an_attempt_that_failed_is_failed_and_has_the_reason(home: Path) -> None:
    run = _begin(home)
    failed = run_report(specialist="s", phase="one", stopped="failed", reason="loss is nan")
    (run / "report.json").write_text(failed.model_dump_json())
    asked = "SELECT state, stopped, reason FROM runs"
    assert query(home, asked).rows == [("failed", "failed", "loss is nan")]


def test_metrics_of_an_open_run_stay_readable_when_its_trainer_begins_anew(home: Path) -> None:
    run = _begin(home)
    opened = open_catalog(home)
    shutil.rmtree(run / "metrics")
    assert opened.execute("SELECT count(*) FROM metrics").fetchone() == (4,)


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_metrics_of_an_open_run_are_named(home: Path, damage: str) -> None:
    run = _begin(home)
    file = run / "metrics" / "0000000005.parquet"
    pq.write_table(_lines(METRICS_SCHEMA, 4), file, write_page_checksum=True)
    assert query(home, "SELECT count(*) FROM metrics").rows == [(8,)]
    content = bytearray(file.read_bytes())
    chunk = pq.read_metadata(file).row_group(0).column(0)
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    file.write_bytes(content if damage == "flipped" else content[:-9])
    assert query(home, "SELECT count(*) FROM metrics").rows == [(4,)]
    named = [path for (path,) in query(home, "SELECT path FROM problems").rows]
    assert file.relative_to(home).as_posix() in named


def test_metrics_of_an_open_run_that_lack_columns_are_null_there(home: Path) -> None:
    run = _begin(home)
    few = _lines(METRICS_SCHEMA, 4).select(["step", "loss"])
    pq.write_table(few, run / "metrics" / "0000000001.parquet")
    asked = "SELECT count(step), count(loss), count(position), count(seconds) FROM metrics"
    assert query(home, asked).rows == [(4, 4, 0, 0)]
    assert ask(home, asked).rows == [(4, 4, 0, 0)]
    assert catalog.publish(home) is not None, "catalog.sql keeps what was read as Parquet"
