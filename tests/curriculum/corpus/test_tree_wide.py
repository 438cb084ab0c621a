"""Commit facts of a change, and version distances that ignore tree-wide commits."""

from collections.abc import Sequence
from typing import Any

import pytest

from schemas.change import TREE_WIDE_FILES, FileChange
from schemas.corpus import HistorySpec


def edit_all(repo: Any, mark: str) -> None:
    for at in range(TREE_WIDE_FILES):
        repo.write(f"src/{at}.cc", f"int a{at} = {mark};\n")
    repo.commit(f"Set {mark}")


@pytest.fixture
def tree_wide(build):
    """A repository in which each second change of src/0.cc is of a tree-wide commit."""
    repo = build()
    edit_all(repo, "0")
    for at in range(1, 9):
        if at % 2:
            repo.commit(f"Edit {at}", src__0_cc=f"int a0 = {at};\n")
        else:
            edit_all(repo, str(at))
    return repo


def of_file(changes: Sequence[FileChange], *, edits: bool) -> list[str]:
    return [
        each.subject for each in changes if each.path == "src/0.cc" and each.is_edit_only == edits
    ]


@pytest.mark.parametrize("newest_first", [False, True])
def test_tree_wide_commits_do_not_count_among_the_versions_of_edits(tree_wide, read, newest_first):
    history = HistorySpec(versions_per_path=3, newest_first=newest_first)
    changes, skips = read(tree_wide.path, corpus={"history": history, "changes": "code"})
    usual, usual_skips = read(tree_wide.path, corpus={"history": history, "changes": "all"})
    assert [each for each in changes if not each.is_edit_only] == usual
    assert skips == usual_skips
    seen = sorted(of_file(changes, edits=True) + of_file(usual, edits=False))
    counted = [subject for subject in seen if subject.startswith("Edit")]
    assert counted == (
        ["Edit 3", "Edit 5", "Edit 7"] if newest_first else ["Edit 1", "Edit 3", "Edit 5"]
    )


def test_a_commit_is_tree_wide_by_its_files_of_known_languages(tree_wide, read):
    changes, _ = read(tree_wide.path)
    assert {each.subject for each in changes if each.is_tree_wide} == {
        "Set 0", "Set 2", "Set 4", "Set 6", "Set 8",
    }  # fmt: skip


def test_a_deleted_file_is_replaced_by_one_of_the_same_name(build, read):
    repo = build()
    repo.commit(a_c="int a;\n", b_c="int b;\n")
    (repo.path / "a.c").unlink()
    (repo.path / "b.c").unlink()
    repo.commit(lib__A_cc="namespace other { class Text; }\n")
    deleted = {each.path: each.is_replaced for each in read(repo.path)[0] if each.kind == "deleted"}
    assert deleted == {"a.c": True, "b.c": False}
