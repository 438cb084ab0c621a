"""cmake runs only in a copy, for a time that ends, and says why it fails."""

import os
import shutil
from pathlib import Path

import psutil
import pytest

from curriculum.graph.clang import GraphSnapshot, configure, index_tree
from schemas.errors import CorpusError
from tests.curriculum.graph.clang.conftest import whole

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")

PROJECT = """
cmake_minimum_required(VERSION 3.13)
project(sample CXX)
{extra}
configure_file(config.h.in ${{CMAKE_BINARY_DIR}}/include/config.h)
add_library(sample a.cpp)
target_include_directories(sample PRIVATE ${{CMAKE_BINARY_DIR}}/include)
"""


def project(folder: Path, extra: str = "") -> Path:
    tree = folder / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "CMakeLists.txt").write_text(PROJECT.format(extra=extra))
    (tree / "config.h.in").write_text("#define ANSWER 42\n")
    (tree / "a.cpp").write_text('#include "config.h"\nint answer() { return ANSWER; }\n')
    return tree


def file_times(folder: Path) -> list[tuple[str, int]]:
    return sorted((str(file), file.stat().st_mtime_ns) for file in folder.rglob("*"))


@pytest.mark.clang
def test_a_tree_without_a_database_is_indexed_whole_and_left_alone(tmp_path: Path) -> None:
    tree, scratch, out = project(tmp_path), tmp_path / "scratch", tmp_path / "index"
    before = file_times(tree)
    scratch.mkdir()
    out.mkdir()
    database = configure(tree, scratch)
    report = index_tree(tree, database, out, original=scratch / "source", workers=1)
    assert whole(report)
    assert [each.name for each in GraphSnapshot.open(out).functions] == ["answer"]
    assert file_times(tree) == before


def test_what_lacks_for_tests_only_is_configured_without_them(tmp_path: Path) -> None:
    extra = (
        'option(SAMPLE_BUILD_TESTS "" ON)\nif(SAMPLE_BUILD_TESTS)\nadd_subdirectory(gone)\nendif()'
    )
    tree, scratch = project(tmp_path, extra), tmp_path / "scratch"
    scratch.mkdir()
    assert configure(tree, scratch).is_file()


def test_a_failure_says_what_cmake_said(tmp_path: Path) -> None:
    tree, scratch = project(tmp_path, 'message(FATAL_ERROR "no frobnicator")'), tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(CorpusError, match=r"exit code 1.*frobnicator"):
        configure(tree, scratch)


def test_an_endless_configuration_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    asleep = ["sleep", str(6000 + os.getpid())]
    extra = f"execute_process(COMMAND {' '.join(asleep)})"
    tree, scratch = project(tmp_path, extra), tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(CorpusError, match="2 s"):
        configure(tree, scratch, limit_seconds=2.0)
    left = [each for each in psutil.process_iter(["cmdline"]) if each.info["cmdline"] == asleep]
    assert psutil.wait_procs(left, timeout=60)[1] == []


def test_a_tree_without_cmake_lists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"no CMakeLists\.txt"):
        configure(tmp_path, tmp_path / "scratch")
