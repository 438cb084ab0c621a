"""Small repositories that stand for enormous ones: each commit that git can't read is counted by name."""

import hashlib
import os
import socket
import zlib
from pathlib import Path
from typing import Any

import pytest

from curriculum.corpus import git, git_log, git_process, trees
from curriculum.corpus.git_tree import list_tree, read_entries
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import export_tree, read_commits
from schemas.corpus import CorpusSpec, QualitySpec, RepositorySpec
from schemas.errors import CorpusError
from tests.bounded import MEBIBYTE, bounded, endless

ANY_SIZE = {"quality": QualitySpec(min_bytes=0, max_bytes=1 << 40, max_line_bytes=1 << 40)}
"""Limits of a corpus that reads whatever is there."""


def stored(repo: Any, kind: str, *pieces: bytes) -> str:
    """Write a loose object piece by piece, without git's checks."""
    head = f"{kind} {sum(map(len, pieces))}\0".encode()
    digest, packed = hashlib.sha1(), zlib.compressobj(1)
    chunks = []
    for piece in (head, *pieces):
        digest.update(piece)
        chunks.append(packed.compress(piece))
    name = digest.hexdigest()
    path: Path = repo.path / ".git/objects" / name[:2] / name[2:]
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        path.write_bytes(b"".join([*chunks, packed.flush()]))
    return name


def tree_of(repo: Any, *entries: tuple[bytes, str]) -> str:
    """Store a tree of files (`a.cc`) and folders (any other name)."""
    return stored(
        repo,
        "tree",
        *(
            (b"100644 " if name.endswith(b".cc") else b"40000 ") + name + b"\0" + bytes.fromhex(id_)
            for name, id_ in entries
        ),
    )


def nested(repo: Any, *, width: int, depth: int, leaf: str) -> str:
    """A tree of `width` to the power of `depth` times the paths of its leaf."""
    tree = leaf
    for _ in range(depth):
        tree = tree_of(repo, *((b"%03d" % number, tree) for number in range(width)))
    return tree


def commit_of(repo: Any, tree: str, *parents: str, subject: bytes = b"bomb") -> str:
    named = b"".join(b"parent " + parent.encode() + b"\n" for parent in parents)
    who = b"A <a@example.org> 1600000000 +0000"
    head = b"tree " + tree.encode() + b"\n" + named + b"author " + who + b"\ncommitter " + who
    return stored(repo, "commit", head + b"\n\n", subject, b"\n")


def files(repo: Any, text: str = "int b;\n") -> str:
    """A tree of one file."""
    return tree_of(repo, (b"b.cc", stored(repo, "blob", text.encode())))


def between(repo: Any, tree: str, **how: Any) -> str:
    """Put a commit of a tree between two harmless ones; its id."""
    bomb = commit_of(repo, tree, repo.ids[-1], **how)
    repo.git("update-ref", "HEAD", commit_of(repo, files(repo), bomb, subject=b"after"))
    return bomb


@pytest.fixture
def repo(build: Any) -> Any:
    """A repository with one harmless commit."""
    built = build()
    built.commit(a_cc="int a;\n")
    return built


def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "MAX_MEMORY_BYTES", 16 * MEBIBYTE)
    monkeypatch.setattr(git, "MAX_OUTPUT_BYTES", MEBIBYTE)
    monkeypatch.setattr(git, "MAX_LOG_CPU_S", 1)
    monkeypatch.setattr(git, "MAX_CPU_S", 1)
    monkeypatch.setattr(git_process, "MAX_SILENCE_S", 0.5)


