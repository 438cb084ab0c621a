"""Repositories that are broken or made to do harm: never a crash, never silence, nothing of theirs runs."""

import hashlib
import os
import shutil
import struct
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from curriculum.corpus.git_log import MAX_TIMESTAMP_S
from curriculum.corpus.history import read_changes
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import find_layout, resolve
from schemas.corpus import CorpusSpec, HistorySpec, QualitySpec, RepositorySpec
from schemas.errors import CorpusError
from tests.curriculum.corpus.conftest import START

NO_PARENT = struct.pack(">I", 0x70000000)
"""Parent of a commit without parents in git's commit-graph."""


def loose(repo: Any, object_id: str) -> Path:
    path: Path = repo.path / ".git/objects" / object_id[:2] / object_id[2:]
    return path


def blob_of(repo: Any, path: str, commit: str = "HEAD") -> str:
    return str(repo.git("rev-parse", f"{commit}:{path}"))


def test_links_and_submodules_are_counted_and_never_followed(build, read, tmp_path):
    (tmp_path / "secret.cc").write_text("int secret;\n")
    repo = build()
    repo.commit(a_cc="int a;\n")
    (repo.path / "link.cc").symlink_to(tmp_path / "secret.cc")
    inner = build("inner")
    inner.commit(b_cc="int b;\n")
    repo.git("submodule", "--quiet", "add", str(inner.path), "sub.cc")
    repo.commit()
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["a.cc"]
    assert skips.counts == {"symlink": 1, "submodule": 1}


def test_a_file_that_becomes_a_link_is_a_deletion(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n")
    (repo.path / "a.cc").unlink()
    (repo.path / "a.cc").symlink_to("/etc/passwd")
    repo.commit()
    assert [each.kind for each in read(repo.path)[0]] == ["snapshot", "deleted"]


@pytest.mark.parametrize("name", [b"a\nb.cc", b"tab\t.cc", b"caf\xe9.cc", b"esc\x1b[31m.cc"])
def test_names_that_no_line_can_hold_are_counted(build, read, name):
    repo = build()
    repo.commit(a_cc="int a;\n")
    repo.write(name, "int b;\n")
    repo.commit()
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["a.cc"]
    assert skips.counts == {"path": 1}


def test_harmless_odd_names_are_read(build, read):
    repo = build()
    names = ["ü.cc", 'quo"te.cc', "back\\slash.cc", " space .cc", "-dash.cc", "a b/:(top)x.cc"]
    for name in names:
        repo.write(name, f"int {len(name)};\n")
    repo.commit()
    assert sorted(each.path for each in read(repo.path)[0]) == sorted(names)


def test_a_tree_that_points_out_of_itself_is_counted(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n")
    blob = bytes.fromhex(blob_of(repo, "a.cc"))
    inner = repo_object(repo, b"tree", b"100644 evil.cc\0" + blob)
    outer = b"40000 ..\0" + bytes.fromhex(inner) + b"100644 a.cc\0" + blob
    commit = repo.git("commit-tree", repo_object(repo, b"tree", outer), "-p", "HEAD", "-m", "evil")
    repo.git("update-ref", "HEAD", commit)
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["a.cc"]
    assert skips.counts == {"path": 1}


def repo_object(repo: Any, kind: bytes, body: bytes) -> str:
    stored = kind + f" {len(body)}\0".encode() + body
    name = hashlib.sha1(stored).hexdigest()
    loose(repo, name).parent.mkdir(exist_ok=True)
    loose(repo, name).write_bytes(zlib.compress(stored))
    return name


@pytest.mark.parametrize(
    ("claimed", "timestamp"),
    [
        ("9" * 5000, MAX_TIMESTAMP_S),
        ("9" * 30, MAX_TIMESTAMP_S),
        ("0" * 5000 + "17", 17),
        ("1700000000", 1_700_000_000),
        ("soon", 0),
    ],
)
def test_a_commit_may_claim_any_time(build, read, claimed, timestamp):
    repo = build()
    repo.commit(a_cc="int a;\n")
    head, _, message = repo.git("cat-file", "commit", "HEAD").rpartition(f" {START} ")
    body = f"{head} {claimed} {message}"
    name = repo_object(repo, b"commit", f"{body}\n".encode())
    repo.git("reset", "--soft", name)
    changes, skips = read(repo.path)
    assert [change.timestamp for change in changes] == [timestamp]
    assert not skips.counts


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"int a;\0\n", "binary"),
        ("int a; // é\n".encode("latin-1"), "encoding"),
        ("int a;\n".encode("utf-16-le"), "binary"),
        ("int a;\0\n".encode("utf-16"), "binary"),
        (b"\xff\xfeint a", "encoding"),
        (b"\xed\xa0\x80", "encoding"),
    ],
)
def test_what_is_no_text_in_a_certain_encoding_is_counted_as_lost(build, read, content, reason):
    repo = build()
    repo.commit(a_cc=content, b_cc="int b;\n")
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["b.cc"]
    assert skips.counts == {reason: 1}
    assert skips.lost_share == 0.5
    assert skips.report().examples == {reason: (f"{repo.ids[0]}:a.cc",)}


