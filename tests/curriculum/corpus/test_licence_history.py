"""Licence files along a history: each version has the licence of its own commit's tree."""

import random
from pathlib import Path

import pytest

from curriculum.corpus.licence_names import is_licence_file
from curriculum.corpus.licences import licence_of
from schemas.change import FileChange
from schemas.corpus import QualitySpec

MIT = "Copyright (c) 2010 Ann Author\n\nMIT License\n"
BSL = "Copyright 2020 Example Inc.\nBoost Software License - Version 1.0\n"
ZLIB = "Altered source versions must be plainly marked as such\n"
TEXTS = {"MIT": MIT, "BSL-1.0": BSL, "Zlib": ZLIB}
Found = tuple[str | None, str | None]


def found(change: FileChange) -> Found:
    """Licence and evidence of the version after a change."""
    assert change.after is not None
    licence = licence_of(change.after.text, change.path, change.licence_files, change.licence)
    return licence.name, licence.evidence


def found_before(change: FileChange) -> Found:
    assert change.before is not None
    licence = licence_of(
        change.before.text, change.old_path, change.old_licence_files, change.licence
    )
    return licence.name, licence.evidence


def test_a_repository_that_changes_its_licence_has_the_right_one_on_each_side(build, read):
    repo = build()
    repo.write("LICENSE", MIT)
    repo.commit(a_cc="int a;\n")
    repo.commit(a_cc="int b;\n")
    repo.write("LICENSE", BSL)
    repo.commit(a_cc="int c;\n")
    repo.commit(a_cc="int d;\n")
    changes, _ = read(repo.path, licence="ISC")
    names = ["MIT", "MIT", "BSL-1.0", "BSL-1.0"]
    assert [found(change) for change in changes] == [(name, "file: LICENSE") for name in names]
    assert [found_before(change)[0] for change in changes[1:]] == ["MIT", "MIT", "BSL-1.0"]
    holders = [
        licence_of("int a;\n", "a.cc", change.licence_files, None).holder for change in changes
    ]
    assert holders == ["Ann Author", "Ann Author", "Example", "Example"]


def test_a_licence_file_is_followed_through_renames_and_its_end(build, read):
    repo = build()
    repo.write("COPYING", MIT)
    repo.commit(a_cc="int a;\n")
    repo.git("mv", "COPYING", "LICENSE.md")
    repo.commit(a_cc="int b;\n")
    repo.git("mv", "LICENSE.md", "notes.md")
    repo.commit(a_cc="int c;\n")
    repo.git("mv", "notes.md", "LICENSE")
    repo.commit(a_cc="int d;\n")
    repo.git("rm", "--quiet", "LICENSE")
    repo.commit(a_cc="int e;\n")
    changes, _ = read(repo.path, licence="ISC")
    assert [found(change) for change in changes] == [
        ("MIT", "file: COPYING"),
        ("MIT", "file: LICENSE.md"),
        ("ISC", "corpus"),
        ("MIT", "file: LICENSE"),
        ("ISC", "corpus"),
    ]


def test_the_nearest_licence_file_above_a_file_holds(build, read):
    repo = build()
    repo.write("LICENSE", MIT)
    repo.write("lib/z/COPYING", ZLIB)
    repo.write("lib/z/src/a.c", "int a;\n")
    repo.write("lib/b.c", "int b;\n")
    repo.write("lib/z/src/own.c", "// SPDX-License-Identifier: BSL-1.0\nint c;\n")
    repo.commit()
    changes, _ = read(repo.path)
    assert {change.path: found(change) for change in changes} == {
        "lib/b.c": ("MIT", "file: LICENSE"),
        "lib/z/src/a.c": ("Zlib", "file: lib/z/COPYING"),
        "lib/z/src/own.c": ("BSL-1.0", "header"),
    }


def test_a_commit_on_a_branch_has_the_licence_of_its_own_tree(build, read):
    repo = build()
    repo.write("LICENSE", MIT)
    repo.commit(a_cc="int a;\n")
    repo.git("checkout", "--quiet", "-b", "side")
    repo.write("LICENSE", BSL)
    repo.commit("relicense", b_cc="int b;\n")
    repo.git("checkout", "--quiet", "main")
    repo.commit("meanwhile", a_cc="int c;\n")
    repo.git("merge", "--quiet", "--no-ff", "-m", "merge", "side")
    repo.commit("after", a_cc="int d;\n")
    changes, _ = read(repo.path)
    assert {change.subject: found(change)[0] for change in changes} == {
        "Change": "MIT",
        "relicense": "BSL-1.0",
        "meanwhile": "MIT",
        "after": "BSL-1.0",
    }


