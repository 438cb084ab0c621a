"""Short commands don't import slow modules; benchmarks/startup.py measures seconds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from curriculum.pipeline.execute import Scope
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import read_mark
from flows.cli import phases
from tests.flows.stand_ins import gates_judged
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

ASKED = """
import sys
from flows.cli import app
if __name__ == "__main__":
    try:
        app(sys.argv[2:])
    except SystemExit as ended:
        assert not ended.code, ended.code
    slow = {*sys.argv[1].split(",")} & {*sys.modules}
    assert not slow, slow
"""
SLOW = {"pandas", "pyarrow.dataset", "torch", "prefect", "marimo", "sqlalchemy"}
"""Each takes more than a tenth of a second; pyarrow.dataset imports pandas, where that is installed."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with plans and a run."""
    made = tmp_path_factory.mktemp("startup")
    larder = TinyWorkspace(made)
    run(made, job(larder.syntax, made, run_key="1" * 64), [figure(2.0, 0.1)])
    return made


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["query", "SELECT 1"], {"polars", "pyarrow.compute", "tree_sitter", "urllib.request"}),
        (["query", "SELECT * FROM runs"], {"polars", "tree_sitter"}),
        (["query", "SHOW TABLES"], {"polars", "tree_sitter"}),
        (["status"], {"duckdb"}),
        (["ls"], {"duckdb", "tree_sitter"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_short_command_imports_nothing_that_takes_long(
    home: Path, words: list[str], more: set[str]
) -> None:
    command = [sys.executable, "-c", ASKED, ",".join(SLOW | more), *words, "--home", str(home)]
    # The first of them reads every manifest, and keeps what it read for the next.
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", [["run"], ["run", "--dry-run"], ["build", "--explain"]])
def test_a_command_that_finds_everything_done_starts_no_prefect(
    demo_home: Path, tmp_path: Path, words: list[str]
) -> None:
    home = tmp_path / "workspace"
    shutil.copytree(demo_home, home, symlinks=True)
    verb, *options = words
    own = [sys.executable, "-c", ASKED, ",".join(SLOW), verb, "templates.demo", *options]
    # The first run reads the copied files and writes the report again, since its inputs have changed.
    for _ in range(2 if words == ["run"] else 1):
        done = subprocess.run(
            [*own, "--home", str(home)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CURRICULUM_STATE": str(tmp_path / "state")},
        )
    assert done.returncode == 0, done.stderr
    assert "Nothing to" in done.stdout


def test_a_run_that_finds_everything_done_judges_no_gate_after_the_last(
    demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "workspace"
    shutil.copytree(demo_home, home, symlinks=True)
    config = RunConfig.of(specialist="templates.demo", workspace=home)
    monkeypatch.setattr("flows.cli.phases.update_report", lambda plan: None)
    judged = gates_judged(monkeypatch)
    assert phases.run(config, Scope(retrain=True))
    order = [phase.name for phase in resolve_plan(config, dry=True).phases]
    assert judged == [*order, *order], "once where it is looked at, once where it is carried out"


def test_a_run_that_has_something_to_do_is_found_out(demo_home: Path, tmp_path: Path) -> None:
    home = tmp_path / "workspace"
    shutil.copytree(demo_home, home, symlinks=True)
    config = RunConfig.of(specialist="templates.demo", workspace=home)
    scope = Scope(retrain=True)

    def is_all_there(**changes: Any) -> bool:
        changed = RunConfig.of(specialist="templates.demo", workspace=home, **changes)
        return phases._is_all_there(resolve_plan(changed, dry=True), scope)

    assert is_all_there()
    assert not is_all_there(seed=5)
    assert not is_all_there(max_commits=3)
    again = Scope(phase="syntax", retrain=True)
    assert not phases._is_all_there(resolve_plan(config, dry=True), again)
    mark = next((home / "current").glob("runs+templates@demo+anneal.txt"))
    (run, *_) = read_mark(mark)
    shutil.rmtree(home / run)
    assert not is_all_there()
