"""A library's error ends in one line, and its traceback is saved to a file."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from typer.testing import CliRunner

from flows.cli import app, status
from tests.flows.hostile_repository import BIDI, TERMINAL, raw_controls


def _arrow() -> None:
    raise pa.ArrowInvalid(f"{TERMINAL}{BIDI}")


def _pydantic() -> None:
    TypeAdapter(int).validate_python("no number")


@pytest.mark.parametrize("fail", [_arrow, _pydantic])
def test_the_traceback_of_what_a_reader_refuses_is_kept(
    fail: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(status, "garbage", lambda *_, **__: fail())
    ended = CliRunner().invoke(app, ["status", "--home", str(tmp_path / "home")])
    kept = tmp_path / "state" / "traceback.txt"
    assert ended.exit_code == 2
    assert ended.stderr.count("\n") == 1
    assert f"include the traceback in {kept}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert f"in {fail.__name__}" in kept.read_text()
    assert raw_controls(kept.read_text()) == []


def test_an_error_is_named_where_its_traceback_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").touch()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(status, "garbage", lambda *_, **__: _arrow())
    ended = CliRunner().invoke(app, ["status", "--home", str(tmp_path / "home")])
    assert (ended.exit_code, ended.stderr.count("\n")) == (2, 1)
    assert "an input file" in ended.stderr
    assert "include the traceback" not in ended.stderr


def test_a_mistake_of_ours_keeps_its_traceback_and_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("ours")

    (tmp_path / "home").mkdir()
    monkeypatch.setattr(status, "garbage", fail)
    ended = CliRunner().invoke(app, ["status", "--home", str(tmp_path / "home")])
    assert ended.exit_code == 1
    assert isinstance(ended.exception, KeyError)
