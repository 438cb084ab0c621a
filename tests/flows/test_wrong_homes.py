"""A path that can't be a workspace is refused by its name: a file, or a link that leads nowhere."""

from pathlib import Path

import pytest

from curriculum.exposure import is_trusted_by_environment, real_path
from flows import settings
from schemas.errors import CurriculumError
from tests.flows.cli_runner import curriculum

WRONG = 2


@pytest.fixture(params=["file", "dangling", "circle"])
def wrong(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    if path.name == "file":
        path.write_text("x")
    else:
        path.symlink_to(path if path.name == "circle" else tmp_path / "nowhere")
    return path


@pytest.mark.parametrize(
    "words",
    ["init mine --home {}", "status --home {}", "trust {}", "trust --forget {}", "merge {}"],
)
def test_a_path_that_is_no_folder_is_refused_as_that(
    wrong: Path, tmp_path: Path, words: str
) -> None:
    refused = curriculum(*words.format(wrong).split(), home=tmp_path / "home")
    assert refused.returncode == WRONG
    assert refused.stderr.startswith(f"error: {wrong}: ")
    assert "Traceback" not in refused.stderr
    assert "curriculum trust" not in refused.stderr


def test_a_home_of_the_environment_is_refused_likewise(wrong: Path) -> None:
    refused = curriculum("status", home=wrong)
    assert (refused.returncode, str(wrong) in refused.stderr) == (WRONG, True)


@pytest.mark.parametrize("target", ["nowhere", "link"])
def test_a_home_below_a_link_that_leads_nowhere_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / target)
    home = tmp_path / "link" / "home"
    refused = curriculum("init", "mine", "--home", str(home))
    assert refused.returncode == WRONG
    assert refused.stderr.startswith(f"error: {home}: ")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("words", [("status",), ("init", "mine", "--home", "mine"), ("trust",)])
def test_a_relative_home_in_a_folder_that_was_removed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    refused = curriculum(*words)
    assert (refused.returncode, "Traceback" in refused.stderr) == (WRONG, False)
    assert settings.home(tmp_path) == tmp_path


def test_a_state_folder_that_is_no_folder_is_refused(
    wrong: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_STATE", str(wrong))
    with pytest.raises(CurriculumError) as refused:
        settings.state_folder()
    assert refused.value.value == wrong


def test_a_variable_of_trust_that_leads_in_a_circle_trusts_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    monkeypatch.setenv("CURRICULUM_TRUST", str(circle))
    assert real_path(circle) == circle
    assert not is_trusted_by_environment(tmp_path)
