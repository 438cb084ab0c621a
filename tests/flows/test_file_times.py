"""The times of files decide nothing: a workspace that was copied, or restored, answers as it did."""

import os
import random
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from curriculum.catalog import query
from curriculum.pipeline.references import checkpoint_of, run_of
from curriculum.store import Store
from curriculum.store.owners import this_process
from curriculum.train.run import freeze
from curriculum.train.run_directory import run_recipe
from flows import cli
from schemas.job import CheckpointRef, Job, Report, RunState
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run
from tests.sealing import edit

ROOT = Path(__file__).parents[2]
FIVE_YEARS = 1.6e8
NOW = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00)?( UTC)?")
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("status",),
    ("status", "--json"),
    ("status", "--all"),
    ("compare", "templates/demo/syntax", "templates/demo/file_graph"),
    ("compare", "templates.demo", "templates.demo", "--json"),
    ("lineage", "templates.demo"),
    ("lineage", "templates/demo/syntax", "--step", "1"),
    ("inspect", "templates.demo"),
    ("inspect", "templates/demo/syntax"),
    ("inspect", "runs", "--list"),
    ("diff", "templates/demo/syntax", "templates/demo/file_graph"),
    ("train", "templates.demo", "--explain"),
    ("query", "SHOW TABLES"),
    ("query", "SELECT * EXCLUDE (created) FROM runs ORDER BY path", "--format", "json"),
    ("query", "SELECT * EXCLUDE (created) FROM status ORDER BY ALL", "--format", "json"),
    ("query", "FROM artefacts ORDER BY path", "--format", "json"),
    ("query", "FROM problems", "--format", "json"),
    ("query", "SELECT count(*), sum(valid_token_count) FROM rows", "--format", "json"),
)


SHADOWED = re.compile(r".* of the workspace is used instead of the package's\n")
"""Lines that a process prints once."""


def shuffle_times(folder: Path, seed: int = 0) -> None:
    """Give every file and folder below `folder` a time of its own, up to five years off."""
    draw = random.Random(seed)
    for each in sorted(folder.rglob("*"), reverse=True):
        when = time.time() + draw.uniform(-FIVE_YEARS, FIVE_YEARS)
        os.utime(each, (when, when), follow_symlinks=False)


def copied(home: Path, to: Path) -> Path:
    """A copy of a workspace, all file times shuffled."""
    shutil.copytree(home, to, ignore=shutil.ignore_patterns("prefect", ".locks", "slots"))
    shuffle_times(to)
    return to


def answer(home: Path, words: Sequence[str]) -> tuple[int, str]:
    """The exit code and the output of a command, the workspace's own path and today left out."""
    done = CliRunner().invoke(cli.app, [*words, "--home", str(home)])
    said = SHADOWED.sub("", done.output.replace(str(home), "HOME"))
    return done.exit_code, NOW.sub("NOW", said)


