import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.vendored import FileOrigin, find_vendored
from schemas.corpus import QualitySpec
from schemas.tree_licences import FolderLicence

MIT = "Permission is hereby granted, free of charge, to any person obtaining a copy\n"
OURS = "// Copyright (c) 2020 Ada Byron\n// SPDX-License-Identifier: MIT\nint {};\n"
THEIRS = "// Copyright (c) 2012 Grace Hopper\n// SPDX-License-Identifier: BSL-1.0\nint {};\n"
UNNAMED = "int {};\n"
LARGE = THEIRS.format("a") + "".join(f"int f{at * 7919}();\n" for at in range(1500))
SAME_LICENCE = "// Copyright (c) 2012 Grace Hopper\n// Refer to format.h.\nint {};\n"


def files(folder: str, text: str, number: int = 3) -> dict[str, str]:
    return {f"{folder}/f{index}.h": text.format(f"f{index}") for index in range(number)}


@pytest.fixture
def vendored(build: Any, read: Any) -> Any:
    """Commit some files by path, each group as a commit, and return the paths left out and the skips."""

    def judge(*groups: dict[str, str | bytes]) -> tuple[set[str], Any]:
        repo = build()
        repo.write("LICENSE", f"Copyright (c) 2020 Ada Byron\n\n{MIT}")
        for group in groups:
            for path, content in group.items():
                repo.write(path, content)
            repo.commit()
        changes, skips = read(repo.path)
        written = {path for group in groups for path in group if path.endswith(".h")}
        return written - {change.path for change in changes}, skips

    return judge


def test_a_folder_under_another_licence_and_holder_is_vendored(vendored):
    left_out, skips = vendored(files("src", OURS, 5), files("src/text", THEIRS))
    assert left_out == set(files("src/text", THEIRS))
    assert skips.counts == {"vendored": 3}
    ((evidence, number),) = skips.report().vendored.items()
    assert evidence.startswith("src/text/")
    assert number == 3


@pytest.mark.parametrize("text", [UNNAMED, SAME_LICENCE, OURS])
def test_another_holder_or_another_licence_alone_is_no_evidence(vendored, text):
    own = files("src", OURS, 5)
    edits = [{f"src/text/f{n}.h": text.format("a")} for n in range(3)]
    left_out, skips = vendored({**own, "src/text/f9.h": text.format("b")}, *edits)
    assert not left_out
    assert not skips.report().vendored


def test_a_large_header_under_another_licence_and_holder_is_vendored(vendored):
    left_out, skips = vendored({**files("src", OURS, 5), "src/catch.h": LARGE})
    assert left_out == {"src/catch.h"}
    assert skips.counts == {"vendored": 1}


def test_a_small_file_of_another_holder_is_contributed(vendored):
    left_out, _ = vendored({**files("src", OURS, 5), "src/a.h": THEIRS.format("a")})
    assert not left_out


def test_whom_most_files_name_owns_a_folder_under_another_licence(vendored):
    package = {
        **files("lib", THEIRS, 9),
        "lib/LICENSE": f"Copyright (c) 2012 Grace Hopper\n\n{MIT}",
        "lib/Makefile": "all:\n\tcc f0.c\n",
    }
    left_out, _ = vendored({**files("src", OURS, 5), **package})
    assert not left_out


def test_files_of_one_other_holder_are_vendored_where_they_came_as_a_whole(vendored):
    newer = {path: text + "int more;\n" for path, text in files("src/text", SAME_LICENCE).items()}
    left_out, _ = vendored(files("src", OURS, 5), files("src/text", SAME_LICENCE), newer)
    assert left_out == set(newer)


@pytest.mark.parametrize(("number", "is_left_out"), [(1, True), (2, False)])
def test_a_folder_half_of_whose_files_include_the_repository_is_its_own(
    vendored, number, is_left_out
):
    """A file of the folder that includes another one of it says nothing."""
    folder = {
        f"src/text/f{at}.h": THEIRS.format(at)
        + ("#include <src/f1.h>\n" if at < number else '#include "f2.h"\n')
        for at in range(4)
    }
    left_out, _ = vendored({**files("src", OURS, 5), **folder})
    assert left_out == (set(folder) if is_left_out else set())


@pytest.mark.parametrize("name", ["f1.h", "lib/value.h"])
def test_a_name_that_any_header_may_have_is_no_sign_of_the_repository(vendored, name):
    folder = {f"src/text/g{at}.h": f'{THEIRS.format(at)}#include "{name}"\n' for at in range(3)}
    own = {**files("src", OURS, 5), "src/a/lib/value.h": OURS, "src/b/lib/value.h": OURS}
    left_out, _ = vendored({**own, **folder})
    assert left_out == set(folder)


