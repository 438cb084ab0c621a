import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from curriculum.corpus import git
from curriculum.corpus.sources import plain_folders, resolve
from schemas.change import FileChange
from schemas.corpus import QualitySpec, RepositorySpec
from schemas.errors import CorpusError
from tests.error_fields import fields


def texts(changes: list[FileChange]) -> list[tuple[str, str, str]]:
    return [(each.commit, each.path, each.after.text) for each in changes if each.after]


@pytest.fixture
def repo(build):
    built = build("origin")
    built.commit("one", a_cc="int a;\n")
    built.commit("two", a_cc="int b;\n")
    return built


def test_every_way_to_keep_a_repository_reads_the_same(repo, read, tmp_path):
    expected = texts(read(repo.path)[0])
    assert len(expected) == 2
    repo.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    repo.git("bundle", "create", str(tmp_path / "r.bundle"), "--all")
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    for name in ("bare.git", "r.bundle", "linked", "origin/.git"):
        assert texts(read(tmp_path / name)[0]) == expected, name
    spec = RepositorySpec(name="repo", url=f"file://{repo.path}")
    assert resolve(spec, cache=tmp_path / "cache").commit == repo.ids[-1]


def test_a_linked_work_tree_has_its_own_head(repo, read, tmp_path):
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"), "HEAD~1")
    assert len(read(tmp_path / "linked")[0]) == 1
    assert len(read(repo.path)[0]) == 2


def test_packed_refs_and_packed_objects_are_read(repo, read):
    expected = texts(read(repo.path)[0])
    repo.git("tag", "-a", "v1", "-m", "v1", "HEAD~1")
    repo.git("gc", "--quiet")
    assert texts(read(repo.path)[0]) == expected
    assert texts(read(repo.path, commit="v1")[0]) == expected[:1]


@pytest.mark.parametrize("form", ["{id}", "{short}", "main~1", "v1", "refs/tags/v1"])
def test_a_pin_may_be_any_name_of_a_commit(repo, tmp_path, form):
    repo.git("tag", "-a", "v1", "-m", "v1", "HEAD~1")
    commit = form.format(id=repo.ids[0], short=repo.ids[0][:10])
    spec = RepositorySpec(name="repo", path=str(repo.path), commit=commit)
    assert resolve(spec, cache=tmp_path / "cache").commit == repo.ids[0]


def test_an_unknown_commit_names_what_there_is(repo, read):
    with pytest.raises(CorpusError, match="main", check=fields(value="commit = 'v9'")):
        read(repo.path, commit="v9")


def test_a_tree_is_no_commit(repo, read):
    tree = repo.git("rev-parse", "HEAD^{tree}")
    with pytest.raises(CorpusError, check=fields(value=f"commit = {tree!r}")):
        read(repo.path, commit=tree)


def test_an_empty_repository_says_so(build, read):
    with pytest.raises(CorpusError, match="no commits"):
        read(build("empty").path)


def test_a_path_where_nothing_lies_says_so(read, tmp_path):
    with pytest.raises(CorpusError, match="nothing"):
        read(tmp_path / "nothing")


def test_a_repository_that_may_not_be_read_says_so(repo, read, monkeypatch):
    def denied(_):
        raise PermissionError(13, "Permission denied", f"{repo.path}/.git/objects")

    # Modes don't stop root; a sandbox does.
    monkeypatch.setattr(git, "shallow_commits", denied)
    with pytest.raises(CorpusError, check=fields(value=f"{repo.path}/.git/objects")):
        read(repo.path)


def test_a_file_that_is_no_bundle_says_so(read, tmp_path):
    (tmp_path / "file").write_text("hello")
    with pytest.raises(CorpusError, match="bundle", check=fields(value=tmp_path / "file")):
        read(tmp_path / "file")


