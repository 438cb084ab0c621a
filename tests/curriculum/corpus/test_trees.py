import random
from pathlib import Path

import pytest

from curriculum.corpus.history import read_changes
from curriculum.corpus.skips import Skips
from curriculum.corpus.sources import resolve
from curriculum.corpus.trees import export_tree, read_commits
from schemas.change import CommitChange, TreeFile
from schemas.corpus import CorpusSpec, HistorySpec, QualitySpec, RepositorySpec

LINES = "".join(f"int v{i};\n" for i in range(30))


@pytest.fixture
def read(tmp_path):
    """Commits with their skips, after a look that their changes are those of read_changes."""

    def reading(path: Path, **settings) -> tuple[list[CommitChange], Skips]:
        spec = RepositorySpec(name="repo", path=str(path), **settings.pop("pin", {}))
        rules = {
            "quality": QualitySpec(min_bytes=0),
            "history": HistorySpec(versions_per_path=1000),
            **settings,
        }
        corpus = CorpusSpec(name="corpus", repositories=(spec,), **rules)
        source = resolve(spec, cache=tmp_path / "cache")
        skips, others = Skips(), Skips()
        commits = list(read_commits(source, spec, corpus, skips))
        changes = list(read_changes(source, spec, corpus, others))
        assert [each for commit in commits for each in commit.changes] == changes
        assert (skips.counts, skips.read) == (others.counts, others.read)
        return commits, skips

    return reading


def trees(commits: list[CommitChange]) -> list[dict[str, TreeFile]]:
    """The tree of each commit, from its deltas alone."""
    found: list[dict[str, TreeFile]] = []
    tree: dict[str, TreeFile] = {}
    for commit in commits:
        delta = commit.tree
        paths = [file.path for file in delta.files]
        assert paths == sorted(set(paths))
        assert list(delta.removed) == sorted(set(delta.removed) - set(paths))
        assert set(delta.removed) <= set(tree)
        tree = {path: file for path, file in tree.items() if path not in delta.removed}
        tree.update((file.path, file) for file in delta.files)
        found.append(tree)
    return found


def check(repo, commits: list[CommitChange]) -> None:
    """Each tree is what git lists."""
    for commit, tree in zip(commits, trees(commits), strict=True):
        listed = [line.split() for line in repo.git("ls-tree", "-r", commit.commit).splitlines()]
        assert {path: file.blob.blob_id for path, file in tree.items()} == {
            path: blob for _, _, blob, path in listed if path.endswith((".cc", ".h"))
        }


def test_each_tree_is_what_git_lists_through_branches_and_merges(build, read):
    repo, chance = build(), random.Random(5)
    repo.commit(a_cc=LINES, b_cc="int b;\n", c_txt="text\n")
    for number in range(1, 25):
        if number % 6 == 1:
            repo.git("checkout", "--quiet", "-b", f"side{number}")
        elif number % 6 == 4:
            side = repo.git("rev-parse", "--abbrev-ref", "HEAD")
            repo.git("checkout", "--quiet", "main")
            repo.commit(f"main {number}", **{f"m{number}_h": f"int m{number};\n"})
            repo.git("merge", "--quiet", "--no-edit", side)
        name = chance.choice(["a_cc", "b_cc", f"n{number}_cc", f"d__n{number}_h"])
        if number % 5 == 0 and (repo.path / "b.cc").exists():
            (repo.path / "b.cc").unlink()
        repo.commit(str(number), **{name: f"int x{number};\n"})
    commits, skips = read(repo.path)
    assert len(commits) >= 25
    assert any(commit.tree.removed for commit in commits)
    check(repo, commits)
    assert skips.trees == {}


def test_a_tree_has_the_files_whose_changes_are_not_read(build, read):
    repo = build()
    for number in range(6):
        repo.commit(a_cc=f"int a{number};\n", b_h="int b;\n")
    commits, _ = read(repo.path, history=HistorySpec(versions_per_path=2))
    assert [len(commit.changes) for commit in commits] == [1, 1, 1]
    assert [sorted(tree) for tree in trees(commits)] == [["a.cc", "b.h"]] * 3
    check(repo, commits)


def test_a_lineage_in_a_tree_goes_through_renames_as_that_of_a_change(build, read):
    repo = build()
    repo.commit(a_cc=LINES, b_cc="int b;\n")
    repo.git("mv", "a.cc", "c.cc")
    repo.commit("Move")
    repo.commit(b_cc="int c;\n")
    commits, _ = read(repo.path)
    assert [commit.subject for commit in commits] == ["Change", "Change"]
    assert commits[1].tree.removed == ("a.cc",)
    assert {path: file.lineage for path, file in trees(commits)[1].items()} == {
        "b.cc": "repo:b.cc",
        "c.cc": "repo:a.cc",
    }


def test_a_file_that_stands_is_handed_out_again_when_its_lineage_changes(build, read):
    repo = build()
    repo.commit(a_cc=LINES, b_cc="int b;\n")
    repo.git("checkout", "--quiet", "-b", "side")
    repo.git("mv", "a.cc", "c.cc")
    repo.commit("Move on the side")
    repo.git("checkout", "--quiet", "main")
    repo.git("mv", "a.cc", "c.cc")
    repo.commit("Move", b_cc="int c;\n")
    commits, _ = read(repo.path)
    for commit, tree in zip(commits, trees(commits), strict=True):
        for change in commit.changes:
            assert tree[change.path].lineage == change.lineage
    assert trees(commits)[-1]["c.cc"].lineage == "repo:a.cc"


