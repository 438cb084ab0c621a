"""Sizes of clones, printed before a command makes them."""

import re
import subprocess
from pathlib import Path

import pytest

from curriculum.corpus.sources import Sources
from flows.cli.downloads import print_downloads
from schemas.corpus import CorpusSpec, RepositorySpec


def corpus_of(folder: Path, *sizes: int | None) -> CorpusSpec:
    """A corpus of as many repositories, each cloned from a url."""
    listed = []
    for number, size in enumerate(sizes):
        made = folder / f"lib{number}"
        made.mkdir()
        (made / "a.cc").write_text(f"int a{number};\n")
        git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(made))
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "One"], check=True)
        listed.append(RepositorySpec(name=made.name, url=f"file://{made}", download_megabytes=size))
    return CorpusSpec(name="libs", repositories=tuple(listed))


def test_the_sum_of_all_clones_is_printed_before_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, home = corpus_of(tmp_path, 1200, 34, None), tmp_path / "home"
    print_downloads(corpus, Sources.from_workspace(home))
    said = capsys.readouterr().err
    assert {"lib0", "lib1", "lib2"} <= {*re.findall(r"\w+", said)}
    assert "1,234 MB" in said
    assert "1 repository" in said
    assert not home.exists()


def test_clones_that_are_there_are_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, home = corpus_of(tmp_path, 5, 7), tmp_path / "home"
    Sources.from_workspace(home).resolve_all(corpus.repositories[:1])
    print_downloads(corpus, Sources.from_workspace(home))
    said = capsys.readouterr().err
    assert "7 MB" in said
    assert "lib0" not in said
    Sources.from_workspace(home).resolve_all(corpus.repositories)
    print_downloads(corpus, Sources.from_workspace(home))
    assert capsys.readouterr().err == ""


def test_a_corpus_of_folders_downloads_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RepositorySpec(name="own", path=str(tmp_path))
    print_downloads(
        CorpusSpec(name="own", repositories=(folder,)), Sources.from_workspace(tmp_path / "home")
    )
    assert capsys.readouterr().err == ""