def test_a_tree_bomb_is_skipped_by_the_commits_name(
    repo: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = between(repo, nested(repo, width=10, depth=4, leaf=files(repo)))
    source = resolve(RepositorySpec(name="repo", path=str(repo.path)), cache=repo.path)
    assert source.layout
    with git.view(source.layout) as view, git_log.read_log(view, source.commit) as log:
        paths = {commit.commit: len(commit.entries) for commit in git_log.commits(log)}
    assert paths[bomb] == 10_001
    small_limits(monkeypatch)
    monkeypatch.setattr(git, "MAX_MEMORY_BYTES", 3 * MEBIBYTE)
    with bounded(seconds=3, mebibytes=8):
        changes, skips = read(repo.path)
    assert [change.subject for change in changes] == ["Change"]
    assert skips.counts == {"oversized": 2}
    assert skips.report().examples["oversized"][0] == f"{bomb}:commit {bomb}"
    assert f"commit {bomb}" in skips.unreadable_words()


def test_a_pinned_tree_bomb_is_refused_by_the_commits_name(
    repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = commit_of(repo, nested(repo, width=10, depth=4, leaf=files(repo)))
    with git.view(
        git.RepositoryLayout(head=repo.path / ".git/HEAD", common=repo.path / ".git", name="bomb")
    ) as view:
        assert len([*list_tree(view, bomb)]) == 10_000
        small_limits(monkeypatch)
        monkeypatch.setattr(git, "MAX_OUTPUT_BYTES", 100_000)
        with bounded(seconds=1, mebibytes=2), pytest.raises(CorpusError) as refused:
            list(list_tree(view, bomb))
    assert bomb in str(refused.value)
    assert refused.value.cure


def test_a_tree_bomb_without_files_ends_at_the_limit_of_time(
    repo: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(repo, nested(repo, width=100, depth=6, leaf=tree_of(repo)))
    with endless(seconds=3):
        read(repo.path)
    small_limits(monkeypatch)
    monkeypatch.setattr(git_log, "MAX_OVERSIZED_COMMITS", 0)
    with bounded(seconds=8, mebibytes=8), pytest.raises(CorpusError) as refused:
        read(repo.path)
    assert refused.value.name == "repository repo"
    assert refused.value.value == "git log"


@pytest.mark.parametrize(
    ("depth", "reason"),
    [(3_000, "path"), pytest.param(200_000, "oversized", marks=pytest.mark.slow)],
)
def test_a_deeply_nested_tree_is_counted(repo: Any, read: Any, depth: int, reason: str) -> None:
    tree = files(repo)
    for _ in range(depth):
        tree = tree_of(repo, (b"d", tree))
    bomb = between(repo, tree)
    with bounded(seconds=8, mebibytes=8):
        changes, skips = read(repo.path)
    assert {change.path for change in changes} <= {"a.cc", "b.cc"}
    assert set(skips.counts) == {reason}
    assert skips.report().examples[reason][0].startswith(bomb)


@pytest.mark.parametrize("mebibytes", [3, pytest.param(600, marks=pytest.mark.slow)])
def test_a_long_subject_is_skipped_in_linear_time(repo: Any, read: Any, mebibytes: int) -> None:
    text = stored(repo, "blob", b"int c;\n")
    tree = tree_of(repo, (b"c.cc", text))
    bomb = between(repo, tree, subject=b"s" * (mebibytes * MEBIBYTE))
    with bounded(seconds=2 + mebibytes / 20, mebibytes=8):
        changes, skips = read(repo.path)
    assert [change.subject for change in changes] == ["Change", "after", "after"]
    assert skips.counts == {"oversized": 1}
    assert skips.report().examples["oversized"] == (f"{bomb}:commit {bomb}",)


def test_a_text_of_the_log_is_read_in_linear_time(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"\x01" + b"0" * 40 + b"\0\0000\0" + b"s" * (64 * MEBIBYTE) + b"\0")
    with file.open("rb") as opened, bounded(seconds=1.5, mebibytes=8):
        found = list(git_log.commits(git_log.CommitLog(file=opened, exact_renames=False)))
    assert [len(commit.subject) for commit in found] == [git_log.MAX_COMMIT_BYTES]


@pytest.mark.parametrize("number", [50_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_commit_with_many_parents_is_passed_over(repo: Any, read: Any, number: int) -> None:
    tree = tree_of(repo, (b"c.cc", stored(repo, "blob", b"int c;\n")))
    between_two = commit_of(repo, tree, *[repo.ids[0]] * number)
    repo.git("update-ref", "HEAD", commit_of(repo, files(repo), between_two, subject=b"after"))
    with bounded(seconds=2 + number / 100_000, mebibytes=8):
        changes, _ = read(repo.path)
    assert {change.subject for change in changes} == {"Change", "after"}


@pytest.mark.parametrize("folders", [0, 40])
def test_a_long_path_is_a_path_that_cannot_be_read(repo: Any, read: Any, folders: int) -> None:
    name = b"n" * (200 if folders else 1_000_000) + b".cc"
    tree = tree_of(repo, (name, stored(repo, "blob", b"int c;\n")))
    for _ in range(folders):
        tree = tree_of(repo, (b"f" * 200, tree))
    bomb = between(repo, tree)
    with bounded(seconds=2, mebibytes=24):
        changes, skips = read(repo.path)
    assert {change.path for change in changes} <= {"a.cc", "b.cc"}
    assert set(skips.counts) == {"path"}
    (example,) = skips.report().examples["path"]
    assert example.startswith(bomb)
    assert len(example) < 400


def test_a_huge_file_of_zeros_is_left_out_of_a_tree(
    repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = [stored(repo, "blob", b"int a;\n"), stored(repo, "blob", bytes(8 * MEBIBYTE))]
    tree = tree_of(repo, (b"a.cc", blobs[0]), (b"z.cc", blobs[1]))
    commit = commit_of(repo, tree)
    with git.view(
        git.RepositoryLayout(head=repo.path / ".git/HEAD", common=repo.path / ".git", name="bomb")
    ) as view:
        entries = [*list_tree(view, commit)]
        assert [path for path, _ in read_entries(view, entries)] == [b"a.cc", b"z.cc"]
        small_limits(monkeypatch)
        monkeypatch.setattr(git, "MAX_MEMORY_BYTES", 64 * MEBIBYTE)
        with bounded(seconds=2, mebibytes=4):
            assert [path for path, _ in read_entries(view, entries)] == [b"a.cc"]


def test_a_huge_blob_is_never_inflated(
    repo: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus without a limit has it in memory."""
    tree = tree_of(repo, (b"z.cc", stored(repo, "blob", *[bytes(MEBIBYTE)] * 128)))
    between(repo, tree)
    monkeypatch.setattr(git, "MAX_MEMORY_BYTES", 64 * MEBIBYTE)
    with bounded(seconds=2, mebibytes=8):
        changes, skips = read(repo.path)
    assert {change.path for change in changes} == {"a.cc", "b.cc"}
    assert skips.counts == {"too_large": 2}
    with pytest.raises(AssertionError), bounded(seconds=20, mebibytes=64):
        read(repo.path, corpus=ANY_SIZE)


def test_a_sparse_file_of_a_plain_folder_is_not_read(tmp_path: Path, read: Any) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.cc").write_text("int a;\n")
    with (folder / "z.cc").open("wb") as sparse:
        sparse.truncate(20 << 30)
    with bounded(seconds=2, mebibytes=8):
        changes, skips = read(folder)
        export_tree(
            resolve(RepositorySpec(name="folder", path=str(folder)), cache=tmp_path),
            tmp_path / "tree",
        )
    assert [change.path for change in changes] == ["a.cc"]
    assert skips.counts == {"too_large": 1}
    assert [file.name for file in (tmp_path / "tree").iterdir()] == ["a.cc"]
    # A corpus of other limits has a smaller one in memory as a whole.
    os.truncate(folder / "z.cc", 32 * MEBIBYTE)
    with pytest.raises(AssertionError), bounded(seconds=20, mebibytes=32):
        read(folder, corpus=ANY_SIZE)


def test_a_tree_that_is_too_large_is_refused_before_anything_is_written(
    repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = stored(repo, "blob", *[bytes(MEBIBYTE)] * 32)
    repo.git(
        "update-ref",
        "HEAD",
        commit_of(repo, tree_of(repo, *[(b"%d.cc" % number, blob) for number in range(9)])),
    )
    monkeypatch.setattr(trees, "MAX_TREE_BYTES", 256 * MEBIBYTE)
    source = resolve(RepositorySpec(name="repo", path=str(repo.path)), cache=tmp_path)
    with bounded(seconds=1, mebibytes=8), pytest.raises(CorpusError):
        export_tree(source, tmp_path / "tree")
    assert not any((tmp_path / "tree").iterdir())


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("MAX_CLONE_FILE_BYTES", MEBIBYTE),
        ("MAX_CLONE_MEMORY_BYTES", 64 * MEBIBYTE),
    ],
)
def test_a_clone_has_limits(
    repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    repo.write("noise.bin", os.urandom(4 * MEBIBYTE) + bytes(128 * MEBIBYTE))
    repo.commit()
    spec = RepositorySpec(name="repo", url=f"file://{repo.path}")
    with monkeypatch.context() as small:
        small.setattr(git, limit, value)
        with pytest.raises(CorpusError) as refused:
            resolve(spec, cache=tmp_path / "cache")
    assert refused.value.value == "git clone"
    assert "limits" in refused.value.cause
    assert not (tmp_path / "cache").exists()
    assert resolve(spec, cache=tmp_path / "cache").commit == repo.ids[-1]


@pytest.mark.timeout(30)
def test_a_server_that_says_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "MAX_CLONE_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"git://127.0.0.1:{server.getsockname()[1]}/repo"
        with pytest.raises(CorpusError) as refused:
            resolve(RepositorySpec(name="repo", url=url), cache=tmp_path / "cache")
        assert "within 1 s" in refused.value.cause
        monkeypatch.setattr(git, "MAX_CLONE_S", 60)
        with endless(seconds=2):
            resolve(RepositorySpec(name="repo", url=url), cache=tmp_path / "cache")


def test_an_exported_tree_has_a_limit(
    repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        repo.write(f"f{number}.bin", bytes(1000))
    repo.commit()
    source = resolve(RepositorySpec(name="repo", path=str(repo.path)), cache=tmp_path)
    export_tree(source, tmp_path / "whole")
    monkeypatch.setattr(trees, "MAX_TREE_BYTES", 2000)
    with pytest.raises(CorpusError) as refused:
        export_tree(source, tmp_path / "cut")
    assert source.commit in str(refused.value)


def test_commits_behind_a_bomb_are_read_with_their_trees(
    repo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(repo, nested(repo, width=10, depth=4, leaf=files(repo)))
    head = repo.git("rev-parse", "HEAD")
    last = commit_of(repo, files(repo, "int c;\n"), head, subject=b"last")
    repo.git("update-ref", "HEAD", last)
    small_limits(monkeypatch)
    monkeypatch.setattr(git, "MAX_MEMORY_BYTES", 3 * MEBIBYTE)
    spec, skips = RepositorySpec(name="repo", path=str(repo.path)), Skips()
    corpus = CorpusSpec(name="c", repositories=(spec,), quality=QualitySpec(min_bytes=0))
    with bounded(seconds=3, mebibytes=8):
        found = list(read_commits(resolve(spec, cache=tmp_path), spec, corpus, skips))
    assert [commit.subject for commit in found] == ["Change", "last"]
    assert [file.path for file in found[-1].tree.files] == ["b.cc"]
    assert skips.counts == {"oversized": 2}


def test_more_bombs_than_a_few_refuse_the_repository(
    repo: Any, read: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = nested(repo, width=10, depth=4, leaf=files(repo))
    parent = repo.ids[-1]
    for number in range(6):
        parent = commit_of(repo, tree if number % 2 else files(repo), parent)
    repo.git("update-ref", "HEAD", commit_of(repo, files(repo), parent))
    small_limits(monkeypatch)
    monkeypatch.setattr(git, "MAX_MEMORY_BYTES", 3 * MEBIBYTE)
    monkeypatch.setattr(git_log, "MAX_OVERSIZED_COMMITS", 3)
    with bounded(seconds=3, mebibytes=8), pytest.raises(CorpusError) as refused:
        read(repo.path)
    assert refused.value.value == "git log"


@pytest.mark.slow
def test_a_tree_bomb_of_ten_thousand_million_paths_is_skipped(repo: Any, read: Any) -> None:
    bomb = between(repo, nested(repo, width=10, depth=10, leaf=files(repo)))
    with bounded(seconds=120, mebibytes=16):
        _, skips = read(repo.path)
    assert skips.counts == {"oversized": 2}
    assert skips.examples["oversized"][0].commit == bomb
