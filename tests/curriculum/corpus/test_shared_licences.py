"""Trees of a history share licence files; what each has is what a tree alone would have."""

import random
import subprocess
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus import git
from curriculum.corpus.git_log import commits, read_log
from curriculum.corpus.licence_files import (
    MAX_FILES_OF_FOLDER,
    LicenceText,
    licence_files,
    read_licence_file,
)
from curriculum.corpus.licence_history import open_tracker
from curriculum.corpus.shared_licences import SharedLicences
from schemas.spdx import UNRECOGNISED
from schemas.tree_licences import FolderLicence

FOLDERS = ("", "a/", "a/b/", "c/")
NAMES = (
    *("LICENSE", "LICENSE.txt", "LICENSE-MIT", "COPYING", "COPYING.LESSER", "COPYING.LIB"),
    *("COPYRIGHT", "LICENSES/MIT.txt", "LICENSES/Zlib.txt", "a.h.license", "REUSE.toml"),
)
PATHS = st.one_of(
    st.builds("".join, st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES))),
    st.just(".reuse/dep5"),
)
TABLE = 'version = 1\n[[annotations]]\npath = "**"\nSPDX-License-Identifier = "ISC"\n'
TEXTS = st.sampled_from(
    (
        *("MIT License\n", "Copyright 2001 Ann\n", "Copyright 2001 Bob\nMIT License\n", ""),
        *("Boost Software License - Version 1.0\n", "\0", TABLE, "Files: *\nLicense: ISC\n"),
    )
)
CHANGES = st.dictionaries(PATHS, st.none() | TEXTS, max_size=6)


@given(st.lists(CHANGES, max_size=12))
def test_a_tree_has_the_licences_that_its_files_state_alone(
    commits: list[dict[str, str | None]],
) -> None:
    tree, texts = SharedLicences(), dict[str, LicenceText]()
    trees = []
    for commit in commits:
        changed = {
            path: None if text is None else read_licence_file(path, text.encode())
            for path, text in commit.items()
        }
        tree = tree.changed(changed)
        texts = {path: text for path, text in (texts | changed).items() if text is not None}
        trees.append((tree.files, licence_files(texts)))
    for shared, alone in trees:
        assert dict(shared.folders) == dict(alone.folders)
        assert dict(shared.annotations) == dict(alone.annotations)


def test_too_many_licence_files_of_one_folder_are_unrecognised() -> None:
    mit = read_licence_file("LICENSE", b"MIT License\n")
    texts = {f"z/LICENSE-{number:04}": mit for number in range(MAX_FILES_OF_FOLDER)}
    allowed = SharedLicences().changed(texts)
    assert allowed.folders["z"].licences == ("MIT",)
    more = allowed.changed({"z/LICENSE-more": mit})
    found = FolderLicence(path="z/LICENSE-0000", licences=(UNRECOGNISED,), holder=None)
    assert (
        more.folders["z"] == found == licence_files({**texts, "z/LICENSE-more": mit}).folders["z"]
    )
    plain = more.changed({"z/LICENSE": mit})
    assert plain.folders["z"] == FolderLicence(path="z/LICENSE", licences=("MIT",), holder=None)


def _seconds(folders: int) -> float:
    """Time to change one licence file in a tree of many, at best."""
    text = read_licence_file("LICENSE", b"MIT License\n")
    tree = SharedLicences().changed({f"f{number}/LICENSE": text for number in range(folders)})
    taken = []
    for number in random.Random(1).sample(range(folders), 200):
        start = time.perf_counter()
        tree = tree.changed({f"f{number}/LICENSE": text})
        taken.append(time.perf_counter() - start)
    return min(taken)


def test_a_change_takes_no_longer_among_many_folders() -> None:
    assert _seconds(20_000) < 10 * _seconds(200)


def test_a_history_of_many_folders_and_commits_is_followed(tmp_path: Path) -> None:
    """With a copy of all folders for each commit, this takes 7 s and 280 MB."""
    folders, number_of_commits = 1_000, 1_000
    imported = []
    for number in range(number_of_commits):
        changed = range(folders) if number == 0 else [number % folders]
        imported.append(
            f"commit refs/heads/main\ncommitter A <a@b> {1_600_000_000 + number} +0000\ndata 0\n"
        )
        for folder in changed:
            text = f"Copyright 2001 Owner{number}x\nMIT License\n"
            imported.append(f"M 100644 inline d{folder}/LICENSE\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path)], check=True)
    subprocess.run(
        ["git", "-C", str(tmp_path), "fast-import", "--quiet"],
        input="".join(imported).encode(),
        check=True,
    )
    head = git.run(tmp_path, "rev-parse", "main").decode().strip()
    start = time.process_time()
    with read_log(tmp_path, head) as log, open_tracker(tmp_path, head) as tracker:
        names = []
        for commit in commits(log):
            tracker.follow(commit)
            names.append(commit.commit)
        history = tracker.finish()
    assert time.process_time() - start < 3
    assert len(names) == number_of_commits
    for number in (1, number_of_commits // 2, number_of_commits - 1):
        after, before = history.at(names[number]), history.in_parent_of(names[number])
        holders = [files.folders[f"d{number}"].holder for files in (before, after)]
        assert holders == ["Owner0x", f"Owner{number}x"]
        assert len(after.folders) == folders