@pytest.mark.parametrize("seed", range(3))
def test_licences_are_those_of_the_trees_of_random_histories(build, read, seed):
    dice, repo, branches = random.Random(seed), build(), ["main"]
    for number in range(24):
        _branch(repo, dice, branches, number)
        if dice.random() < 0.4:
            _relicense(repo, dice)
        repo.write(f"s/f{number}.cc", f"int a{number};\n")
        repo.commit()
    repo.git("checkout", "--quiet", "main")
    for branch in branches[1:]:
        repo.git("merge", "--quiet", "-X", "ours", "-m", "merge", branch)
    changes, _ = read(repo.path)
    assert len(changes) == 24
    for change in changes:
        names = repo.git("ls-tree", "-r", "--name-only", change.commit).splitlines()
        nearest = next((path for path in ("s/LICENSE", "LICENSE") if path in names), None)
        text = nearest and repo.git("show", f"{change.commit}:{nearest}")
        expected = next((name for name, own in TEXTS.items() if own.strip() == text), None)
        assert found(change) == (expected, nearest and f"file: {nearest}")


def _branch(repo, dice: random.Random, branches: list[str], number: int) -> None:
    """Go to a branch, and merge another one into it at times."""
    if number and dice.random() < 0.2:
        branches.append(f"b{number}")
        repo.git("checkout", "--quiet", "-b", branches[-1])
    elif number:
        repo.git("checkout", "--quiet", dice.choice(branches))
    if number and dice.random() < 0.3:
        repo.git("merge", "--quiet", "-X", "ours", "-m", "merge", dice.choice(branches))
        repo.clock += 60


def _relicense(repo, dice: random.Random) -> None:
    path = dice.choice(["LICENSE", "s/LICENSE"])
    repo.write(path, dice.choice([*TEXTS.values()]))


def test_a_subtree_keeps_its_licence_in_its_folder(build, read):
    repo = build()
    repo.write("LICENSE", MIT)
    repo.commit(a_cc="int a;\n")
    repo.git("checkout", "--quiet", "--orphan", "theirs")
    repo.git("rm", "--quiet", "-rf", ".")
    repo.write("LICENSE", ZLIB)
    repo.commit("theirs", z_cc="int z;\n")
    repo.git("checkout", "--quiet", "main")
    merge = (
        "merge",
        "--quiet",
        "-s",
        "ours",
        "--no-commit",
        "--allow-unrelated-histories",
        "theirs",
    )
    repo.git(*merge)
    repo.git("read-tree", "--prefix=deps/", "-u", "theirs")
    repo.commit("merge")
    repo.commit("after", a_cc="int b;\n", deps__z_cc="int y;\n")
    changes, _ = read(repo.path, corpus={"quality": QualitySpec(min_bytes=0, vendored=True)})
    assert {(change.subject, change.path): found(change)[0] for change in changes} == {
        ("Change", "a.cc"): "MIT",
        ("theirs", "z.cc"): "Zlib",
        ("after", "a.cc"): "MIT",
        ("after", "deps/z.cc"): "Zlib",
    }


def test_a_plain_folder_has_licence_files_too(tmp_path: Path, read):
    for name, text in (
        ("LICENSE", MIT),
        ("z/COPYING", ZLIB),
        ("z/a.c", "int a;\n"),
        ("b.c", "int b;\n"),
    ):
        (tmp_path / "plain" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "plain" / name).write_text(text)
    changes, _ = read(tmp_path / "plain")
    assert {change.path: found(change)[0] for change in changes} == {"b.c": "MIT", "z/a.c": "Zlib"}


