"""A kept report equals a new one, and every change of what it is made from gives a new report."""

import datetime
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import schemas
from curriculum.pipeline.context import Resources
from curriculum.pipeline.gates import write_approval
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from curriculum.train.run_directory import JOB, METRICS, REPORT, read_job
from dashboards.report import facts, report_file
from dashboards.report.report_file import write
from schemas.manifest import MANIFEST_NAME

NOON = "2026-11-21T12:00:00+00:00"
LATER = "2026-11-21T12:05:00+00:00"


@pytest.fixture(scope="module")
def home(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the demo's workspace, to which each test adds a change."""
    copy = tmp_path_factory.mktemp("report") / "workspace"
    shutil.copytree(demo_home, copy, symlinks=True)
    return copy


@pytest.fixture(autouse=True)
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write every report at the same time."""
    set_clock(monkeypatch, NOON)


def set_clock(monkeypatch: pytest.MonkeyPatch, time: str) -> None:
    clock = SimpleNamespace(now=lambda _: datetime.datetime.fromisoformat(time))
    monkeypatch.setattr(facts, "datetime", SimpleNamespace(datetime=clock, UTC=datetime.UTC))


def written(home: Path) -> tuple[str, int]:
    """Write the report; return its text, and the inode that only a new file changes."""
    plan = resolve_plan(RunConfig.of(specialist="templates.demo", workspace=home), dry=True)
    logged: list[str] = []
    file = write(plan, Resources(), logged.append)
    return file.read_text(), file.stat().st_ino


def written_afresh(home: Path) -> str:
    """Write the report where there is none; return its text."""
    for file in (home / facts.REPORTS).glob("*.html"):
        file.unlink()
    return written(home)[0]


def run_of(home: Path, phase: str) -> Path:
    """The first attempt at a phase."""
    (path,) = (home / "runs").glob(f"*/*/phase-{phase}/*/attempt=1")
    return path


def test_an_up_to_date_report_is_kept_without_reading_tables(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = written(home)
    set_clock(monkeypatch, LATER)
    for reader in ("with_tables", "example", "page"):
        monkeypatch.delattr(report_file, reader)
    assert written(home) == first


def test_a_kept_report_equals_a_new_one_byte_for_byte(home: Path) -> None:
    written(home)
    kept, _ = written(home)
    assert written_afresh(home) == kept


def approve(home: Path) -> None:
    store = Store(home)
    write_approval(store, store.load(run_of(home, "syntax")), who="ann", comment="fine")


def begin_attempt(home: Path) -> None:
    first = run_of(home, "file_graph")
    second = first.with_name("attempt=2")
    second.mkdir()
    job = read_job(first / JOB)
    begun = job.model_copy(update={"attempt": 2, "ordinal": job.ordinal + 100})
    (second / JOB).write_text(begun.model_dump_json())


def lose_metrics(home: Path) -> None:
    file = min((run_of(home, "syntax") / METRICS).iterdir())
    file.rename(f"{file}.lost")


def add_metrics(home: Path) -> None:
    first, *_ = sorted((run_of(home, "anneal") / METRICS).glob("*.parquet"))
    shutil.copy(first, first.with_name("0000009999.parquet"))


def lose_evaluation(home: Path) -> None:
    file = run_of(home, "syntax") / "evaluations" / "step=0" / "documents.parquet"
    file.rename(f"{file}.lost")


def delete_rows(home: Path) -> None:
    shutil.rmtree(next(Store(home, dry=True).artefacts("rows")).path)


def damage_tokens(home: Path) -> None:
    for file in home.glob("tokens/**/*.parquet"):
        data = bytearray(file.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 8] = bytes(8)
        file.write_bytes(data)


def edit_diet(home: Path) -> None:
    (file,) = (home / "diets").glob("templates.demo.yaml")
    text = file.read_text()
    assert "\nwhy: " in text
    file.write_text(text.replace("\nwhy: ", "\nwhy: edited "))


@pytest.mark.parametrize(
    "change",
    [
        approve,
        begin_attempt,
        lose_metrics,
        add_metrics,
        lose_evaluation,
        delete_rows,
        damage_tokens,
        edit_diet,
    ],
)
def test_a_change_of_its_inputs_gives_a_new_report(
    home: Path, change: Callable[[Path], None]
) -> None:
    before, inode = written(home)
    change(home)
    after, new_inode = written(home)
    assert (after.splitlines()[:-1], new_inode) != (before.splitlines()[:-1], inode)
    assert after.splitlines()[-1] != before.splitlines()[-1]
    assert written_afresh(home) == after


def test_another_version_of_the_code_gives_a_new_report(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "__path__", [str(tmp_path)])
    module = tmp_path / "module.py"
    inodes = []
    for text in ("a = 1", "a = 23"):
        module.write_text(text)
        inodes.append(written(home)[1])
    assert inodes[0] != inodes[1]
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "module.pyc").touch()
    assert written(home)[1] == inodes[1]


def test_a_report_of_an_open_attempt_is_always_written(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(home, "anneal")
    for file in (MANIFEST_NAME, REPORT):
        (run / file).unlink()
    (home / "current" / "runs+templates@demo+anneal.txt").unlink()
    first, _ = written(home)
    set_clock(monkeypatch, LATER)
    second, _ = written(home)
    assert NOON in first
    assert LATER in second
