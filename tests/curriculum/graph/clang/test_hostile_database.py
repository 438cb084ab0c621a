"""A compile_commands.json of a stranger is read or refused: deep, endless, or with names no file has."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from curriculum.graph.clang import read_database
from schemas.errors import CorpusError

pytestmark = pytest.mark.timeout(60)


def database(folder: Path, **changes: Any) -> Path:
    unit = {"directory": "/src", "file": "a.cc", "command": "c++ -c a.cc"}
    (folder / "compile_commands.json").write_text(json.dumps([unit | changes]))
    return folder / "compile_commands.json"


def test_a_folder_whose_name_is_too_long_is_none(tmp_path: Path) -> None:
    for name in ("x" * 100_000, f"/{'x' * 300}"):
        file = database(tmp_path, directory=name, file=f"{name}/a.cc")
        read_database(file, ["a.cc"], original=None)


def test_a_response_file_that_names_itself_twice_is_not_expanded(tmp_path: Path) -> None:
    (tmp_path / "twice").write_text("@twice " * 50)
    file = database(tmp_path, directory=str(tmp_path), command="c++ @twice -c a.cc")
    found = read_database(file, ["a.cc"], original=tmp_path)
    assert 0 < found.count.missing_response_files < 10_000


def test_a_pipe_as_response_file_is_missing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "words")
    file = database(tmp_path, directory=str(tmp_path), command="c++ @words -c a.cc")
    found = read_database(file, ["a.cc"], original=tmp_path)
    assert found.count.missing_response_files == 1


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[NaN]", "[" + "9" * 5_000 + "]", '[{"a":1,"a":2}]']
)
def test_what_is_no_strict_json_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "compile_commands.json"
    file.write_text(text)
    with pytest.raises(CorpusError, match="isn't JSON that is read"):
        read_database(file, ["a.cc"], original=None)
