"""A workspace that another user plants after a missing one was looked for isn't used."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from curriculum import exposure
from curriculum.sandbox import landlock
from curriculum.store import Store
from flows import settings
from flows.cli import received
from flows.cli.app import exit_code
from flows.settings import SettingError, trust
from schemas.errors import DietError
from tests.flows.cli_runner import curriculum

NOBODY, WRONG = 65534, 2
MAKING = (
    "init specialist",
    "build templates.demo",
    "mix templates.demo",
    "train templates.demo",
    "train templates.demo --dry-run",
    "run templates.demo",
    "tokenizer train templates.demo",
    "diet check templates.demo",
    "demo",
    "supply sample",
    "import rows.parquet",
    "merge .",
    "serve",
)
"""Commands that may make a workspace."""
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="acts as another user")


@pytest.fixture(autouse=True)
def _nothing_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CURRICULUM_TRUST")
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))


@pytest.fixture
def sticky() -> Iterator[Path]:
    """A folder such as /tmp, which another user reaches."""
    folder = Path(tempfile.mkdtemp(prefix="curriculum-sticky-", dir="/tmp")).resolve()
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def prepared(sticky: Path) -> Path:
    """A workspace of another user, whose diet names a command."""
    home = sticky / "prepared"
    Store(home).open()
    (home / "diets").mkdir()
    (home / "diets" / "templates.demo.yaml").write_text("trainer: {command: touch /fired}\n")
    for place in (home, *home.rglob("*")):
        os.chown(place, NOBODY, NOBODY)
        place.chmod(0o777)
    return home


def _as_nobody(work: Callable[[], object]) -> int:
    """Do work as another user, and return 0, or the number of the error that the system refused it by."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            work()
        except OSError as refused:
            os._exit(refused.errno or 1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("words", MAKING)
def test_nobody_can_plant_a_workspace_once_a_command_found_none(
    sticky: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    home, looked, outcomes = sticky / "home", trust.require_trusted, []

    def plant_late(place: Path, *named: str | Path | None) -> None:
        looked(place, *named)
        outcomes.append(_as_nobody(lambda: prepared.rename(home)))
        raise DietError("here", cause="the test ends it", cure="None")

    monkeypatch.setattr(trust, "require_trusted", plant_late)
    ended = curriculum(*words.split(), "--home", str(home), cwd=sticky)
    assert "the test ends it" in ended.stderr
    assert (len(outcomes), outcomes[0] == 0) == (1, False)
    assert (home.stat().st_uid, [*home.iterdir()]) == (os.getuid(), [])


@pytest.mark.parametrize("words", MAKING)
def test_a_workspace_that_is_planted_before_the_look_is_refused(
    sticky: Path, prepared: Path, words: str
) -> None:
    home = sticky / "home"
    assert _as_nobody(lambda: prepared.rename(home)) == 0, "what fails after the look"
    refused = curriculum(*words.split(), "--home", str(home), cwd=sticky)
    assert (refused.returncode, "another user" in refused.stderr) == (WRONG, True)


@pytest.mark.parametrize("planted", ["folder", "link"])
def test_what_another_user_puts_there_while_the_folder_is_made_is_refused(
    sticky: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    home, mkdir = sticky / "home", Path.mkdir

    def mkdir_late(place: Path, *given: Any, **named: Any) -> None:
        if place == home:
            plant = prepared.rename if planted == "folder" else place.symlink_to
            assert _as_nobody(lambda: plant(home if planted == "folder" else prepared)) == 0
        mkdir(place, *given, **named)

    monkeypatch.setattr(Path, "mkdir", mkdir_late)
    refused = curriculum("init", "specialist", "--home", str(home))
    assert (refused.returncode, str(home) in refused.stderr) == (WRONG, True)
    assert not (home / "diets" / "specialist.yaml").exists()
    assert trust.trusted() == ()


def test_a_workspace_made_in_a_shared_folder_is_trusted_from_then_on(sticky: Path) -> None:
    home = sticky / "below" / "home"
    assert curriculum("init", "specialist", "--home", str(home)).returncode == 0
    assert trust.is_trusted(home)
    assert _as_nobody(lambda: (sticky / "below").rename(sticky / "away")) != 0
    assert _as_nobody(lambda: (home / "diets" / "more.yaml").touch()) != 0


def test_a_look_at_no_workspace_makes_none(sticky: Path) -> None:
    told = curriculum("status", cwd=sticky)
    assert (told.returncode, "No workspace" in told.stdout + told.stderr) == (0, True)
    assert [*sticky.iterdir()] == []


@pytest.mark.parametrize("words", ["shell", "gc --yes", "dashboard --no-open"])
def test_a_command_that_needs_a_workspace_takes_none_that_others_could_make(
    sticky: Path, words: str
) -> None:
    refused = curriculum(*words.split(), cwd=sticky)
    assert (refused.returncode, "create it first" in refused.stderr) == (WRONG, True)
    assert [*sticky.iterdir()] == []


@pytest.mark.skipif(not landlock(), reason="needs Landlock")
@pytest.mark.parametrize("late", [False, True])
def test_a_look_never_reads_a_workspace_that_came_after_it_began(
    sticky: Path, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    home = sticky / "home"
    if not late:
        prepared.rename(home)

    def plant_late() -> int:
        if late:
            assert _as_nobody(lambda: prepared.rename(home)) == 0
        return landlock()

    def read(output: Path | None) -> None:
        assert output is not None
        try:
            output.write_text((home / "workspace.json").read_text())
        except OSError as refused:
            output.write_text(type(refused).__name__)

    monkeypatch.setattr(received, "landlock", plant_late)
    assert received.look(home, read, exit_code, output=tmp_path / "seen") == 0
    assert ((tmp_path / "seen").read_text() == "PermissionError") is late


def _flicker(folder: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            folder.rename(folder.with_name("away"))
        with contextlib.suppress(OSError):
            folder.with_name("away").rename(folder)


def test_a_folder_of_another_user_that_comes_and_goes_is_never_safe(sticky: Path) -> None:
    theirs = sticky / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    child = os.fork()
    if child == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        _flicker(theirs, 0.5)
        os._exit(0)
    found = set()
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        found |= {exposure.exposure(theirs / "home"), exposure.exposure(theirs)}
    assert None not in found
    assert {words.partition(" ")[0] for words in found if words} == {str(theirs)}


def test_a_link_of_another_user_that_is_gone_after_it_was_followed_is_refused(
    sticky: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, link, readlink = tmp_path / "mine", sticky / "home", os.readlink
    trust.make_trusted(mine)
    link.symlink_to(mine)
    assert settings.home(link) == mine
    os.lchown(link, NOBODY, NOBODY)

    def readlink_once(*given: Any, **named: Any) -> Any:
        found = readlink(*given, **named)
        link.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os, "readlink", readlink_once)
    with pytest.raises(SettingError):
        settings.home(link)
    assert not link.is_symlink()


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("plant", ["folder", "open folder", "link"])
def test_a_state_folder_that_another_user_could_replace_is_refused(
    sticky: Path, monkeypatch: pytest.MonkeyPatch, plant: str, there: bool
) -> None:
    above, behind = sticky / "above", sticky / "behind"
    behind.mkdir()
    above.symlink_to(behind) if plant == "link" else above.mkdir()
    if there:
        (above / "state").mkdir(mode=0o700)
    monkeypatch.setenv("CURRICULUM_STATE", str(above / "state"))
    assert settings.state_folder() == above.resolve() / "state"
    shutil.rmtree(settings.state_folder()) if not there else None
    if plant == "open folder":
        above.chmod(0o777)
    else:
        os.lchown(above, NOBODY, NOBODY)
    with pytest.raises(SettingError) as refused:
        settings.state_folder()
    assert str(above) in str(refused.value)
    assert (above / "state").exists() is there


@pytest.mark.parametrize("folder", ["state", "above/state"])
def test_a_state_folder_in_a_shared_one_is_made_and_kept(
    sticky: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("CURRICULUM_STATE", str(sticky / folder))
    assert settings.state_folder() == settings.state_folder() == sticky / folder
    assert (sticky / folder).stat().st_mode & 0o777 == 0o700