def test_hunks_are_of_the_decoded_text(build, read):
    lines = ["// Prüft den Schlüssel", "int a;", "// Größe des Blocks", "int b;", ""]
    repo = build()
    repo.commit(a_cc="\r\n".join(lines).encode("utf-16"), b_cc="\n".join(lines).encode("latin-1"))
    lines[1] = "int c;  // schließt"
    repo.commit(a_cc="\r\n".join(lines).encode("utf-16"), b_cc="\n".join(lines).encode("latin-1"))
    repo.commit(b_cc="\n".join(lines).encode())
    changes, skips = read(repo.path)
    assert [change.path for change in changes] == ["a.cc", "b.cc", "a.cc", "b.cc"]
    for change in changes[2:]:
        assert change.after.text == "\n".join(lines)
        hunk = change.hunks[0]
        assert (hunk.before_start, hunk.before_lines) == (1, 1)
        assert (hunk.after_start, hunk.after_lines, len(change.hunks)) == (1, 1, 1)
    assert skips.counts == {"unchanged": 1}
    assert skips.report().decoded == {"cp1252": 2, "utf_16_le": 2}


def test_line_ends_and_byte_order_marks_are_dropped(build, read):
    repo = build()
    repo.commit(a_cc=b"\xef\xbb\xbfint a;\r\nint b;\rint c;\n")
    repo.commit(a_cc="int a;\nint b;\nint c;\n")
    repo.commit(a_cc=b"int a;\r\nint b;\r\nint d;\r\n")
    changes, skips = read(repo.path)
    assert [each.after.text for each in changes] == [
        "int a;\nint b;\nint c;\n",
        "int a;\nint b;\nint d;\n",
    ]
    assert skips.counts == {"unchanged": 1}
    hunk = changes[1].hunks[0]
    assert (hunk.before_start, hunk.before_lines, len(changes[1].hunks)) == (2, 1, 1)