@pytest.fixture(scope="module")
def twins(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The demo's workspace as it was left, and a copy with all file times shuffled."""
    folder = tmp_path_factory.mktemp("twins")
    ignored = shutil.ignore_patterns("prefect", ".locks", "slots")
    shutil.copytree(demo_home, folder / "one", ignore=ignored)
    assert answer(folder / "one", ("query", "SHOW TABLES"))[0] == 0
    return folder / "one", copied(folder / "one", folder / "two")


@pytest.mark.system
@pytest.mark.timeout(1200)
def test_a_copy_with_all_file_times_shuffled_answers_every_command_and_query_alike(
    twins: tuple[Path, Path],
) -> None:
    differ: list[str] = []
    for words in COMMANDS:
        one, two = (answer(each, words) for each in twins)
        assert one[0] == 0, one[1]
        if one != two:
            differ.append(" ".join(words))
    assert differ == []


def test_the_report_of_a_copy_with_shuffled_file_times_is_the_same_page(
    twins: tuple[Path, Path],
) -> None:
    pages = []
    for home in twins:
        code, said = answer(home, ("report", "templates.demo"))
        assert code == 0, said
        text = (home / "reports" / "templates@demo.html").read_text()
        # Only the time of writing and the digest of the files, which has their times, may differ.
        pages.append(
            re.sub(r"<time [^>]*>[^<]*</time>|Written[^<]*|<!-- [0-9a-f]{16} -->\n$", "", text)
        )
    assert pages[0] == pages[1]


def test_the_model_that_a_copy_with_shuffled_file_times_exports_is_the_same(
    twins: tuple[Path, Path], tmp_path: Path
) -> None:
    models = []
    for number, home in enumerate(twins):
        to = tmp_path / str(number)
        code, said = answer(home, ("export", "templates.demo", "--to", str(to)))
        assert code == 0, said
        weights = load_file(to / "model.safetensors")
        models.append({name: tensor.tobytes() for name, tensor in weights.items()})
    assert models[0] == models[1]


# Which run a specialist's name means


class TwoPhases:
    """A curriculum of two trained phases, the second from the end of the first."""

    def __init__(self, home: Path) -> None:
        self.home, self.larder = home, TinyWorkspace(home)
        self.syntax = run(home, self.job("syntax"), [figure(2.0, 0.1)])
        self.graph = run(home, self.job("file_graph", previous=self.syntax), [figure(1.5, 0.1)])

    def job(self, phase: str, *, previous: Path | None = None, name: str = "") -> Job:
        """The job of a phase; from the end of a run, if one is given."""
        plan = self.larder.syntax if phase == "syntax" else self.larder.file_graph
        start = None
        if previous is not None:
            before = Store(self.home).load(previous)
            checkpoint = checkpoint_of(self.home, str(previous))
            start = CheckpointRef(
                run_key=before.key,
                run_content=before.content,
                path=checkpoint.relative_to(self.home).as_posix(),
            )
        return job(plan, self.home, run_key=name or phase, start_from=start)

    def newest(self, run: Path) -> None:
        """Let the files of a run be newer than those of all others."""
        for each in self.home.rglob("*"):
            then = 2e9 if run in each.parents else 1e9
            os.utime(each, (then, then))


@pytest.fixture
def line(tmp_path: Path) -> TwoPhases:
    return TwoPhases(tmp_path / "workspace")


def test_a_name_means_the_last_phase_whichever_files_are_newest(line: TwoPhases) -> None:
    for each in (line.graph, line.syntax):
        line.newest(each)
        assert run_of(Store(line.home, dry=True), "fmt", name="it").path == line.graph
        assert checkpoint_of(line.home, "fmt").parents[1] == line.graph


def test_behind_a_phase_with_other_weights_what_went_on_from_the_former_is_not_meant(
    line: TwoPhases,
) -> None:
    anew = run(line.home, line.job("syntax", name="anew"), [figure(1.9, 0.1)])
    assert Store(line.home).load(anew).content != Store(line.home).load(line.syntax).content
    line.newest(line.graph)
    assert run_of(Store(line.home, dry=True), "fmt", name="it").path == anew
    line.newest(anew)
    assert run_of(Store(line.home, dry=True), "fmt/file_graph", name="it").path == line.graph


def test_an_export_names_the_run_that_it_takes(line: TwoPhases, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli.app, ["export", "fmt", "--to", str(tmp_path / "model"), "--home", str(line.home)]
    )
    key = Store(line.home).load(line.graph).key[:12]
    assert f"fmt/file_graph, attempt 1, {key}" in " ".join(done.output.split())


# When something happened


def test_a_job_holds_when_it_began_and_its_key_does_not(line: TwoPhases) -> None:
    ordered = line.job("syntax")
    folder = line.home / "runs" / "specialist-fmt" / "phase-syntax" / ("e" * 12) / "attempt=1"
    frozen = freeze(folder, ordered)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", frozen.begun)
    assert freeze(folder, ordered).begun == frozen.begun, "it begins once"
    assert run_recipe(frozen).key == run_recipe(ordered).key


def _open_elsewhere(home: Path, ordered: Job, *, seconds_ago: float) -> Path:
    """Write an open run of another machine whose last heartbeat is `seconds_ago` old by its own clock."""
    import datetime

    from curriculum.train.checkpoint import CheckpointState
    from curriculum.train.report import HeartbeatWriter

    folder = run(home, ordered, [figure(2.0, 0.1)], closed=False)
    shutil.rmtree(folder / "metrics")
    away: RunState = this_process().model_copy(update={"host": "elsewhere"})
    (folder / "state.json").write_text(away.model_dump_json())
    HeartbeatWriter(ordered, folder).step(CheckpointState(), positions=1, seconds=1.0)
    beat, state = folder / "heartbeat.json", folder / "state.json"
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds_ago)
    for file in (beat, state):
        edit(file, at=then.isoformat(timespec="microseconds"))
    return folder


