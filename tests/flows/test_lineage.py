"""One command tells a step's rows, documents, commits and licences; and every step that read a commit."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from curriculum.catalog import open_catalog
from curriculum.inspection.formats import number
from curriculum.pipeline.attempts import checkpoints
from curriculum.pipeline.context import Context, Resources
from curriculum.pipeline.phase_job import job_of
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.references import run_of
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import StatusInputs
from curriculum.pipeline.steps import build_phase, mix_phase
from curriculum.store import Store
from curriculum.train.dataloader import MicroBatches, PlannedRows
from curriculum.train.launch.gpu_slots import Machine
from flows.cli import app
from flows.cli.lineage import number_ranges
from flows.cli.lineage_reads import LineageError, LineageQuestions, Readers
from schemas.errors import JobError
from schemas.job import Heartbeat, Job
from schemas.json_text import now
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

SYNTAX = "templates/demo/syntax"
DIET = """\
specialist: fmt
corpus: sample
model: tiny
token_budget: 400K
phases_file: phases.demo
phases:
  - phase: syntax
    portion: 0.9
    servings: [{family: v3_doxygen, share: 1}]
anneal: {portion: 0.1}
"""


def curriculum(home: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["lineage", *words, "--home", str(home)])


def run_lineage(home: Path, *words: str) -> dict[str, Any]:
    done = curriculum(home, *words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def step(demo_home: Path) -> dict[str, Any]:
    """Return the command's output for a middle step of a phase with two row lengths."""
    return run_lineage(demo_home, "templates/demo/structure", "--step", "4")


def test_one_command_prints_rows_documents_commits_and_licences_of_a_step(
    demo_home: Path, step: dict[str, Any]
) -> None:
    done = curriculum(demo_home, "templates/demo/structure", "--step", "4")
    assert done.exit_code == 0, done.output
    assert step["rows"]
    for row in step["rows"]:
        assert row["pack_id"] in done.stdout
        for document in row["documents"]:
            assert document["document_id"][:12] in done.stdout
            (commit,) = document["commits"]
            for name, value in commit.items():
                assert (value[:12] if name in ("commit", "blob") else value) in done.stdout
    assert f"step 4 of {step['steps']}" in done.stdout
    assert "licences: Apache-2.0" in done.stdout


def test_a_step_reads_what_its_loader_reads(demo_home: Path, step: dict[str, Any]) -> None:
    run = run_of(Store(demo_home, dry=True), "templates/demo/structure", name="it")
    rows = PlannedRows.from_job(run.job, demo_home)
    micro = MicroBatches.from_job(run.job, rows).of_step(3)
    wanted = {position: rows[position].pack_id for each, _ in micro for position in each}
    assert {row["position"]: row["pack_id"] for row in step["rows"]} == wanted
    assert sum(row["tokens"] for row in step["rows"]) == sum(
        document["tokens"] for row in step["rows"] for document in row["documents"]
    )


def test_each_commit_of_a_step_leads_back_to_it_and_to_later_checkpoints(
    demo_home: Path, step: dict[str, Any]
) -> None:
    commits = {
        commit["commit"]
        for row in step["rows"]
        for document in row["documents"]
        for commit in document["commits"]
    }
    commit = min(commits)
    found = run_lineage(demo_home, commit[:10])
    assert (found["kind"], found["name"]) == ("commit", commit)
    assert (step["run_key"], 4) in {(each["run_key"], each["step"]) for each in found["visits"]}
    assert any("phase-anneal" in each for each in found["checkpoints"])
    assert not any("phase-structure" in each and "step=3" in each for each in found["checkpoints"])
    drawn = curriculum(demo_home, commit)
    assert "templates/demo/structure" in drawn.stdout
    assert f"read by {number(len(found['visits']), 'step')} of" in drawn.stdout


@pytest.mark.parametrize("kind", ["document", "row", "file"])
def test_a_document_a_row_and_a_file_lead_back_to_their_step(
    demo_home: Path, step: dict[str, Any], kind: str
) -> None:
    row = step["rows"][0]
    document = row["documents"][0]
    names = {
        "document": document["document_id"],
        "row": row["pack_id"],
        "file": "{repository}:{path}".format_map(document["commits"][0]),
    }
    found = run_lineage(demo_home, names[kind])
    assert found["kind"] == kind
    assert (step["run_key"], 4) in {(each["run_key"], each["step"]) for each in found["visits"]}


