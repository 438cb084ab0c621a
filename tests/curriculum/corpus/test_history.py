from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from curriculum.corpus import git
from curriculum.corpus.batch_diff import open_differ
from curriculum.corpus.blobs import Version
from curriculum.corpus.file_histories import BLOB_DIGITS, FileHistories, read_histories
from curriculum.corpus.history import ingredients
from curriculum.corpus.sources import resolve
from schemas.change import Blob, FileChange, Hunk
from schemas.corpus import CorpusSpec, HistorySpec, QualitySpec, RepositorySpec


def lines_of(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def applied(before: str, after: str, hunks: tuple[Hunk, ...]) -> str:
    """`before` with every hunk's lines replaced by those of `after`."""
    old, new = lines_of(before), lines_of(after)
    made, at = [], 0
    for hunk in hunks:
        made += old[at : hunk.before_start]
        assert len(made) == hunk.after_start
        made += new[hunk.after_start : hunk.after_start + hunk.after_lines]
        at = hunk.before_start + hunk.before_lines
    return "".join(made + old[at:])


def check(change: FileChange) -> None:
    before = change.before.text if change.before else ""
    after = change.after.text if change.after else ""
    assert applied(before, after, change.hunks) == after


def summary(changes: list[FileChange]) -> list[tuple[str, str, str]]:
    return [(each.kind, each.path, each.lineage) for each in changes]


def test_changes_come_oldest_first_with_texts_and_hunks(build, read):
    repo = build()
    repo.commit("Import", a_cc="int a;\nint b;\n")
    repo.commit("Edit", a_cc="int a;\nlong b;\nint c;\n")
    repo.commit("Add", b_cc="int z;\n")
    repo.commit("Remove", a_cc="")
    (repo.path / "a.cc").unlink()
    repo.commit("Delete")
    changes, skips = read(repo.path, corpus={"quality": QualitySpec(min_bytes=1)})
    assert [each.kind for each in changes] == ["snapshot", "modified", "added", "deleted"][:3]
    assert skips.counts == {"too_small": 2}
    edit = changes[1]
    assert edit.subject == "Edit"
    assert edit.commit == repo.ids[1]
    assert edit.before is not None
    assert edit.before.text == "int a;\nint b;\n"
    assert edit.hunks == (Hunk(before_start=1, before_lines=1, after_start=1, after_lines=2),)
    for change in changes:
        check(change)


def test_a_deletion_has_one_hunk_that_removes_everything(build, read):
    repo = build()
    repo.commit(a_cc="1\n2\n", b_cc="3\n")
    (repo.path / "a.cc").unlink()
    repo.commit()
    last = read(repo.path)[0][-1]
    assert (last.kind, last.after) == ("deleted", None)
    assert last.hunks == (Hunk(before_start=0, before_lines=2, after_start=0, after_lines=0),)
    check(last)


def test_a_pure_rename_is_no_change_but_the_lineage_goes_on(build, read):
    repo = build()
    repo.commit(a_cc="".join(f"int v{i};\n" for i in range(30)))
    repo.git("mv", "a.cc", "b.cc")
    repo.commit("Move")
    repo.commit("Edit", b_cc="".join(f"int v{i};\n" for i in range(31)))
    changes, _ = read(repo.path)
    assert summary(changes) == [
        ("snapshot", "a.cc", "repo:a.cc"),
        ("modified", "b.cc", "repo:a.cc"),
    ]


def test_a_rename_with_an_edit_has_a_before_under_the_old_path(build, read):
    repo = build()
    repo.commit(a_cc="".join(f"int v{i};\n" for i in range(30)))
    repo.git("mv", "a.cc", "b.cc")
    repo.commit(b_cc="".join(f"int v{i};\n" for i in range(28)))
    changes, _ = read(repo.path)
    assert (changes[1].kind, changes[1].old_path, changes[1].path) == ("renamed", "a.cc", "b.cc")
    assert changes[1].lineage == "repo:a.cc"
    check(changes[1])


def test_a_chain_of_renames_is_one_lineage_and_a_new_file_at_the_old_path_joins_it(build, read):
    repo = build()
    text = "".join(f"int v{i};\n" for i in range(30))
    repo.commit(a_cc=text)
    for old, new in (("a.cc", "b.cc"), ("b.cc", "c.cc")):
        repo.git("mv", old, new)
        text += "int more;\n"
        repo.write(new, text)
        repo.commit()
    repo.commit("anew", a_cc="int anew;\n")
    changes, skips = read(repo.path)
    assert {each.lineage for each in changes} == {"repo:a.cc"}
    assert [each.path for each in changes] == ["a.cc", "b.cc", "c.cc", "a.cc"]
    assert skips.report().renames == "similar"


def test_a_history_has_all_versions_of_a_file_whatever_is_read_of_it(build, read, tmp_path):
    repo = build()
    text = "".join(f"int v{i};\n" for i in range(30))
    repo.commit(a_cc=text, gone_cc="int gone;\n" * 9)
    repo.git("mv", "a.cc", "b.cc")
    repo.commit("Move", new_cc=text.replace("v", "w"))
    repo.commit("Edit", b_cc=text + "int more;\n", new_cc="int new;\n" * 20)
    first, second, third = map(int, repo.git("log", "--reverse", "--format=%ct").split())
    histories = FileHistories()
    read(repo.path, histories=histories, max_commits=1)
    histories.write(tmp_path)
    versions = {
        name: {
            int(repo.git("rev-parse", f"HEAD{at}:{path}").strip()[:BLOB_DIGITS], 16): since
            for at, path, since in blobs
        }
        for name, blobs in {
            "repo:a.cc": (("~2", "a.cc", first), ("", "b.cc", third)),
            "repo:new.cc": (("~1", "new.cc", second), ("", "new.cc", third)),
        }.items()
    }
    found = {
        lineage: (born, dict(zip(blobs, since, strict=True)))
        for lineage, born, blobs, since in read_histories([tmp_path]).iter_rows()
    }
    assert found == {
        "repo:a.cc": (first, versions["repo:a.cc"]),
        "repo:new.cc": (second, versions["repo:new.cc"]),
    }


def test_the_window_does_not_change_a_lineage(build, read):
    repo = build()
    repo.commit(a_cc="".join(f"int v{i};\n" for i in range(30)))
    repo.git("mv", "a.cc", "b.cc")
    repo.commit("Move")
    repo.commit("Edit", b_cc="int w;\n")
    changes, _ = read(repo.path, max_commits=1)
    assert summary(changes) == [("modified", "b.cc", "repo:a.cc")]


def test_max_commits_takes_the_newest_and_since_and_until_include_their_days(build, read):
    repo = build()
    for number in range(5):
        repo.commit(str(number), a_cc=f"int a = {number};\n")
    assert [each.subject for each in read(repo.path, max_commits=2)[0]] == ["3", "4"]
    within = read(repo.path, since="2020-09-14", until="2020-09-15")[0]
    assert [each.subject for each in within] == ["1", "2"]
    both = read(repo.path, until="2020-09-15", max_commits=2)[0]
    assert [each.subject for each in both] == ["1", "2"]


@pytest.mark.parametrize(("newest_first", "kept"), [(True, "234"), (False, "012")])
def test_versions_per_path_keeps_one_end_of_each_lineage(build, read, newest_first, kept):
    repo = build()
    for number in range(5):
        repo.commit(str(number), a_cc=f"int a = {number};\n")
    rules = HistorySpec(versions_per_path=3, newest_first=newest_first)
    changes, skips = read(repo.path, corpus={"history": rules})
    assert "".join(each.subject for each in changes) == kept
    assert skips.counts == {"versions": 2}


def test_before_is_new_only_where_no_earlier_change_ended_there(build, read):
    repo = build()
    for number in range(4):
        repo.commit(str(number), a_cc=f"int a = {number};\n")
    everything, _ = read(repo.path)
    assert [each.before_is_new for each in everything] == [False] * 4
    newest, _ = read(repo.path, corpus={"history": HistorySpec(versions_per_path=2)})
    assert [each.before_is_new for each in newest] == [True, False]


def test_include_exclude_and_languages_choose_the_paths(build, read):
    repo = build()
    repo.commit(src__a_cc="1\n", src__b_c="2\n", test__a_cc="3\n", Makefile="4:\n")
    paths = [each.path for each in read(repo.path, include=("src/",), exclude=("*.c",))[0]]
    assert paths == ["src/a.cc"]
    only_make = read(repo.path, corpus={"files": ("make",)})[0]
    assert [(each.path, each.language) for each in only_make] == [("Makefile", "make")]


def test_vendored_and_generated_files_are_left_out_unless_wanted(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n", g_cc="// Generated by x. DO NOT EDIT\nint g;\n")
    repo.write("vendor/v.cc", "int v;\n")
    repo.commit()
    changes, skips = read(repo.path)
    assert [each.path for each in changes] == ["a.cc"]
    assert skips.counts == {"generated": 1, "vendored": 1}
    assert skips.lost_share == 0
    wanted = QualitySpec(min_bytes=0, vendored=True, generated=True)
    assert len(read(repo.path, corpus={"quality": wanted})[0]) == 3


def test_merges_are_not_read_but_both_sides_of_them_are(build, read):
    repo = build()
    repo.commit("base", a_cc="int a;\n", b_cc="int b;\n")
    repo.git("checkout", "--quiet", "-b", "side")
    repo.commit("side", b_cc="int b2;\n")
    repo.git("checkout", "--quiet", "main")
    repo.commit("main", a_cc="int a2;\n")
    repo.git("merge", "--quiet", "--no-edit", "side")
    subjects = [each.subject for each in read(repo.path)[0]]
    assert subjects == ["base", "base", "side", "main"]


def test_two_readings_give_the_same_changes(build, read):
    repo = build()
    for number in range(6):
        repo.commit(a_cc=f"int a{number};\n", b_h=f"int b{number};\n", c_cmake=f"set(x {number})\n")
    first, second = read(repo.path)[0], read(repo.path)[0]
    assert first == second
    assert len(first) == 18


def test_a_header_is_cpp_where_any_file_can_only_be_cpp(build, read):
    repo = build()
    repo.commit(a_h="int a;\n", a_c="int a;\n")
    assert {each.language for each in read(repo.path)[0]} == {"c"}
    repo.commit(b_cc="int b;\n")
    assert [each.language for each in read(repo.path)[0]] == ["c", "cpp", "cpp"]


def test_a_subject_that_is_not_utf8_says_nothing(build, read):
    repo = build()
    repo.commit(a_cc="int a;\n")
    raw = repo.git("cat-file", "commit", "HEAD").encode().replace(b"Change", b"caf\xe9")
    garbled = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw)
    repo.git("update-ref", "HEAD", garbled)
    assert [each.subject for each in read(repo.path)[0]] == [""]


def test_what_changes_the_changes_is_an_ingredient_and_a_place_is_not(build, tmp_path):
    repo = build()
    repo.commit(a_cc="int a;\n")
    repo.commit(a_cc="int b;\n")
    repo.git("clone", "--quiet", ".", str(tmp_path / "clone"))
    repo.git("clone", "--quiet", "--depth=1", f"file://{repo.path}", str(tmp_path / "shallow"))

    def of(path: Path, *, max_commits: int | None = None, val_fraction: float = 0.1) -> JsonValue:
        spec = RepositorySpec(name="repo", path=str(path), max_commits=max_commits)
        corpus = CorpusSpec(name="c", repositories=(spec,), val_fraction=val_fraction)
        return ingredients(resolve(spec, cache=tmp_path / "cache"), spec, corpus)

    here = of(repo.path)
    assert here == of(tmp_path / "clone") == of(repo.path, val_fraction=0.2)
    assert here != of(tmp_path / "shallow")
    assert here != of(repo.path, max_commits=1)


def test_a_sha256_repository_is_read(build, read):
    repo = build("repo", "--object-format=sha256")
    repo.commit(a_cc="int a;\n")
    repo.commit(a_cc="int b;\r\n")
    changes, _ = read(repo.path)
    assert [len(each.commit) for each in changes] == [64, 64]
    check(changes[1])


def version(text: str) -> Version:
    return Version(blob=Blob(blob_id="0" * 40, text=text), as_stored=False)


TEXT = st.text(alphabet="ab\n", max_size=30)


@pytest.fixture(scope="module")
def differ(tmp_path_factory):
    """A differ in a view of an empty repository."""
    folder = tmp_path_factory.mktemp("empty")
    for name in ("objects", "refs"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    layout = git.RepositoryLayout(head=folder / "HEAD", common=folder, name="bare")
    with git.view(layout) as repository, open_differ(repository) as found:
        yield found


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(pairs=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=20))
def test_applying_the_hunks_to_before_gives_after(differ, pairs):
    pairs = [(before, after) for before, after in pairs if before != after]
    versions = [(version(before), version(after)) for before, after in pairs]
    if not versions:
        return
    for (before, after), hunks in zip(pairs, differ.hunks(versions), strict=True):
        assert applied(before, after, hunks) == after


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    contents=st.lists(
        st.lists(
            st.sampled_from([b"a", b"b", b"\n", b"\r\n", b"\r", b"\xef\xbb\xbf"]), max_size=12
        ),
        min_size=2,
        max_size=5,
    )
)
def test_hunks_agree_with_texts_whatever_the_line_ends(tmp_path_factory, build, read, contents):
    folder = tmp_path_factory.mktemp("ends")
    repo = type(build)(folder)()
    for content in contents:
        repo.commit(a_cc=b"".join(content), b_cc=b"x\n")
    changes, _ = read(repo.path)
    assert changes
    for change in changes:
        check(change)
        assert change.after is not None
        assert "\r" not in change.after.text