def test_a_large_header_that_includes_the_repository_is_its_own(vendored):
    left_out, _ = vendored(
        {
            **files("src", OURS, 5),
            "src/a.h": f"{LARGE}#include <src/f1.h>\n",
            "src/b.h": f"{LARGE}#include <vector>\n",
        }
    )
    assert left_out == {"src/b.h"}


def test_folders_of_others_that_include_each_other_are_vendored(vendored):
    parts = {
        path: text + f"#include <src/{other}/f0.h>\n"
        for name, other in (("one", "two"), ("two", "one"))
        for path, text in files(f"src/{name}", THEIRS).items()
    }
    left_out, _ = vendored({**files("src", OURS, 9), **parts})
    assert left_out == set(parts)


def test_a_package_with_licence_and_build_file_is_vendored(vendored):
    package = {
        **files("src/text/lib", UNNAMED),
        "src/text/COPYING": f"Copyright (c) 2012 Grace Hopper\n\n{MIT}",
        "src/text/Makefile": "all:\n\tcc f0.c\n",
    }
    left_out, _ = vendored({**files("src", OURS, 5), **package})
    assert left_out == set(files("src/text/lib", UNNAMED))


def test_earlier_files_of_a_vendored_folder_are_vendored(vendored, build, read):
    repo = build()
    for path, text in {**files("src", OURS, 5), **files("src/text", THEIRS, 4)}.items():
        repo.write(path, text)
    repo.commit()
    (repo.path / "src/text/f3.h").unlink()
    repo.commit()
    changes, skips = read(repo.path)
    assert {change.path for change in changes} == set(files("src", OURS, 5))
    assert skips.counts == {"vendored": 5}


def test_vendored_code_is_kept_where_the_corpus_says_so(build, read):
    repo = build()
    for path, text in {**files("src", OURS, 5), **files("src/text", THEIRS)}.items():
        repo.write(path, text)
    repo.commit()
    changes, skips = read(repo.path, corpus={"quality": QualitySpec(min_bytes=0, vendored=True)})
    assert len(changes) == 8
    assert not skips.report().vendored


def test_a_plain_folder_is_judged_by_its_files(tmp_path, read):
    for path, text in {**files("src", OURS, 5), **files("src/text", THEIRS)}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    changes, skips = read(tmp_path)
    assert {change.path for change in changes} == set(files("src", OURS, 5))
    assert skips.counts == {"vendored": 3}


NAMES = st.sampled_from([None, "Ada", "Grace", "Ada and others"])
LICENCES = st.sampled_from([None, "MIT", "BSL-1.0"])
ORIGINS = st.builds(
    FileOrigin, num_bytes=st.integers(0, 50_000), licence=LICENCES, nearest=LICENCES, holder=NAMES
)


@given(
    origins=st.dictionaries(
        st.sampled_from(["a.h", "b/a.h", "b/c.h", "b/c/d.c", "e/f.h"]), ORIGINS
    ),
    licences=st.dictionaries(
        st.sampled_from(["", "b", "e"]),
        st.builds(FolderLicence, path=st.just("LICENSE"), licences=st.just(("MIT",)), holder=NAMES),
    ),
)
def test_a_repository_of_any_files_keeps_those_of_the_holder_at_its_root(origins, licences):
    found = find_vendored(
        origins, licences, ["b/Makefile"], lambda folders: dict.fromkeys(folders, 1.0)
    )
    root = licences.get("")
    assert set(found.files) <= set(origins)
    for path, origin in origins.items():
        assert (found.evidence(path) is not None) == (path in found.files)
        if root and root.holder and origin.holder == root.holder:
            assert path not in found.files


def test_a_repository_of_one_file_or_one_holder_has_nothing_vendored():
    lone = FileOrigin(num_bytes=99_999, licence="MIT", nearest="MIT", holder="Ada")
    for origins in ({"a.h": lone}, {"a.h": lone, "b/a.h": lone, "b/b.h": lone}):
        assert not find_vendored(origins, {}, ["b/Makefile"], lambda folders: {}).files


def test_many_packages_are_judged_in_time_linear_in_their_number():
    """A scan of all files for each package would take 17 s."""
    number = 8_000
    origin = FileOrigin(num_bytes=100, licence="MIT", nearest="MIT", holder="Ann")
    origins = {f"p{each % 77}/q{each}/a.h": origin for each in range(number)}
    licences = {
        path.removesuffix("/a.h"): FolderLicence(path="LICENSE", licences=("MIT",), holder="Bob")
        for path in origins
    }
    start = time.process_time()
    built = [f"{folder}/CMakeLists.txt" for folder in licences]
    found = find_vendored(origins, licences, built, lambda folders: {})
    assert time.process_time() - start < 4
    assert found.files.keys() == set()