def test_a_file_is_read_by_steps_that_hold_a_piece_of_it_as_context_too(demo_home: Path) -> None:
    catalog = open_catalog(demo_home)
    ((pack, key, number),) = catalog.execute("""
        SELECT pack_id, run_key, step FROM steps
        WHERE phase = 'repository_graph' ORDER BY position LIMIT 1
    """).fetchall()
    held = catalog.execute(
        "SELECT DISTINCT repository || ':' || path FROM provenance(?) WHERE bytes_in_row > 0",
        [pack],
    ).fetchall()
    assert len(held) > 1
    found = LineageQuestions(demo_home, max(held)[0]).readers_or_read(max(held)[0])
    assert isinstance(found, Readers)
    assert (key, number) in {(each.run_key, each.step) for each in found.visits}


def test_a_checkpoint_tells_all_that_its_model_has_read(demo_home: Path) -> None:
    run = run_of(Store(demo_home, dry=True), "templates/demo/file_graph", name="it")
    low, path = min(checkpoints(run.path))
    found = run_lineage(demo_home, str(path))
    assert [each["names"] for each in found["phases"]] == [["syntax"], ["file_graph"]]
    assert found["phases"][1]["steps"] == low
    tokens = [sum(each["tokens"] for each in found[name]) for name in ("phases", "repositories")]
    assert tokens[0] == tokens[1] > 0
    assert {each["names"][1] for each in found["repositories"]} == {"Apache-2.0"}
    drawn = curriculum(demo_home, "templates/demo/file_graph")
    assert "up to step" in drawn.stdout
    assert "Apache-2.0" in drawn.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((SYNTAX, "--step", "9999"), "the run has"),
        ((SYNTAX, "--step", "0"), "Give a step from 1 to"),
        (("nonesuch", "--step", "1"), "no run of that name, path or key"),
        (("src/nonesuch.cpp",), "no run, checkpoint, commit, document, row or file has this name"),
        (("0123456789ab-0000000001",), "unknown row"),
        (("f" * 32,), "unknown document"),
    ],
)
def test_what_cannot_have_been_read_is_named_with_a_cure(
    demo_home: Path, words: tuple[str, ...], said: str
) -> None:
    done = curriculum(demo_home, *words)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_a_document_that_no_step_read_is_said_to_be_so(demo_home: Path) -> None:
    catalog = open_catalog(demo_home)
    ((document,),) = catalog.execute("""
        SELECT document_id FROM documents
        WHERE document_id NOT IN (SELECT document_id FROM lineage) ORDER BY 1 LIMIT 1
    """).fetchall()
    assert "no training step" in curriculum(demo_home, document).stdout


@pytest.fixture
def home(demo_home: Path, tmp_path: Path) -> Path:
    """A workspace of one's own, as the demo left it."""
    copy = tmp_path / "workspace"
    ignored = shutil.ignore_patterns("prefect", ".locks", "repositories")
    shutil.copytree(demo_home, copy, ignore=ignored)
    return copy


def test_rows_that_were_deleted_are_named_in_place_of_an_answer_without_them(
    demo_home: Path, home: Path
) -> None:
    shutil.copytree(demo_home / "repositories", home / "repositories")
    for step in map(str, range(1, 10)):
        run = run_lineage(home, SYNTAX, "--step", step)
        rows = [each for each in run["rows"] if each["family"] == "v3_simple"]
        if rows:
            break
    kept = next(each for each in run["rows"] if each["family"] != "v3_simple")
    assert rows
    shutil.rmtree(home / "rows/family-v3_simple")
    key = rows[0]["pack_id"].partition("-")[0]
    counted = f"{len(rows)} row{'s' if len(rows) > 1 else ''} that the run read can't be shown"
    for words, said in (((SYNTAX, "--step", step), counted), ((SYNTAX,), "can't be shown")):
        done = curriculum(home, *words)
        assert done.exit_code == 2
        assert done.stdout == ""
        output = " ".join(done.stderr.split())
        assert said in output
        assert f"rows {key} (v3_simple, causal) " in output
        assert "curriculum build templates.demo" in output
    partly = curriculum(home, kept["pack_id"])
    assert partly.exit_code == 0
    assert f"rows {key}" in partly.stderr
    (syntax, *_) = StatusInputs.read(Store(home, dry=True), Resources()).phase_statuses()
    assert f"{key} was deleted" in syntax.why