def test_files_too_large_and_lines_too_long_are_counted(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n", b_cc="x" * 5000, c_cc="int c;\n" * 2000)
    rules = QualitySpec(min_bytes=3, max_bytes=9000, max_line_bytes=1000)
    changes, skips = read(repo.path, corpus={"quality": rules})
    assert [each.path for each in changes] == ["a.cc"]
    assert skips.counts == {"line_length": 1, "too_large": 1}


def test_a_huge_blob_is_passed_over(build, read):
    repo = build()
    repo.write("big.cc", b"int x;\n" * 3_000_000)
    repo.commit(a_cc="int a;\n", z_cc="int z;\n")
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["a.cc", "z.cc"]
    assert skips.counts == {"too_large": 1}


def test_a_missing_blob_is_counted_and_the_rest_is_read(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n" * 20, b_cc="int b;\n")
    repo.git("mv", "a.cc", "c.cc")
    lost = repo.commit(c_cc="int a;\n" * 19)
    for number in range(3):
        repo.commit(b_cc=f"int b{number};\n")
    loose(repo, blob_of(repo, "c.cc", lost)).unlink()
    changes, skips = read(repo.path)
    assert len([each for each in changes if each.path == "b.cc"]) == 4
    assert skips.counts["missing"] == 1
    assert skips.report().renames == "exact"


@pytest.mark.parametrize(("share", "reason"), [(0, "missing"), (0.5, "corrupt"), (0.9, "corrupt")])
def test_a_damaged_blob_is_counted_and_the_rest_is_read(build, read, share, reason):
    repo = build()
    text = "".join(f"int v{hash_of(i)};\n" for i in range(2000))
    repo.commit(a_cc="int a;\n", b_cc=text, c_cc="int c;\n")
    damaged = loose(repo, blob_of(repo, "b.cc"))
    whole = damaged.read_bytes()
    damaged.chmod(0o644)
    damaged.write_bytes(whole[: int(len(whole) * share)] or b"rubbish")
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["a.cc", "c.cc"]
    assert skips.counts == {reason: 1}


def hash_of(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def test_a_missing_tree_is_an_error_and_not_a_short_history(build, read):
    repo = build()
    for number in range(5):
        repo.commit(a_cc=f"int a{number};\n")
    loose(repo, repo.git("rev-parse", "HEAD~2^{tree}")).unlink()
    with pytest.raises(CorpusError) as refused:
        read(repo.path)
    assert refused.value.name == "repository repo"
    assert refused.value.value == "git log: exit code 128"


def test_the_boundary_of_a_shallow_clone_is_no_change(build, read, tmp_path):
    repo = build()
    for number in range(4):
        repo.commit(str(number), a_cc=f"int a{number};\n", b_cc="int b;\n")
    repo.git("clone", "--quiet", "--depth=2", f"file://{repo.path}", str(tmp_path / "shallow"))
    changes, skips = read(tmp_path / "shallow")
    assert [(each.subject, each.kind) for each in changes] == [("3", "modified")]
    assert changes[0].before_is_new
    assert skips.counts == {"boundary": 2}


def test_a_clone_of_only_a_boundary_says_how_to_get_the_rest(build, read, tmp_path):
    repo = build()
    repo.commit(a_cc="int a;\n")
    repo.commit(a_cc="int b;\n")
    repo.git("clone", "--quiet", "--depth=1", f"file://{repo.path}", str(tmp_path / "shallow"))
    with pytest.raises(CorpusError, match="unshallow"):
        read(tmp_path / "shallow")


def test_a_repository_without_sources_says_what_it_has(build, read):
    repo = build()
    repo.commit(a_py="print()\n", Makefile="all:\n", README_md="hello\n")
    with pytest.raises(CorpusError, match=r"cpp, c \(found: .*\.py \(1\)"):
        read(repo.path)


def test_a_config_that_would_run_a_program_runs_none(build, read, tmp_path):
    repo = build()
    marker = tmp_path / "ran"
    repo.commit(a_cc="int a;\n", b_cc="int b;\n")
    repo.write(".gitattributes", "*.cc diff=evil filter=evil\n")
    repo.commit(a_cc="int a2;\n")
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    script.chmod(0o755)
    settings = [
        ("core.fsmonitor", str(script)),
        ("core.sshCommand", str(script)),
        ("core.pager", str(script)),
        ("core.editor", str(script)),
        ("core.gitProxy", str(script)),
        ("core.hooksPath", str(tmp_path)),
        ("core.alternateRefsCommand", str(script)),
        ("diff.external", str(script)),
        ("diff.evil.textconv", str(script)),
        ("diff.evil.command", str(script)),
        ("filter.evil.smudge", str(script)),
        ("filter.evil.clean", str(script)),
        ("gpg.program", str(script)),
        ("log.showSignature", "true"),
        ("credential.helper", str(script)),
        ("uploadpack.packObjectsHook", str(script)),
        ("alias.log", f"!{script}"),
        ("alias.cat-file", f"!{script}"),
        ("remote.origin.url", f"ext::{script}"),
        ("remote.origin.promisor", "true"),
        ("extensions.partialClone", "origin"),
        ("protocol.ext.allow", "always"),
    ]
    repo.git("config", "core.repositoryFormatVersion", "1")
    for name, value in settings:
        repo.git("config", name, value)
    (repo.path / ".git/info").mkdir(exist_ok=True)
    (repo.path / ".git/info/attributes").write_text("*.cc diff=evil\n")
    loose(repo, blob_of(repo, "b.cc")).unlink()
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["a.cc", "a.cc"]
    assert skips.counts == {"missing": 1}
    assert not marker.exists()


def test_the_marker_of_the_test_above_would_be_made(build, tmp_path):
    """The guard: git itself, trusting that config, does run such a program."""
    repo = build()
    repo.commit(a_cc="int a;\n")
    repo.commit(a_cc="int a2;\n")
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    script.chmod(0o755)
    repo.git("config", "diff.external", str(script))
    repo.git("diff", "HEAD~1")
    assert (tmp_path / "ran").exists()


def test_replacements_and_grafts_of_a_repository_do_not_count(build, read):
    repo = build()
    first = repo.commit("one", a_cc="int a;\n")
    second = repo.commit("two", a_cc="int b;\n")
    before = read(repo.path)[0]
    repo.git("replace", second, first)
    assert repo.git("log", "--format=%s") == "one", "git takes the replacement"
    assert read(repo.path)[0] == before
    repo.git("replace", "-d", second)
    grafts = repo.path / ".git/info/grafts"
    grafts.parent.mkdir(exist_ok=True)
    grafts.write_text(f"{second}\n")
    assert repo.git("log", "--format=%s") == "two", "git takes the graft"
    assert read(repo.path)[0] == before


def test_a_forged_commit_graph_does_not_count(build, read):
    repo = build()
    repo.commit("one", a_cc="int a;\n")
    newest = repo.commit("two", a_cc="int b;\n")
    before = read(repo.path)[0]
    repo.git("commit-graph", "write", "--reachable")
    file = repo.path / ".git/objects/info/commit-graph"
    graph = bytearray(file.read_bytes()[:-20])
    table = [struct.unpack(">4sQ", graph[8 + 12 * at : 20 + 12 * at]) for at in range(graph[6])]
    starts = dict(table)
    (number,) = [
        at for at in range(2) if graph[starts[b"OIDL"] + 20 * at :][:20] == bytes.fromhex(newest)
    ]
    parent = starts[b"CDAT"] + 36 * number + 20
    graph[parent : parent + 4] = NO_PARENT
    file.chmod(0o644)
    file.write_bytes(graph + hashlib.sha1(graph).digest())
    assert repo.git("log", "--format=%s") == "two", "git takes the forged graph"
    assert read(repo.path)[0] == before


def fake_git(folder: Path, monkeypatch, verb: str, body: str) -> None:
    """Put a git in front of the PATH that does something else for one verb."""
    real = shutil.which("git")
    folder.mkdir()
    script = folder / "git"
    script.write_text(
        f'#!/bin/sh\nfor word in "$@"; do if [ "$word" = {verb} ]; then\n{body}\nfi; done\n'
        f'exec {real} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("verb", "how"),
    [
        ("log", '{real} "$@" | head -c 300; exit 1'),
        ("log", '{real} "$@" | head -c 300; kill -9 $$'),
        ("--batch", 'read id; echo "$id blob 500"; echo half; exit 0'),
        ("--batch", 'read id; echo "$id blob 500"; echo half; kill -9 $$'),
        ("--batch", "exit 1"),
        ("cat-file", 'read id; echo "$id missing"; exit 0'),
        ("diff-tree", 'read trees; echo "$trees"; echo "diff --git a/0 b/0"; exit 1'),
        ("diff-tree", 'read trees; echo "$trees"; echo "diff --git a/0 b/0"; exit 0'),
        ("diff-tree", 'read trees; echo "$trees"; echo "diff --git a/0 b/0"; kill -9 $$'),
        ("diff-tree", "read trees; echo end; sleep 100"),
        ("diff-tree", "exit 1"),
    ],
)
def test_a_git_that_ends_early_is_an_error(build, read, tmp_path, monkeypatch, verb, how):
    repo = build()
    for number in range(8):
        repo.commit(a_cc=f"int a{number};\n" * 10)
    assert len(read(repo.path)[0]) == 8
    body = how.replace("{real}", shutil.which("git") or "")
    fake_git(tmp_path / "bin", monkeypatch, verb, body)
    with pytest.raises(CorpusError) as refused:
        read(repo.path)
    assert type(refused.value) is CorpusError
    assert refused.value.name == "repository repo", "whose git it was"
    assert f"git {verb.replace('--batch', 'cat-file')}" in str(refused.value.value)


def test_reading_that_is_given_up_leaves_no_process_and_no_file(build, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    repo = build()
    for number in range(8):
        repo.commit(a_cc=f"int a{number};\n")
    spec = RepositorySpec(name="repo", path=str(repo.path))
    corpus = CorpusSpec(
        name="c",
        repositories=(spec,),
        quality=QualitySpec(min_bytes=0),
        history=HistorySpec(versions_per_path=100),
    )
    source = resolve(spec, cache=tmp_path / "cache")
    changes = read_changes(source, spec, corpus, Skips())
    next(changes)
    assert isinstance(changes, Generator)
    changes.close()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_reading_leaves_the_repository_as_it_was(build, read):
    repo = build()
    repo.commit(a_cc="int a;\r\n")
    repo.commit(a_cc="int b;\n")

    def state() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in repo.path.rglob("*") if path.is_file()}

    before = state()
    read(repo.path)
    assert state() == before


BROKEN_CONFIG = b'[extensions]\n\tobjectformat = "\xff\n'


def test_a_config_that_git_cannot_parse_is_refused_with_the_repository_name(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n")
    (repo.path / ".git/config").write_bytes(BROKEN_CONFIG)
    with pytest.raises(CorpusError) as refused:
        read(repo.path)
    assert refused.value.name == "repository repo"


def test_a_config_behind_a_work_tree_is_refused_with_the_name_of_the_tree(build, tmp_path):
    repo, tree = build(), tmp_path / "tree"
    repo.commit(a_cc="int a;\n")
    (repo.path / ".git/config").write_bytes(BROKEN_CONFIG)
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {repo.path / '.git'}\n")
    with pytest.raises(CorpusError) as refused:
        find_layout(tree, name="tree")
    assert refused.value.name == "tree"
