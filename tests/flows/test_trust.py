"""Commands that a workspace names run only where this user trusts it."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from curriculum.mixing.diet_files import PACKAGE
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from curriculum.workers import WorkerPool
from flows import settings
from flows.cli import app
from flows.settings import trust
from flows.settings.contexts import trainer_command
from schemas.errors import CurriculumError, DietError, StoreError
from tests.sealing import edit

SAYS = "trainer: {{command: {command}}}\n"
SHIPPED = Path(PACKAGE) / "diets" / "templates.demo.yaml"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("CURRICULUM_TRUST")


@pytest.fixture
def fired(tmp_path: Path) -> Path:
    """The file that the command makes where it runs."""
    return tmp_path / "fired"


@pytest.fixture
def command(fired: Path) -> str:
    return shlex.join(["touch", str(fired), "{job}.touched"])


def diet_with(file: Path, command: str) -> Path:
    """The demo's diet, with a trainer's command."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = SHIPPED.read_text().replace("../", f"{SHIPPED.parents[1]}/")
    file.write_text(f"{text}\n{SAYS.format(command=repr(command))}")
    return file


@pytest.fixture
def received(tmp_path: Path, command: str) -> Path:
    """A workspace that somebody sent: it hides a diet of the package."""
    home = tmp_path / "received"
    Store(home).open()
    diet_with(home / "diets" / "templates.demo.yaml", command)
    return home


