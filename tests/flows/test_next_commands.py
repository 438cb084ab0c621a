"""The commands that a demo recommends at its end, by what is installed where it ran."""

from pathlib import Path

import pytest

from flows.cli import demo
from flows.server import dashboard
from schemas.cures import CHECKOUT


@pytest.mark.parametrize("is_installed", [True, False])
def test_serving_is_recommended_with_all_that_it_needs(
    is_installed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(dashboard, "is_installed", lambda: is_installed)
    monkeypatch.chdir(CHECKOUT)
    assert [*demo._serving()] == ["curriculum serve" if is_installed else "make serve"]
    monkeypatch.chdir(tmp_path)
    commands = [*demo._serving()]
    assert commands[-1] == "curriculum serve"
    assert (len(commands) == 1) is is_installed
    assert all("requirements.lock" in command for command in commands[:-1])
