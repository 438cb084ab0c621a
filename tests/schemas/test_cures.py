"""Commands that install what lacks: by the installer of this Python, within the lock of a checkout."""

import importlib.util
import shlex
import sys
from pathlib import Path

import pytest

from schemas import cures
from schemas.cures import CHECKOUT, cure_of, install_command


@pytest.fixture
def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python as uv makes it."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "pip" else find(name, *more),
    )


@pytest.fixture
def installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that were installed from elsewhere than a checkout."""
    monkeypatch.setattr(cures, "CHECKOUT", tmp_path)


def test_an_extra_is_installed_from_the_checkout_within_its_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(CHECKOUT)
    words = shlex.split(install_command("curriculum[ray]"))
    assert words[1:] == ["-m", "pip", "install", "-c", "requirements.lock", "-e", ".[ray]"]
    monkeypatch.chdir(tmp_path)
    words = shlex.split(install_command("curriculum[ray]"))
    assert words[-3:] == [str(CHECKOUT / "requirements.lock"), "-e", f"{CHECKOUT}[ray]"]


def test_a_python_without_pip_is_installed_into_by_uv(without_pip: None) -> None:
    words = shlex.split(install_command("duckdb-cli"))
    assert words[:3] == ["uv", "pip", "install"]
    assert Path(words[words.index("--python") + 1]).absolute() == Path(sys.executable)
    assert words[-1] == "duckdb-cli"


def test_without_a_checkout_the_package_is_named(installed_packages: None) -> None:
    assert shlex.split(install_command("curriculum[ray]"))[-1] == "curriculum[ray]"


@pytest.mark.parametrize(
    "file",
    ["rows/new\nline/rows.parquet", "runs/new\nline/attempt=1/job.json", "runs/a\n/attempt=1/log"],
)
def test_the_name_of_a_folder_stays_on_one_line_in_a_cure(file: str) -> None:
    cure = cure_of(Path(file))
    assert ("\n" in cure, r"\n" in cure) == (False, True)
