"""Settings that `serve` hands on mean the same to its children; a team's server alone gets its secret."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from curriculum.store import Store
from flows import settings
from tests.flows.serving import command, free_port


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a program and a file."""
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "tell.sh").touch(mode=0o755)
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("./tell.sh --to 'a b'", "{here}/tell.sh --to 'a b'"),
        ("../tell.sh", "{here}/../tell.sh"),
        ("/bin/sh -c 'cat >> x'", "/bin/sh -c 'cat >> x'"),
        ("mail me", "mail me"),
        ("https://example.org/a b", "https://example.org/a b"),
        ("mailto://me:word@example.org/a b", "mailto://me:word@example.org/a b"),
        ("sh 'unclosed", "sh 'unclosed"),
        ("  ", "  "),
    ],
)
def test_a_command_to_notify_is_the_same_from_everywhere(
    here: Path, given: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CURRICULUM_NOTIFY", given)
    assert settings.absolute_paths() == {"CURRICULUM_NOTIFY": meant.format(here=here)}


@pytest.mark.parametrize(
    ("name", "read"),
    [("CURRICULUM_SLOTS", settings.slots_folder), ("CURRICULUM_SBATCH", settings.sbatch_template)],
)
def test_a_path_is_the_same_from_everywhere(
    here: Path, name: str, read: Callable[[], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.absolute_paths() == {}
    monkeypatch.setenv(name, "../given")
    named = read()
    settings_of_children = settings.absolute_paths()
    monkeypatch.chdir("/")
    assert read() != named, "it would be another path"
    monkeypatch.setenv(name, settings_of_children[name])
    assert read() == named


def test_serve_refuses_a_command_with_a_file_that_it_would_not_find(here: Path) -> None:
    target = f"sh {shlex.quote('tell.sh')}"
    done = subprocess.run(
        command(here / "home", free_port()),
        env=settings.environment({"CURRICULUM_NOTIFY": target}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "CURRICULUM_NOTIFY" in done.stderr
    assert "tell.sh" in done.stderr
    assert "Traceback" not in done.stderr


TEAM = "http://team.example:4200"


@pytest.mark.parametrize(
    ("address", "secret", "sent"),
    [
        (TEAM, "", "ada:secret"),
        ("http://elsewhere.example:4200", "", None),
        ("http://127.0.0.1:4200", "curriculum:ours", "curriculum:ours"),
    ],
)
def test_dashboards_send_the_secret_of_a_team_to_its_server_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, secret: str, sent: str | None
) -> None:
    Store(tmp_path).open()
    monkeypatch.setenv("PREFECT_API_URL", f"{TEAM}/api/")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "ada:secret")
    assert settings.server_of(tmp_path) is None, "nobody serves it"
    settings.ServedAddresses(address=address, secret=secret, pages="", login="").write(tmp_path)
    with settings.serve_lock(tmp_path):
        found = settings.server_of(tmp_path)
    assert found is not None
    assert found.address == address
    assert dict(found.headers) == (settings.authorization(sent) if sent else {})