def begun(home: Path, step: int, gone: list[str]) -> Job:
    """A run that goes on from a step of syntax without some rows, after three steps of its own."""
    order = RunConfig.of(
        specialist="templates.demo",
        workspace=home,
        continue_run=SYNTAX,
        from_step=step,
        without_rows=",".join(gone),
        workers=1,
    )
    plan = resolve_plan(order)
    built = build_phase(plan, "syntax", Context())
    mixture = mix_phase(plan, "syntax", built, Context())
    job = job_of(plan, plan.phase("syntax"), built, mixture, None, Machine.local())
    folder = (
        home / f"runs/specialist-templates/branch-demo/phase-syntax/{job.run_key[:12]}/attempt=1"
    )
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(job.model_dump_json())
    beat = Heartbeat(step=3, steps=job.steps, valid_tokens=1, tokens_per_second=1.0, at=now())
    (folder / "heartbeat.json").write_text(beat.model_dump_json())
    return job


def test_an_open_run_that_went_back_without_rows_is_followed_through_its_own_plan(
    home: Path,
) -> None:
    before = run_of(Store(home, dry=True), SYNTAX, name="it")
    step = min(number for number, _ in checkpoints(before.path))
    ahead = pl.read_parquet(home / before.job.plan).filter(
        pl.col("slot") * 512 >= step * before.job.tokens_per_step
    )
    gone = sorted(ahead["pack_id"].unique())[:2]
    job = begun(home, step, gone)
    rows = PlannedRows.from_job(job, home)
    micro = MicroBatches.from_job(job, rows)
    for place in (1, 3):
        wanted = {at: rows[at].pack_id for each, _ in micro.of_step(place - 1) for at in each}
        found = LineageQuestions(home, job.run_key).read_by(job.run_key, place)
        assert {row.position: row.pack_id for row in found.rows} == wanted
        assert not set(gone) & set(wanted.values())
    with pytest.raises(JobError, match="3 steps"):
        LineageQuestions(home, job.run_key).read_by(job.run_key, 4)
    catalog = open_catalog(home)
    seen = catalog.execute("SELECT run_key, step FROM seen_before(?, 2)", [job.run_key]).fetchall()
    assert {key for key, _ in seen} == {before.job.run_key, job.run_key}
    assert max(each for key, each in seen if key == before.job.run_key) == step
    assert max(each for key, each in seen if key == job.run_key) == 1


@pytest.mark.parametrize("words", [("--step", "1"), ()], ids=["step", "all"])
def test_a_mixture_that_was_deleted_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    larder = TinyWorkspace(tmp_path)
    (tmp_path / "diets").mkdir()
    (tmp_path / "diets" / "fmt.yaml").write_text(DIET)
    run(tmp_path, job(larder.syntax, tmp_path, run_key="1" * 64), [figure(1.0, 0.1)])
    assert curriculum(tmp_path, "fmt/syntax", *words).exit_code == 0
    shutil.rmtree(larder.syntax.path)
    done = curriculum(tmp_path, "fmt/syntax", *words)
    assert done.exit_code == 2
    assert done.stdout == ""
    said = " ".join(done.stderr.split())
    assert str(larder.syntax.path / "plan.parquet") in said
    assert "curriculum mix" in said


def test_six_digits_mean_a_commit_and_five_do_not(demo_home: Path) -> None:
    catalog = open_catalog(demo_home)
    ((commit,),) = catalog.execute('SELECT min("commit") FROM lineage').fetchall()
    found = LineageQuestions(demo_home, commit[:6]).readers_or_read(commit[:6])
    assert isinstance(found, Readers)
    assert found.name == commit
    with pytest.raises(LineageError, match="name"):
        LineageQuestions(demo_home, commit[:5]).readers_or_read(commit[:5])


def test_neighbouring_steps_are_drawn_together() -> None:
    assert number_ranges([10, 9, 1, 2, 3, 7, 7]) == "1–3, 7, 9–10"
    assert number_ranges([]) == ""