def curriculum(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def plan(home: Path, specialist: str = "templates.demo") -> RunPlan:
    return resolve_plan(RunConfig.of(specialist=specialist, workspace=home), dry=True)


def test_a_received_workspace_runs_no_command(received: Path, fired: Path) -> None:
    before = {path.name for path in received.iterdir()}
    for verb in ("train", "run"):
        done = curriculum(verb, "templates.demo", "--home", str(received))
        assert done.exit_code == 2
        assert str(received) in done.stderr
        assert f"curriculum trust {received}" in done.stderr
    assert not fired.exists()
    assert {path.name for path in received.iterdir()} == before


def test_what_is_trusted_runs(received: Path, command: str) -> None:
    with pytest.raises(StoreError, match="curriculum trust"):
        trust.require_trusted(received)
    done = curriculum("trust", str(received))
    assert done.exit_code == 0, done.stderr
    assert command in done.stdout.replace("\n", "")
    trust.require_trusted(received)
    assert trainer_command(plan(received)) == command
    assert str(received) in curriculum("trust", "--list").stdout
    assert curriculum("trust", "--forget", str(received)).exit_code == 0
    with pytest.raises(StoreError, match="curriculum trust"):
        trust.require_trusted(received)
    assert curriculum("trust", "--forget", str(received)).exit_code == 2


def test_a_diet_in_a_received_workspace_is_refused_by_its_path(
    received: Path, tmp_path: Path, command: str
) -> None:
    own = tmp_path / "own"
    trust.make_trusted(own)
    mine = diet_with(tmp_path / "mine.yaml", command)
    trust.require_trusted(own, str(mine))
    assert trainer_command(plan(own, str(mine))) == command
    inside = received / "diets" / "templates.demo.yaml"
    link = tmp_path / "link.yaml"
    link.symlink_to(inside)
    for path in (inside, link):
        with pytest.raises(StoreError, match=f"curriculum trust {received}"):
            trust.require_trusted(own, str(path))


def test_a_received_bundle_is_refused_without_a_workspace_json_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, folder, file = tmp_path / "own", tmp_path / "bundle", tmp_path / "ablation.yaml"
    trust.make_trusted(own)
    folder.mkdir()
    (folder / "bundle.json").write_text("{}")
    claims = [{"claim": "masks help", "arm": "base", "against": "unmasked"}]
    arms = {"unmasked": {"study": {"document_mask": "off"}}}
    spec = {"name": "masks", "diet": "templates.demo", "arms": arms, "seeds": [3, 5]}
    file.write_text(json.dumps({**spec, "claims": claims}))
    words = ("ablate", str(file), "--collect", str(folder), "--home", str(own))
    done = curriculum(*words)
    assert done.exit_code == 2
    assert f"curriculum trust {folder}" in done.stderr
    assert "bundle.json" not in done.stderr
    monkeypatch.setenv("CURRICULUM_TRUST", str(folder))
    assert f"{folder / 'bundle.json'}" in curriculum(*words).stderr, "then it is read"


def test_a_workspace_made_from_nothing_is_trusted(tmp_path: Path, command: str) -> None:
    home = tmp_path / "made"
    trust.make_trusted(home)
    diet_with(home / "diets" / "mine.yaml", command)
    trust.require_trusted(home)
    assert trainer_command(plan(home, "mine")) == command


def test_a_folder_that_held_something_is_not_trusted_by_being_used(
    tmp_path: Path, command: str
) -> None:
    home = tmp_path / "received"
    diet_with(home / "diets" / "mine.yaml", command)
    trust.make_trusted(home)
    assert (home / "workspace.json").is_file()
    assert not trust.is_trusted(home)


@pytest.mark.parametrize("held", [False, True])
def test_a_command_that_is_killed_leaves_a_workspace_from_nothing_trusted(
    tmp_path: Path, held: bool
) -> None:
    home = tmp_path / "home"
    if held:
        diet_with(home / "diets" / "mine.yaml", "true")
    code = (
        "import os, pathlib, signal, sys\n"
        "from curriculum.store import Store\n"
        "from flows.settings import trust\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "with trust.trusting_new_workspace(home), Store(home).lock('any'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(home)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert (home / "workspace.json").is_file()
    assert trust.is_trusted(home) is not held


def test_a_workspace_is_trusted_before_its_first_worker_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are processes of their own: what the first of them made wasn't noted by the command."""
    home = tmp_path / "home"
    seen: list[bool] = []

    def each(*_: object, **__: object) -> None:
        seen.append(trust.is_trusted(home))
        raise DietError("here", cause="the test ends it", cure="None")

    monkeypatch.setattr(WorkerPool, "map", each)
    words = ("build", "templates.demo", "--workers", "2", "--home", str(home))
    assert "the test ends it" in curriculum(*words).stderr
    assert seen == [True]


def _moved(home: Path) -> Path:
    return home.rename(home.with_name("moved"))


def _copied(home: Path) -> Path:
    return Path(shutil.copytree(home, home.with_name("copied")))


def _replaced(home: Path) -> Path:
    copied = shutil.copytree(home, home.with_name("copied"))
    home.rename(home.with_name("away"))
    return Path(copied).rename(home)


def _other_uuid(home: Path) -> Path:
    edit(home / "workspace.json", uuid="another")
    return home


@pytest.mark.parametrize("change", [_moved, _copied, _replaced, _other_uuid])
def test_another_folder_must_be_trusted_anew(received: Path, change: Any) -> None:
    trust.trust(received)
    assert trust.is_trusted(received)
    assert not trust.is_trusted(change(received))


def test_a_link_to_a_trusted_workspace_is_that_workspace(received: Path, tmp_path: Path) -> None:
    trust.trust(received)
    (tmp_path / "link").symlink_to(received)
    home = settings.home(tmp_path / "link")
    assert home == received
    assert trust.is_trusted(home)


def _linked(record: Path) -> None:
    record.rename(record.with_name("theirs"))
    record.symlink_to(record.with_name("theirs"))


def _writable(record: Path) -> None:
    record.chmod(0o666)


def _changed(record: Path) -> None:
    record.write_text(record.read_text().replace("received", "elsewhere"))


@pytest.mark.parametrize("change", [_linked, _writable, _changed])
def test_a_record_that_others_may_have_written_is_refused(received: Path, change: Any) -> None:
    trust.trust(received)
    record = settings.state_folder() / trust.RECORD
    assert record.stat().st_mode & 0o777 == 0o600
    change(record)
    with pytest.raises(CurriculumError, match=r"trusted\.json"):
        trust.is_trusted(received)
    done = curriculum("train", "templates.demo", "--home", str(received))
    assert (done.exit_code, "trusted.json" in done.stderr) == (2, True)


def test_a_record_of_this_user_is_believed_whatever_it_says(received: Path, tmp_path: Path) -> None:
    """A user who could write the record would gain its trust."""
    other = tmp_path / "other"
    Store(other).open()
    trust.trust(received)
    (entry,) = trust.trusted()
    theirs = {
        "path": str(other),
        "uuid": json.loads((other / "workspace.json").read_text())["uuid"],
        "changed": (other / "workspace.json").stat().st_ctime_ns,
    }
    assert not trust.is_trusted(other)
    edit(settings.state_folder() / trust.RECORD, workspaces=[entry.model_dump(), theirs])
    assert trust.is_trusted(other)


def test_anothers_record_is_refused(received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust.trust(received)
    folder, own = settings.state_folder(), os.getuid()
    monkeypatch.setattr(settings, "state_folder", lambda: folder)
    monkeypatch.setattr(os, "getuid", lambda: own + 1)
    with pytest.raises(CurriculumError, match="another user"):
        trust.trusted()


def test_a_dry_run_neither_clones_nor_writes(tmp_path: Path) -> None:
    home, corpus = tmp_path / "home", tmp_path / "far.yaml"
    made = tmp_path / "origin.git"
    corpus.write_text(
        f"name: far\nrepositories:\n  - {{name: far, url: 'file://{made}', commit: HEAD, licence: MIT}}\n"
    )
    for options in (["--dry-run"], ["--explain"]):
        for verb in ("build", "mix", "train", "run"):
            done = curriculum(
                verb, "templates.demo", "--corpus", str(corpus), "--home", str(home), *options
            )
            assert done.exit_code == 2, done.stdout
            assert "cloned" in done.stderr
            assert not home.exists()


def test_a_dry_run_looks_into_bundles_and_leaves_no_clone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for options in (["--dry-run"], ["--explain"]):
        done = curriculum("build", "templates.demo", "--home", str(home), *options)
        assert done.exit_code == 0, done.stderr
        assert "documents" in done.stdout
        assert not home.exists()


def test_what_a_workspace_hides_is_said(received: Path) -> None:
    trust.trust(received)
    words = "diets/templates.demo.yaml of the workspace is used instead of the package's"
    assert words in curriculum("status", "--home", str(received)).stderr
    told = curriculum("status", "--json", "--home", str(received))
    assert json.loads(told.stdout)["shadows"] == ["diets/templates.demo.yaml"]
    assert words in curriculum("train", "templates.demo", "--home", str(received)).stderr
    (received / "diets" / "templates.demo.yaml").rename(received / "diets" / "mine.yaml")
    assert words not in curriculum("status", "--home", str(received)).stderr


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("diet", "check", "templates.demo"), marks=pytest.mark.system),
        ("diff", "templates", "templates.demo"),
        pytest.param(
            ("supply", "sample", "--phases-file", "phases.demo"), marks=pytest.mark.system
        ),
    ],
)
def test_what_a_workspace_hides_is_in_what_looks_at_a_diet(
    received: Path, words: tuple[str, ...]
) -> None:
    trust.trust(received)
    told = curriculum(*words, "--home", str(received), "--json")
    assert told.exit_code == 0, told.stderr
    assert json.loads(told.stdout)["shadows"] == ["diets/templates.demo.yaml"]
    assert "diets/templates.demo.yaml of the workspace" in told.stderr
    if words[0] == "diff":
        (received / "diets" / "templates.demo.yaml").rename(received / "mine.yaml")
        told = curriculum(*words, "--home", str(received), "--json")
        assert json.loads(told.stdout)["shadows"] == []
        assert "instead of" not in told.stderr


def test_contents_that_take_the_place_of_trusted_ones_are_not_trusted(tmp_path: Path) -> None:
    """Path, id, folder and times of the files are the same: all that a sender can set."""
    home = tmp_path / "home"
    trust.make_trusted(home)
    before, folder = (home / "workspace.json").stat(), home.stat()
    sent = Path(shutil.copytree(home, tmp_path / "sent"))
    shutil.rmtree(home / "locks", ignore_errors=True)
    for file in filter(Path.is_file, home.iterdir()):
        file.unlink()
    shutil.copytree(sent, home, dirs_exist_ok=True)
    after = (home / "workspace.json").stat()
    assert (home.stat().st_dev, home.stat().st_ino) == (folder.st_dev, folder.st_ino)
    assert after.st_mtime_ns == before.st_mtime_ns
    assert not trust.is_trusted(home)
    trust.trust(home)
    assert trust.is_trusted(home)


def test_the_environment_trusts_one_workspace_by_its_path(
    received: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    Store(other).open()
    link = tmp_path / "link"
    link.symlink_to(received)
    monkeypatch.setenv("CURRICULUM_TRUST", str(link))
    assert trust.is_trusted(received)
    assert trust.is_trusted(settings.home(link))
    assert not trust.is_trusted(other)
    monkeypatch.setenv("CURRICULUM_TRUST", str(tmp_path))
    assert trust.is_trusted(other), "a folder of workspaces"
    for variable in ("", str(tmp_path / "oth")):
        monkeypatch.setenv("CURRICULUM_TRUST", variable)
        assert not trust.is_trusted(other)


def test_a_flow_run_is_refused_in_a_workspace_that_is_not_trusted(
    received: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import flow_runs
    from flows.forms import BuildChanges

    monkeypatch.setenv("CURRICULUM_HOME", str(received))
    with pytest.raises(StoreError, match="curriculum trust"):
        flow_runs._config("templates.demo", BuildChanges())
    # A coordinator hands its trust to workers that have another state folder.
    for name, value in settings.flow_run_variables(received, "").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(trust, "shadow_words", lambda _: ())
    assert flow_runs._config("templates.demo", BuildChanges()).workspace == received
