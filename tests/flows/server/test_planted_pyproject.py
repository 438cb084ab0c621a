"""marimo takes no settings from a folder above its own, where another user may have put a file."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from marimo._config.config import MarimoConfig
from marimo._config.manager import ScriptConfigReader, get_default_config_manager
from marimo._config.utils import get_user_config_path

from dashboards import frame
from flows.server import dashboard

PLANTED = """
[tool.marimo.runtime]
pythonpath = ["modules"]
dotenv = ["planted.env"]
[tool.marimo.display]
custom_css = ["planted.css"]
"""
PLANTED_USER_SETTINGS = '[display]\ncustom_css = ["planted.css"]\n'


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """Files and folders that a marimo app loads."""

    pythonpath: list[str]
    dotenv: list[str]
    custom_css: list[str]

    @classmethod
    def of(cls, config: MarimoConfig) -> "Resolved":
        """Read them from a resolved configuration."""
        return cls(
            pythonpath=config["runtime"].get("pythonpath", []),
            dotenv=config["runtime"].get("dotenv", []),
            custom_css=config["display"].get("custom_css", []),
        )


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder with files of another user, as /tmp may have them."""
    (tmp_path / "pyproject.toml").write_text(PLANTED)
    (tmp_path / ".marimo.toml").write_text(PLANTED_USER_SETTINGS)
    (tmp_path / "mine").mkdir()
    return tmp_path


def test_the_apps_load_nothing_that_a_file_above_their_folder_names(shared: Path) -> None:
    home = shared / "home"
    home.mkdir()
    told = subprocess.run(
        [sys.executable, __file__, str(home)],
        env={**os.environ, "TMPDIR": str(shared / "mine")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    nothing = Resolved(pythonpath=[], dotenv=[], custom_css=[])
    assert [Resolved(**app) for app in json.loads(told)] == [nothing] * len(frame.PAGES)


def test_marimo_loads_what_a_file_above_a_bare_folder_names(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared / "mine")
    get_user_config_path.cache_clear()
    try:
        found = get_default_config_manager(current_path=None)
        assert Resolved.of(found.get_config(hide_secrets=False)) == Resolved(
            pythonpath=[str(shared / "modules")],
            dotenv=[str(shared / "planted.env")],
            custom_css=[str(shared / "planted.css")],
        )
        assert found.user_config_mgr.get_config_path() == str(shared / ".marimo.toml")
    finally:
        get_user_config_path.cache_clear()


def _write_settings(pages: Any, ear: socket.socket, *, linger_s: int) -> None:
    """Write the settings of a session of each app that would be served."""
    resolved = []
    for mounted in pages.pages.built.pages.routes:
        state = getattr(getattr(mounted, "app", None), "state", None)
        if state is not None:
            (file,) = state.session_manager.workspace.files
            session = state.config_manager.with_partial(ScriptConfigReader(file.path))
            resolved.append(asdict(Resolved.of(session.get_config(hide_secrets=False))))
    sys.stdout.write(json.dumps(resolved))


if __name__ == "__main__":
    with (
        mock.patch("flows.server.dashboard.serve_socket", _write_settings),
        socket.create_server(("127.0.0.1", 0)) as ear,
    ):
        dashboard._show(Path(sys.argv[1]), ear, dashboard.new_path())
