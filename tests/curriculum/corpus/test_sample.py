import json
import subprocess
from pathlib import Path

import pytest

from curriculum.corpus import load
from curriculum.corpus.load import sample_names, unpack_samples
from schemas.errors import CorpusError
from tests.error_fields import fields


@pytest.fixture
def shipped(build, tmp_path, monkeypatch):
    """A folder of one tiny sample, in place of those that are shipped."""
    repo = build("tiny")
    repo.commit("one", a_cc="int a;\n")
    repo.commit("two", a_cc="int b;\n")
    folder = tmp_path / "shipped"
    folder.mkdir()
    repo.git("bundle", "create", str(folder / "tiny.bundle"), "HEAD", "main")
    (folder / "tiny.compile_commands.json").write_text(
        json.dumps([{"directory": "@ROOT@", "file": "a.cc", "command": "c++ -I@ROOT@ a.cc"}])
    )
    monkeypatch.setattr(load, "SAMPLES", folder)
    return repo


def head_of(path: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(path), "rev-parse", "HEAD"], capture_output=True, check=True, text=True
    ).stdout.strip()


def test_samples_are_work_trees_with_the_same_commits_and_a_compilation_database(shipped, tmp_path):
    (path,) = unpack_samples(tmp_path / "out")
    assert head_of(path) == shipped.ids[-1]
    assert (path / "a.cc").read_text() == "int b;\n"
    database = json.loads((path / "compile_commands.json").read_text())
    assert database[0] == {"directory": str(path), "file": "a.cc", "command": f"c++ -I{path} a.cc"}


def test_unpacking_again_changes_nothing(shipped, tmp_path):
    (path,) = unpack_samples(tmp_path / "out")
    (path / "mine.txt").write_text("kept")
    assert unpack_samples(tmp_path / "out") == [path]
    assert (path / "mine.txt").read_text() == "kept"


def test_the_shipped_samples_can_be_unpacked_and_read(tmp_path, read):
    assert "ringlog" in sample_names()
    for path in unpack_samples(tmp_path / "out"):
        changes, skips = read(path)
        assert len(changes) > 20
        assert skips.lost_share == 0
        assert (path / "compile_commands.json").is_file()


def test_a_package_without_samples_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(load, "SAMPLES", tmp_path)
    with pytest.raises(CorpusError, check=fields(name=tmp_path)):
        unpack_samples(tmp_path / "out")
