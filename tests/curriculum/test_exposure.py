"""Walks through foreign folders: of any depth, in the places where they are looked at."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum.corpus import git
from curriculum.corpus.kept_answers import refs_state
from curriculum.corpus.sources import directory_digest
from curriculum.exposure import leaves_below
from curriculum.store.inside import files_of


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with a file below more folders than Python recurs, and than its rmtree can remove."""
    root = tmp_path / "deep"
    root.mkdir()
    handle = os.open(root, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 200):
        os.mkdir("d", dir_fd=handle)
        below = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = below
    os.close(os.open("a.cpp", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)
    yield root
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


def test_a_deep_folder_is_walked_to_its_end(deep: Path) -> None:
    (leaf,) = leaves_below(deep)
    assert leaf.name == "a.cpp"
    assert len(leaf.relative_to(deep).parts) > sys.getrecursionlimit()
    assert len([*files_of(deep)]) == 1


def test_a_deep_plain_folder_has_a_digest(deep: Path) -> None:
    assert len(directory_digest(deep)) == 40


def test_deep_refs_of_a_repository_are_digested(deep: Path, tmp_path: Path) -> None:
    common = tmp_path / "common"
    (common / "refs").mkdir(parents=True)
    (common / "HEAD").write_text("ref: refs/heads/main")
    (deep / "d").rename(common / "refs" / "heads")
    layout = git.RepositoryLayout(head=common / "HEAD", common=common, name="deep")
    assert len(refs_state(layout)) == 64


def test_links_to_folders_and_folders_passed_over_are_no_leaves(tmp_path: Path) -> None:
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "sub" / ".git" / "config").touch()
    (tmp_path / "sub" / "a.h").touch()
    (tmp_path / "to").symlink_to("sub")
    (tmp_path / "circle").symlink_to("circle")
    found = {leaf.name for leaf in leaves_below(tmp_path, without=".git")}
    assert found == {"a.h", "circle"}
    assert {leaf.name for leaf in leaves_below(tmp_path)} == {"a.h", "circle", "config"}