@pytest.mark.parametrize(
    ("files", "licence", "path"),
    [
        ({"LICENSES/BSL-1.0.txt": "Any text."}, "BSL-1.0", "LICENSES/BSL-1.0.txt"),
        ({"LICENSES/BSL-1.0.txt": "x", "LICENSE": MIT}, "MIT", "LICENSE"),
        ({"LICENSES/README.txt": MIT}, None, None),
        ({"COPYRIGHT": MIT, "COPYING": BSL}, "BSL-1.0", "COPYING"),
        ({"LICENSE": MIT, "LICENSE.zlib": ZLIB}, "MIT", "LICENSE"),
        ({"LICENSE-MIT": MIT, "LICENSE-ZLIB": ZLIB}, "MIT AND Zlib", "LICENSE-MIT"),
        (
            {
                "COPYING": "GNU General Public License version 3, 29 June 2007",
                "COPYING.LESSER": "GNU Lesser General Public License version 3, 29 June 2007",
            },
            "LGPL-3.0-only",
            "COPYING.LESSER",
        ),
        ({"COPYING": "See the file LICENCE.", "LICENCE": ZLIB}, "Zlib", "LICENCE"),
        ({"a.cc.license": "SPDX-License-Identifier: ISC", "LICENSE": MIT}, "ISC", "a.cc.license"),
        ({"b.license": ZLIB, "LICENSE": MIT}, "MIT", "LICENSE"),
        ({"LICENSE": b"\0\1"}, None, None),
        ({"LICENSE": "Ask the author."}, "LicenseRef-unrecognised", "LICENSE"),
    ],
)
def test_one_licence_is_chosen_among_the_files_of_a_folder(build, read, files, licence, path):
    repo = build()
    for name, text in files.items():
        repo.write(name, text)
    repo.commit(a_cc="int a;\n")
    (change,) = read(repo.path)[0]
    assert found(change) == (licence, path and f"file: {path}")


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("LICENSE", True),
        ("a/b/licence.txt", True),
        ("COPYING.LIB", True),
        ("MIT-LICENSE.txt", True),
        ("UNLICENSE", True),
        ("LICENSE_1_0.txt", True),
        ("Copyright.txt", True),
        ("LICENSES/GPL-3.0-or-later.txt", True),
        ("src/logo.h.license", True),
        ("license.cpp", False),
        ("license_test.py", False),
        ("LICENSE-docs", False),
        ("docs/LICENSE-MIXING.md", False),
        ("README.md", False),
        ("copying_things/a.txt", False),
    ],
)
def test_licence_files_are_known_by_their_names(path, is_one):
    assert is_licence_file(path) is is_one


TABLE = """version = 1
[[annotations]]
path = "{path}"
precedence = "{precedence}"
SPDX-FileCopyrightText = "2020 Table Author"
SPDX-License-Identifier = "{licence}"
"""


def test_annotations_hold_for_the_commits_whose_tree_has_them(build, read):
    repo = build()
    repo.write("LICENSE", MIT)
    repo.commit(s__a_cc="int a;\n")
    repo.write("REUSE.toml", TABLE.format(path="s/**", precedence="closest", licence="Zlib"))
    repo.commit(s__a_cc="int b;\n")
    repo.write("REUSE.toml", TABLE.format(path="t/**", precedence="closest", licence="ISC"))
    repo.commit(s__a_cc="int c;\n")
    repo.write("s/REUSE.toml", TABLE.format(path="*.cc", precedence="closest", licence="ISC"))
    repo.commit(s__a_cc="int d;\n")
    repo.git("rm", "--quiet", "s/REUSE.toml")
    repo.commit(s__a_cc="int e;\n")
    changes, _ = read(repo.path)
    assert [found(change) for change in changes] == [
        ("MIT", "file: LICENSE"),
        ("Zlib", "file: REUSE.toml"),
        ("MIT", "file: LICENSE"),
        ("ISC", "file: s/REUSE.toml"),
        ("MIT", "file: LICENSE"),
    ]
    assert [found_before(change)[0] for change in changes[1:]] == ["MIT", "Zlib", "MIT", "ISC"]


def test_a_plain_folder_has_annotations_too(tmp_path: Path, read):
    (tmp_path / "plain/.reuse").mkdir(parents=True)
    (tmp_path / "plain/.reuse/dep5").write_text("Files: *\nCopyright: 2020 Ann\nLicense: Zlib\n")
    (tmp_path / "plain/a.cc").write_text("int a;\n")
    (change,) = read(tmp_path / "plain")[0]
    assert found(change) == ("Zlib", "file: .reuse/dep5")
