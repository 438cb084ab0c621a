"""The folder of what belongs to a user: made for the owner only, refused where it is somebody else's."""

import stat
from pathlib import Path

import pytest

from flows import settings


def test_the_state_folder_is_made_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CURRICULUM_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = settings.state_folder()
    assert folder == tmp_path / "state" / "curriculum"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_state_folder_that_is_a_link_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state").symlink_to("elsewhere")
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    with pytest.raises(settings.SettingError) as refused:
        settings.state_folder()
    assert (refused.value.name, refused.value.value) == ("$CURRICULUM_STATE", tmp_path / "state")


@pytest.mark.parametrize(("mode", "is_refused"), [(0o777, True), (0o755, False), (0o700, False)])
def test_a_state_folder_in_which_others_could_plant_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_refused: bool
) -> None:
    folder, precious = tmp_path / "state", tmp_path / "precious"
    folder.mkdir()
    folder.chmod(mode)
    (folder / "traceback.txt").symlink_to(precious)
    monkeypatch.setenv("CURRICULUM_STATE", str(folder))
    if is_refused:
        with pytest.raises(settings.SettingError) as refused:
            settings.state_folder()
        assert refused.value.value == folder
        assert stat.S_IMODE(folder.stat().st_mode) == mode, "nothing is taken over"
    else:
        assert stat.S_IMODE(settings.state_folder().stat().st_mode) == 0o700


def test_pages_of_a_workspace_find_the_state_of_whoever_started_them(tmp_path: Path) -> None:
    shown = settings.pages_variables(tmp_path, tmp_path / "pages")
    assert shown["CURRICULUM_STATE"] == str(settings.state_folder())
