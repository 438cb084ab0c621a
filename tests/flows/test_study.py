"""Runs of a study at the command line: marked wherever a run is shown, and refused where it would be used."""

import json
from pathlib import Path
from typing import Any

import pytest

from curriculum.catalog import open_catalog
from curriculum.inspection.run_tables import run_lines
from curriculum.inspection.runs import run_words
from curriculum.pipeline.attempts import Attempt
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.status import StatusInputs, replaced_runs
from curriculum.store import Store
from dashboards.overview_panels import specialists
from dashboards.questions import WorkspaceView
from dashboards.run_panels import gains, heatmap
from flows.settings.contexts import resources
from schemas.errors import DietError, JobError
from schemas.study import Study
from tests import factories
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, mixture, run

OFF = Study(document_mask="off")
MARK, WORDS = "study: document_mask off", "document_mask off"
PHASES = "syntax: {row_length: 512, families: [v2_simple]}\n"
DIET = """\
specialist: fmt
branch: {branch}
phases_file: phases.yaml
corpus: sample
model: tiny
token_budget: 400k
phases:
  - {{phase: syntax, portion: 1, servings: [{{family: v2_simple, share: 1}}]}}
{study}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without masks on a branch beside the run with them, on the same plan."""
    home = tmp_path_factory.mktemp("studied")
    larder = TinyWorkspace(home)
    held_out = {"d" * 32: (30.0, 40), "e" * 32: (32.0, 40), "f" * 32: (29.0, 40)}
    worse = {name: (nats * 1.2, size) for name, (nats, size) in held_out.items()}
    before = [figure(4.0, 0.1, step=0)]
    run(
        home,
        job(larder.syntax, home, run_key="1" * 64),
        [figure(2.0, 0.1)],
        documents=held_out,
        before=before,
    )
    taken = [(larder.one, 0, 0, 7), (larder.one, 0, 1, 8), (larder.one, 0, 0, 7)]
    plan = mixture(home, "syntax", taken, branch="off")
    off = job(plan, home, branch="off", run_key="2" * 64, study=OFF)
    run(home, off, [figure(2.4, 0.1)], documents=worse, before=before, study=OFF)
    return home


def path_of(home: Path) -> Path:
    (path,) = (home / "runs" / "specialist-fmt" / "branch-off").rglob("attempt=1")
    return path