def test_what_a_tree_has_and_no_graph_takes_is_counted(build, read):
    repo = build()
    (repo.path / "link.cc").symlink_to("a.cc")
    repo.commit(a_cc="int a;\n", b_cc=b"int \xff;\n", vendor__c_cc="int c;\n", d_cc=b"\0")
    repo.commit(a_cc="int a2;\n", d_cc="int d;\n")
    commits, skips = read(repo.path)
    assert skips.trees == {"binary": 1, "encoding": 1, "symlink": 1, "vendored": 1}
    assert [sorted(tree) for tree in trees(commits)] == [["a.cc"], ["a.cc", "d.cc"]]
    repo.commit(a_cc=b"\0")
    repo.commit(d_cc="int d2;\n")
    assert trees(read(repo.path)[0])[-1].keys() == {"d.cc"}


def test_a_missing_blob_is_counted_and_nothing_else_is_lost(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n", b_cc="int lost;\n")
    lost = repo.git("rev-parse", "HEAD:b.cc")
    repo.commit(a_cc="int a2;\n")
    (repo.path / ".git/objects" / lost[:2] / lost[2:]).unlink()
    commits, skips = read(repo.path)
    assert [sorted(tree) for tree in trees(commits)] == [["a.cc"]] * 2
    assert skips.trees == {"missing": 1}


def test_paths_that_look_like_the_end_of_an_answer_are_paths(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n")
    repo.write("end\n", "end\n")
    repo.write("end\n.cc", "int end;\n")
    repo.commit(a_cc="int b;\n")
    repo.commit(a_cc="int c;\n")
    commits, skips = read(repo.path)
    assert len(commits) == 3
    assert skips.trees == {"path": 1}


def test_a_plain_directory_is_one_commit(tmp_path, read):
    folder = tmp_path / "plain"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.cc").write_text("int a;\n")
    (folder / "b.h").write_text("int b;\n")
    commits, _ = read(folder)
    assert len(commits) == 1
    assert [file.path for file in commits[0].tree.files] == ["b.h", "src/a.cc"]
    assert commits[0].tree.removed == ()


def exported(path: Path, folder: Path, **pin) -> dict[str, bytes]:
    spec = RepositorySpec(name="repo", path=str(path), **pin)
    export_tree(resolve(spec, cache=folder / "cache"), folder / "tree")
    return {
        file.relative_to(folder / "tree").as_posix(): file.read_bytes()
        for file in (folder / "tree").rglob("*")
        if file.is_file()
    }


def test_an_exported_tree_has_the_texts_that_families_see_and_all_other_bytes(build, tmp_path):
    repo = build()
    (repo.path / "link.cc").symlink_to("/etc/passwd")
    for number in range(450):
        repo.write(f"many/{number}.h", f"int v{number};\n")
    repo.commit(
        a_cc=b"\xef\xbb\xbfint a;\r\nint b;\r",
        b_cc=b"\xff\r\n",
        c_txt=b"\r\n\0\xff",
    )
    repo.write(b"not\xffutf8.h", "int n;\n")
    repo.commit()
    files = exported(repo.path, tmp_path / "out")
    assert len(files) == 453
    assert files["a.cc"] == b"int a;\nint b;\n"
    assert files["b.cc"] == b"\xff\r\n"
    assert files["c.txt"] == b"\r\n\0\xff"
    assert files["many/449.h"] == b"int v449;\n"


def test_an_exported_tree_lacks_damaged_blobs_alone(build, tmp_path):
    repo = build()
    for number in range(7):
        repo.write(f"{number}.h", f"int v{number};\n")
    repo.commit()
    damaged = repo.git("rev-parse", "HEAD:3.h")
    missing = repo.git("rev-parse", "HEAD:5.h")
    path = repo.path / ".git/objects" / damaged[:2] / damaged[2:]
    path.chmod(0o644)
    path.write_bytes(b"no object")
    (repo.path / ".git/objects" / missing[:2] / missing[2:]).unlink()
    assert sorted(exported(repo.path, tmp_path / "out")) == [f"{n}.h" for n in (0, 1, 2, 4, 6)]


def test_no_path_of_a_tree_leads_out_of_the_folder_or_into_git(build, tmp_path):
    repo = build()
    repo.commit(a_cc="int a;\n")
    blob = repo.git("rev-parse", "HEAD:a.cc")
    entry = b"".join(
        b"100644 %b\0" % name + bytes.fromhex(blob) for name in (b"..", b"../b.cc", b"a.cc")
    )
    tree = repo.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=entry)
    inner = b"40000 .GIT\0" + bytes.fromhex(repo.git("rev-parse", "HEAD^{tree}"))
    inner += b"40000 sub\0" + bytes.fromhex(tree)
    top = repo.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=inner)
    commit = repo.git("commit-tree", "-m", "evil", top)
    repo.git("update-ref", "HEAD", commit)
    assert list(exported(repo.path, tmp_path / "out")) == ["sub/a.cc"]
    assert not (tmp_path / "out/b.cc").exists()


def test_an_exported_directory_has_its_files_and_follows_no_link(tmp_path):
    folder = tmp_path / "plain"
    (folder / "sub/.git").mkdir(parents=True)
    (folder / "sub/.git/config").write_text("x")
    (folder / "sub/a.cc").write_bytes(b"int a;\r\n")
    (folder / "b.md").write_bytes(b"b\r\n")
    (folder / "up.cc").symlink_to("/etc/passwd")
    files = exported(folder, tmp_path / "out")
    assert files == {"sub/a.cc": b"int a;\n", "b.md": b"b\r\n"}
