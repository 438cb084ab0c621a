"""Pins that can't be read: refused at once, before anything is written."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from curriculum.build import build as build_corpus
from curriculum.corpus.conversations import find_conversations
from curriculum.corpus.sources import resolve
from curriculum.store import Store
from schemas.corpus import ConversationsSpec, CorpusSpec, RepositorySpec
from schemas.errors import CorpusError

WAITS = pytest.mark.xfail(strict=True, reason="opening a FIFO waits for a writer", run=False)
READ = pytest.mark.xfail(strict=True, reason="what is no regular file is opened as a bundle")
WRITES = pytest.mark.xfail(strict=True, reason="clones are made before all pins resolve")


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
    "kind",
    [
        pytest.param("fifo", marks=WAITS),
        *(pytest.param(each, marks=READ) for each in ("socket", "device")),
    ],
)
def test_a_path_that_is_no_file_and_no_folder_is_refused(tmp_path: Path, kind: str) -> None:
    path = special(kind, tmp_path / "s")
    with pytest.raises(CorpusError, match="neither a folder nor a file"):
        resolve(RepositorySpec(name="a", path=str(path)), cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.timeout(20)
def test_conversations_that_are_no_file_are_refused(tmp_path: Path) -> None:
    path = special("fifo", tmp_path / "talks.jsonl")
    with pytest.raises(CorpusError, match=r"talks\.jsonl"):
        find_conversations(ConversationsSpec(name="talks", path=str(path)))


@pytest.mark.xfail(strict=True, reason="a NUL in a commit is a ValueError of subprocess")
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


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"path": "/nonexistent"}, marks=WRITES),
        pytest.param({"path": "GOOD", "commit": "nowhere"}, marks=WRITES),
        pytest.param({"url": "file:///nonexistent"}, marks=WRITES),
    ],
    ids=["path", "commit", "url"],
)
def test_a_corpus_with_a_pin_that_does_not_resolve_writes_nothing(
    bundled: Path, tmp_path: Path, bad: dict[str, str]
) -> None:
    first = RepositorySpec(name="good", path=str(bundled))
    fields = {name: str(bundled) if value == "GOOD" else value for name, value in bad.items()}
    corpus = CorpusSpec(name="mine", repositories=(first, RepositorySpec(name="bad", **fields)))
    home = tmp_path / "workspace"
    with pytest.raises(CorpusError, match=r"bad|clone"):
        build_rows(home, corpus)
    assert not home.exists()


def build_rows(home: Path, corpus: CorpusSpec) -> None:
    build_corpus(Store(home), corpus, [], anchor_length=128)


@pytest.mark.parametrize("bad", [pytest.param({"commit": "nowhere"}, marks=WRITES)], ids=["commit"])
def test_a_bundle_without_the_commit_is_not_kept(
    bundled: Path, tmp_path: Path, bad: dict[str, str]
) -> None:
    with pytest.raises(CorpusError, match="nowhere"):
        resolve(RepositorySpec(name="a", path=str(bundled), **bad), cache=tmp_path / "ws" / "cache")
    assert not (tmp_path / "ws").exists()
