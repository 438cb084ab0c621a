"""Pins that can't be read: refused at once, before anything is written."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from curriculum.corpus.conversations import find_conversations
from curriculum.corpus.sources import Sources, resolve
from curriculum.stages import build as build_corpus
from curriculum.store import Store
from schemas.corpus import ConversationsSpec, CorpusSpec, RepositorySpec
from schemas.errors import CorpusError


def special(kind: str, path: Path) -> Path:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.close()
    else:
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("kind", "noun"), [("fifo", "pipe"), ("socket", "socket"), ("device", "device")]
)
def test_a_path_that_is_no_file_and_no_folder_is_refused(
    tmp_path: Path, kind: str, noun: str
) -> None:
    path = special(kind, tmp_path / "s")
    with pytest.raises(CorpusError, match=f"found a {noun} instead"):
        resolve(RepositorySpec(name="a", path=str(path)), cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["packed-refs", "refs/heads/other", "objects/pack/pack-1.idx"])
def test_a_pipe_inside_a_repository_is_refused(build: Any, tmp_path: Path, name: str) -> None:
    repository = build("origin")
    repository.commit("one", a_cc="int a;\n")
    special("fifo", repository.path / ".git" / name)
    with pytest.raises(CorpusError, match=Path(name).name):
        resolve(RepositorySpec(name="a", path=str(repository.path)), cache=tmp_path / "cache")


@pytest.mark.timeout(20)
def test_conversations_that_are_no_file_are_refused(tmp_path: Path) -> None:
    path = special("fifo", tmp_path / "talks.jsonl")
    with pytest.raises(CorpusError, match=r"talks\.jsonl"):
        find_conversations(ConversationsSpec(name="talks", path=str(path)))


def test_all_pins_that_do_not_resolve_are_named_at_once(build: Any, tmp_path: Path) -> None:
    good = build("good")
    good.commit("one", a_cc="int a;\n")
    unknown = RepositorySpec(name="unknown", path=str(good.path), commit="nowhere")
    names = {"gone": "gone", "typo": "ty/po"}
    missing = [RepositorySpec(name=each, path=str(tmp_path / path)) for each, path in names.items()]
    sources = Sources(cache=tmp_path / "cache")
    with pytest.raises(CorpusError, match="2 sources") as refused:
        sources.resolve_all([missing[0], unknown, missing[1]])
    assert all(f"repository {name}" in str(refused.value) for name in names)
    with pytest.raises(CorpusError, match="nowhere"):
        sources.resolve_all([unknown])
    assert not (tmp_path / "cache").exists()


def test_a_nul_in_a_commit_is_refused_wherever_the_pin_is_from(build: Any) -> None:
    repository = build("origin")
    repository.commit("one", a_cc="int a;\n")
    with pytest.raises(ValueError, match="NUL"):
        RepositorySpec(name="a", path=str(repository.path), commit="HE\0AD")


@pytest.fixture
def bundled(build: Any, tmp_path: Path) -> Path:
    """A bundle, which is cloned into the workspace before it is read."""
    repository = build("origin")
    repository.commit("one", a_cc="int a;\n")
    repository.git("bundle", "create", str(tmp_path / "good.bundle"), "--all")
    return tmp_path / "good.bundle"


def refuse(home: Path, *pins: dict[str, str]) -> None:
    """Build a corpus of which a pin doesn't resolve."""
    specs = [RepositorySpec(name=f"r{number}", **pin) for number, pin in enumerate(pins)]
    corpus = CorpusSpec(name="mine", repositories=tuple(specs))
    with pytest.raises(CorpusError, match=r"nonexistent|nowhere"):
        build_corpus(Store(home), corpus, [], fixed_length=128)


@pytest.mark.parametrize(
    "bad",
    [{"path": "/nonexistent"}, {"commit": "nowhere"}, {"url": "file:///nonexistent"}],
    ids=["path", "commit", "url"],
)
def test_a_corpus_with_a_pin_that_does_not_resolve_writes_nothing(
    build: Any, tmp_path: Path, bad: dict[str, str]
) -> None:
    repository = build("plain")
    repository.commit("one", a_cc="int a;\n")
    good = {"path": str(repository.path)}
    refuse(tmp_path / "workspace", good, bad if {"path", "url"} & bad.keys() else good | bad)
    assert not (tmp_path / "workspace").exists()


def test_nothing_is_cloned_where_a_path_or_a_commit_beside_is_wrong(
    bundled: Path, tmp_path: Path
) -> None:
    refuse(tmp_path / "workspace", {"path": str(bundled)}, {"path": "/nonexistent"})
    assert not (tmp_path / "workspace").exists()


def test_a_clone_that_resolves_is_all_that_another_mistake_leaves(
    build: Any, bundled: Path, tmp_path: Path
) -> None:
    """A clone of gigabytes needn't be made again because of a typing error beside it."""
    home = tmp_path / "workspace"
    other = build("other")
    other.commit("one", a_cc="int a;\n")
    refuse(home, {"path": str(bundled)}, {"url": f"file://{other.path}", "commit": "nowhere"})
    assert {path.name for path in home.iterdir()} == {"workspace.json", ".locks", "repositories"}
    assert len([*(home / "repositories").iterdir()]) == 1


def test_a_bundle_without_the_commit_is_not_kept(bundled: Path, tmp_path: Path) -> None:
    spec = RepositorySpec(name="a", path=str(bundled), commit="nowhere")
    with pytest.raises(CorpusError, match="nowhere"):
        resolve(spec, cache=tmp_path / "ws" / "cache")
    assert not (tmp_path / "ws").exists()