@pytest.mark.parametrize(
    ("seconds_ago", "file_time", "state"),
    [(1, 0, "running"), (7200, None, "interrupted")],
    ids=["old file, new beat", "new file, old beat"],
)
def test_a_run_of_another_machine_lives_by_the_time_within_its_heartbeat(
    line: TwoPhases, seconds_ago: float, file_time: int | None, state: str
) -> None:
    ordered = line.job("syntax", name="away")
    folder = _open_elsewhere(line.home, ordered, seconds_ago=seconds_ago)
    if file_time is not None:
        for name in ("heartbeat.json", "state.json"):
            os.utime(folder / name, (file_time, file_time))
    from curriculum.pipeline.attempts import Attempt, SlotQueue, attempt_state
    from curriculum.pipeline.context import Resources

    store = Store(line.home, dry=True)
    assert (
        attempt_state(
            store, Attempt.at(folder), SlotQueue.read(Resources().slots_of(store.root))
        ).state
        == state
    )
    path = folder.relative_to(line.home).as_posix()
    asked = f"SELECT state FROM attempts WHERE path = '{path}'"
    assert query(line.home, asked).rows == [(state,)]


def test_a_report_holds_when_its_run_ended() -> None:
    assert "ended" in Report.model_fields


def test_a_manifest_changed_with_its_time_and_size_kept_is_seen(line: TwoPhases) -> None:
    assert query(line.home, "SELECT count(*) FROM problems").rows == [(0,)]
    manifest = line.larder.syntax.path / "manifest.json"
    before, text = manifest.stat(), manifest.read_text()
    changed = text.replace('"specialist": "fmt"', '"specialist": "fmu"')
    changed = changed if changed != text else text.replace('"fmt"', '"fmu"', 1)
    assert changed != text
    manifest.write_text(changed)
    os.utime(manifest, ns=(before.st_atime_ns, before.st_mtime_ns))
    asked = "SELECT specialist FROM mixtures WHERE phase = 'syntax'"
    assert query(line.home, asked).rows != [("fmt",)]


def test_no_module_goes_by_the_time_of_a_file() -> None:
    """But for the identity of a file, which only says what needn't be compared or written again.

    A file counts as compared at the inode, size and ctime of that moment, which no copy of a workspace can
    bring along. Any other file is compared anew, so nothing depends on the time. Trust in a workspace is
    bound to a ctime for the same reason.
    """
    pattern = re.compile(r"st_[mca]time|getmtime|getctime|os\.utime")
    files = [
        each
        for name in ("curriculum", "flows", "dashboards", "schemas")
        for each in (ROOT / name).rglob("*.py")
    ]
    found = {
        each.relative_to(ROOT).as_posix() for each in files if pattern.search(each.read_text())
    }
    assert found == {"curriculum/published_files.py", "flows/settings/trust.py"}