def test_a_broken_git_file_is_no_plain_directory(read, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").write_text("gitdir: /nowhere\n")
    (tmp_path / "tree/a.cc").write_text("int a;\n")
    with pytest.raises(CorpusError, check=fields(value=tmp_path / "tree/.git")):
        read(tmp_path / "tree")


def test_a_url_that_cannot_be_cloned_says_gits_words(tmp_path):
    spec = RepositorySpec(name="repo", url="git://127.0.0.1:1/nothing")
    with pytest.raises(CorpusError, check=fields(value="git clone: exit code 128")):
        resolve(spec, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("url", ["ext::sh -c touch% ran", "--upload-pack=touch ran"])
def test_a_url_that_would_run_a_program_runs_none(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError):
        resolve(RepositorySpec(name="repo", url=url), cache=tmp_path / "cache")
    assert not (tmp_path / "ran").exists()


def test_a_url_is_cloned_once(repo, tmp_path):
    spec = RepositorySpec(name="repo", url=f"file://{repo.path}")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: resolve(spec, cache=tmp_path / "cache"), range(4)))
    shutil.rmtree(repo.path)
    assert len({source.path for source in (*found, resolve(spec, cache=tmp_path / "cache"))}) == 1
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_plain_directory_is_one_snapshot(tmp_path, read):
    folder = tmp_path / "plain"
    (folder / "src").mkdir(parents=True)
    (folder / "src/b.cc").write_text("int b;\r\n")
    (folder / "a.h").write_text("int a;\n")
    (folder / "bad.cc").write_bytes(b"\xff")
    (folder / "c.cc").write_bytes("int c;  // größer\n".encode("latin-1"))
    (folder / "notes.txt").write_text("no\n")
    (tmp_path / "outside.cc").write_text("int secret;\n")
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/x.cc").write_text("int secret;\n")
    (folder / "link.cc").symlink_to(tmp_path / "outside.cc")
    (folder / "beside").symlink_to(tmp_path / "beside")
    changes, skips = read(folder)
    assert [(each.path, each.kind, each.language) for each in changes] == [
        ("a.h", "snapshot", "cpp"),
        ("c.cc", "snapshot", "cpp"),
        ("src/b.cc", "snapshot", "cpp"),
    ]
    assert [each.after.text for each in changes[1:]] == ["int c;  // größer\n", "int b;\n"]
    assert {each.timestamp for each in changes} == {0}
    assert skips.counts == {"encoding": 1, "symlink": 1}
    assert skips.decoded == {"cp1252": 1}


def test_a_plain_folder_is_named_with_the_clone_that_it_lies_in(repo, tmp_path):
    (repo.path / "include/deep").mkdir(parents=True)
    (tmp_path / "plain").mkdir()
    repo.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    places = ("plain", "origin", "bare.git", "linked", "origin/include/deep", "origin/.git")
    paths = {each: str(tmp_path / each) for each in places}
    specs = [RepositorySpec(name="r", path=path) for path in paths.values()]
    url = RepositorySpec(name="url", url="https://example.org/a.git")
    alone, inside = plain_folders([*specs, url])
    assert alone.startswith(f"r: {paths['plain']} is not a git repository")
    assert "clone" not in alone
    assert inside.startswith(f"r: {paths['origin/include/deep']} is not a git repository")
    assert inside.endswith(
        f"It is inside the clone {repo.path}; to read the history, give that path with include: "
        "[include/deep/]"
    )


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "a.cc",
            "x",
            "it is not a git repository, and all files of the plain folder were skipped: too small 1",
        ),
        (
            "a.md",
            "text",
            "it is not a git repository, and the plain folder has no file in .*found: .md",
        ),
    ],
)
def test_a_plain_folder_of_which_nothing_is_read_is_refused(tmp_path, read, name, text, said):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / name).write_text(text)
    corpus = {"quality": QualitySpec(min_bytes=10)}
    with pytest.raises(CorpusError, match=f"{folder}; {said}.*Give the path of a clone"):
        read(folder, corpus=corpus)


def test_the_digest_of_a_directory_follows_its_sources_only(tmp_path):
    folder = tmp_path / "plain"
    folder.mkdir()
    spec = RepositorySpec(name="repo", path=str(folder))

    def digest() -> str:
        return resolve(spec, cache=tmp_path / "cache").commit

    (folder / "a.cc").write_text("int a;\n")
    first = digest()
    assert len(first) == 40
    (folder / "notes.txt").write_text("no\n")
    assert digest() == first
    (folder / "a.cc").write_text("int b;\n")
    second = digest()
    (folder / "a.cc").rename(folder / "b.cc")
    assert len({first, second, digest()}) == 3


def test_a_fifo_named_like_a_source_does_not_hang(tmp_path, read):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.cc").write_text("int a;\n")
    os.mkfifo(tmp_path / "plain/b.cc")
    assert [each.path for each in read(tmp_path / "plain")[0]] == ["a.cc"]


def test_git_is_given_paths_with_odd_characters_whole(build, read):
    repo = build('odd "name"\n: x')
    repo.commit(a_cc="int a;\n")
    assert len(read(repo.path)[0]) == 1


def test_a_git_that_finds_no_room_is_told_from_a_wrong_url() -> None:
    full = git.exit_error("clone", 128, b"error: unable to write: No space left on device\n")
    assert full.cure == "Free disk space and run the command again"
    assert "Correct the url" in git.exit_error("clone", 128, b"fatal: not found\n").cure