def shown(home: Path, *words: str) -> str:
    done = curriculum(*words, home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_job_and_report_hold_the_study_and_those_of_other_runs_do_not_mention_it(
    home: Path,
) -> None:
    for name in ("job.json", "report.json"):
        held = json.loads((path_of(home) / name).read_text())["study"]
        assert held == {"document_mask": "off", "positions": "reset"}
    (plain,) = (home / "runs" / "specialist-fmt" / "phase-syntax").rglob("job.json")
    assert "study" not in json.loads(plain.read_text())


def test_ls_compare_inspect_and_lineage_mark_the_run(home: Path) -> None:
    listed = shown(home, "ls", "runs")
    (line,) = (each for each in listed.splitlines() if "fmt/off/syntax" in each)
    assert line.endswith(WORDS)
    compared = shown(home, "compare", "fmt/syntax", "fmt/off/syntax")
    assert next(line for line in compared.splitlines() if "fmt/off" in line).endswith(WORDS)
    (setting,) = (line for line in compared.splitlines() if line.startswith("study "))
    assert setting.split() == ["study", "none", *WORDS.split()]
    assert MARK in shown(home, "inspect", "fmt/off/syntax")
    assert MARK not in shown(home, "inspect", "fmt/syntax")
    assert MARK in shown(home, "lineage", "fmt/off/syntax", "--step", "1")
    assert MARK in shown(home, "lineage", "fmt/off/syntax")
    readers = shown(home, "lineage", "src/a.h")
    line = next(each for each in readers.splitlines() if each.startswith("fmt/off/syntax"))
    assert WORDS in line


def test_no_column_is_added_where_there_is_no_study(home: Path, tmp_path: Path) -> None:
    larder = TinyWorkspace(tmp_path)
    run(tmp_path, job(larder.syntax, tmp_path, run_key="1" * 64), [figure(2.0, 0.1)])
    assert "study" not in shown(tmp_path, "ls", "runs")
    assert "study" not in run_lines([factories.run_report()])[0]


def test_a_narrow_terminal_shows_the_mark_too(home: Path) -> None:
    for columns in ("80", "100"):
        done = curriculum("ls", "runs", home=home, variables={"COLUMNS": columns})
        assert WORDS in done.stdout


def test_the_catalog_has_a_column_for_it(home: Path) -> None:
    found = (
        open_catalog(home)
        .execute("SELECT specialist, study FROM runs ORDER BY specialist")
        .fetchall()
    )
    assert found == [("fmt", None), ("fmt/off", WORDS)]


def test_the_closing_table_and_the_words_of_a_run_say_it() -> None:
    marked, plain = factories.run_report(study=OFF), factories.run_report()
    assert [line["study"] for line in run_lines([plain, marked])] == ["", WORDS]
    assert run_words(marked) == f"{MARK}; {run_words(plain)}"


def test_the_status_begins_with_the_mark(home: Path) -> None:
    found = {
        each.ref.branch: each
        for each in StatusInputs.read(Store(home, dry=True), resources()).phase_statuses()
        if each.key
    }
    assert found["off"].study == OFF
    assert found["off"].why.startswith(f"{MARK}; ")
    assert "study" not in found[None].why
    assert list(replaced_runs(Store(home, dry=True))) == []


def test_overview_and_runs_page_show_it_in_the_cell_of_its_phase(home: Path) -> None:
    opened = WorkspaceView(home)
    assert specialists(opened).count(MARK) == 1
    drawn = heatmap(gains(opened), "fmt")
    assert drawn.count(MARK) == 1


def test_titles_of_its_checkpoints_end_with_it(home: Path) -> None:
    assert Attempt.at(path_of(home)).title.endswith(f", {MARK}")


def test_its_model_is_not_exported(home: Path, tmp_path: Path) -> None:
    to = tmp_path / "model"
    checkpoint = path_of(home) / "checkpoints" / "step=1"
    done = curriculum("export", str(checkpoint), "--to", str(to), home=home)
    assert done.returncode == 2
    assert f"{MARK};" in done.stderr
    assert not to.exists()


def test_leakcheck_refuses_it_by_design_and_finds_no_leak(home: Path) -> None:
    done = curriculum("leakcheck", "fmt/off/syntax", home=home)
    assert done.returncode == 2
    assert "mask off;" in done.stderr
    assert "LEAK" not in done.stdout + done.stderr


def plan_of(folder: Path, home: Path, study: str, **given: Any) -> Any:
    (folder / "phases.yaml").write_text(PHASES)
    diet = folder / "diet.yaml"
    diet.write_text(DIET.format(branch="on", study=study))
    return resolve_plan(RunConfig.of(specialist=str(diet), workspace=home, **given), dry=True)


@pytest.mark.parametrize("study", ["", "study: {document_mask: off, positions: continue}"])
def test_no_other_diet_continues_it(home: Path, tmp_path: Path, study: str) -> None:
    with pytest.raises(JobError, match=rf"{MARK};"):
        plan_of(tmp_path, home, study, continue_run="fmt/off/syntax")


def test_the_same_study_and_a_run_without_one_are_continued(home: Path, tmp_path: Path) -> None:
    study = "study: {document_mask: off}"
    for run_name in (
        "fmt/off/syntax",
        str(next((home / "runs" / "specialist-fmt" / "phase-syntax").rglob("attempt=1"))),
    ):
        plan = plan_of(tmp_path, home, study, continue_run=run_name)
        assert plan.resume is not None


def test_masks_that_are_switched_within_a_phase_need_all_of_it(home: Path, tmp_path: Path) -> None:
    study = "study: {document_mask: {on_from: 0.5}}"
    with pytest.raises(DietError, match="fraction"):
        plan_of(tmp_path, home, study, continue_run=str(path_of(home).parents[3] / "phase-syntax"))
