"""Annotations of REUSE: which files they match, and what they do beside what files state."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus import licence_files as licence_files_module
from curriculum.corpus.licence_files import (
    licence_files,
    read_licence_file,
    read_licence_files,
)
from curriculum.corpus.licences import licence_of
from curriculum.corpus.reuse_annotations import annotations_in, dep5_glob, toml_glob
from schemas import tree_licences
from schemas.path_globs import PathGlob, Wildcard
from schemas.spdx import UNRECOGNISED
from schemas.tree_licences import AnnotationFile, LicenceFiles

HEAD = "// SPDX-FileCopyrightText: 2019 Head Author\n// SPDX-License-Identifier: MIT\nint a;\n"
PLAIN = "int a;\n"


def table(
    licence: str | None,
    precedence: str | None = None,
    *,
    path: str = "**",
    holder: str | None = "2020 Table Author",
) -> str:
    lines = ["[[annotations]]", f'path = "{path}"']
    fields = (
        ("precedence", precedence),
        ("SPDX-FileCopyrightText", holder),
        ("SPDX-License-Identifier", licence),
    )
    lines += [f'{name} = "{value}"' for name, value in fields if value]
    return "\n".join(lines)


def tree(**texts: str) -> LicenceFiles:
    """A tree's licence files; `__` stands for a slash."""
    named = {
        {"root": "REUSE.toml", "src": "src/REUSE.toml", "dep5": ".reuse/dep5"}.get(name, name): text
        for name, text in texts.items()
    }
    return licence_files(
        {
            path: read_licence_file(
                path, (f"version = 1\n{text}" if path.endswith("toml") else text).encode()
            )
            for path, text in named.items()
        }
    )


@pytest.mark.parametrize(
    ("text", "files", "licence", "evidence", "holder"),
    [
        (PLAIN, {"root": table("Zlib")}, "Zlib", "file: REUSE.toml", "Table Author"),
        (HEAD, {"root": table("Zlib")}, "MIT", "header", "Head Author"),
        (
            HEAD,
            {"root": table("Zlib", "aggregate")},
            "MIT AND Zlib",
            "file: REUSE.toml",
            "Head Author",
        ),
        (HEAD, {"root": table("Zlib", "override")}, "Zlib", "file: REUSE.toml", "Table Author"),
        (
            PLAIN,
            {"root": table("Zlib"), "src": table("ISC")},
            "ISC",
            "file: src/REUSE.toml",
            "Table Author",
        ),
        (
            PLAIN,
            {"root": table("Zlib", "override"), "src": table("ISC", "override")},
            "Zlib",
            "file: REUSE.toml",
            "Table Author",
        ),
        (
            HEAD,
            {"root": table("Zlib"), "src": table("ISC", "override")},
            "ISC",
            "file: src/REUSE.toml",
            "Table Author",
        ),
        (
            HEAD,
            {"root": table("Zlib", "aggregate"), "src": table("ISC", "override")},
            "ISC AND Zlib",
            "file: REUSE.toml",
            "Table Author",
        ),
        (
            PLAIN,
            {"root": table("Zlib") + "\n" + table("ISC")},
            "ISC",
            "file: REUSE.toml",
            "Table Author",
        ),
        (
            "// SPDX-License-Identifier: MIT\nint a;\n",
            {"root": table("Zlib")},
            "MIT",
            "header",
            "Table Author",
        ),
        (
            PLAIN,
            {"root": table(None), "src": table("ISC", holder=None)},
            "ISC",
            "file: src/REUSE.toml",
            "Table Author",
        ),
        (HEAD, {"dep5": "Files: src/*\nLicense: MIT\nCopyright: x\n"}, "MIT", "header", None),
        (PLAIN, {"root": table("Frob-1.0")}, "LicenseRef-unrecognised", "file: REUSE.toml", None),
        (PLAIN, {"root": "[[annotations"}, None, None, None),
        (PLAIN, {"root": table("Zlib", path="*")}, None, None, None),
        (PLAIN, {"root": table("Zlib", "nearest")}, None, None, None),
    ],
)
def test_annotations_take_the_precedence_that_the_specification_gives_them(
    text, files, licence, evidence, holder
):
    licence_found = licence_of(text, "src/a.cc", tree(**files), None)
    assert (licence_found.name, licence_found.evidence) == (licence, evidence)
    assert holder is None or licence_found.holder == holder


def test_a_licence_file_beside_a_file_stands_for_its_head():
    files = licence_files(
        {
            path: read_licence_file(path, text.encode())
            for path, text in {
                "src/a.cc.license": "SPDX-License-Identifier: ISC\n",
                "REUSE.toml": f"version = 1\n{table('Zlib')}",
            }.items()
        }
    )
    licence_found = licence_of(HEAD, "src/a.cc", files, None)
    assert (licence_found.name, licence_found.evidence) == ("ISC", "file: src/a.cc.license")


DEP5 = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ours

# Everything
Files: *
Copyright: 2019 First Author <first@example.com>
 2020 Second
License: Zlib

Files: src/t?.cc
 other/*
Copyright: 2021 Other
License: ISC
 The text of the licence.
"""


@pytest.mark.parametrize(
    ("path", "licence", "holder"),
    [
        ("a.cc", "Zlib", "First Author"),
        ("deep/er/a.cc", "Zlib", "First Author"),
        ("src/t1.cc", "ISC", "Other"),
        ("src/t12.cc", "Zlib", "First Author"),
        ("other/deep/a.cc", "ISC", "Other"),
    ],
)
def test_the_last_paragraph_of_dep5_that_matches_holds(path, licence, holder):
    annotation = annotations_in(".reuse/dep5", DEP5).annotation_of(path)
    assert annotation is not None
    assert (annotation.licence, annotation.holder, annotation.precedence) == (
        licence,
        holder,
        "aggregate",
    )


@pytest.mark.parametrize(
    ("glob", "path", "is_match"),
    [
        ("*.cc", "a.cc", True),
        ("*.cc", "s/a.cc", False),
        ("**.cc", "s/a.cc", True),
        ("**/a.cc", "a.cc", True),
        ("s/**/a.cc", "s/a.cc", True),
        ("s/**", "s/t/a.cc", True),
        ("s/*", "s/t/a.cc", False),
        ("s", "s/a.cc", False),
        (r"\*.cc", "*.cc", True),
        (r"\*.cc", "a.cc", False),
        (r"a\\b", "a\\b", True),
        ("a?.cc", "ab.cc", False),
        ("", "a.cc", False),
    ],
)
def test_globs_of_tables_match_as_specified(glob, path, is_match):
    assert toml_glob(glob).matches(path) is is_match


def test_globs_of_dep5_cross_folders():
    assert dep5_glob("*.cc").matches("s/a.cc")
    assert dep5_glob("./s/?.cc").matches("s/a.cc")
    assert not dep5_glob(r"\*.cc").matches("s/a.cc")


TOKENS = st.lists(st.sampled_from(["a", "b", "/", *Wildcard]), max_size=8)
REGEX = {Wildcard.WITHIN: "[^/]*", Wildcard.ACROSS: ".*", Wildcard.ONE: "."}


@given(tokens=TOKENS, path=st.text("ab/", max_size=10))
def test_globs_match_what_a_regular_expression_does(tokens, path):
    pattern = "".join(
        REGEX[token] if isinstance(token, Wildcard) else re.escape(token) for token in tokens
    )
    is_match = re.fullmatch(pattern, path, re.DOTALL) is not None
    assert PathGlob(tuple(tokens)).matches(path) is is_match


def test_a_glob_of_many_wildcards_takes_time_linear_in_the_path():
    glob = toml_glob("*a**a" * 200 + "b")
    begun = time.process_time()
    assert not glob.matches("a" * 4096)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("text", ["a." * 400_000 + "a = 1", "[" * 400_000, "a = " + "{a=" * 9_999])
def test_a_table_that_never_ends_says_nothing_at_once(text):
    begun = time.process_time()
    assert annotations_in("REUSE.toml", f"version = 1\n{text}").annotations == ()
    assert time.process_time() - begun < 5


def test_a_file_of_endless_annotations_says_nothing():
    text = "version = 1\n" + "\n".join(table("MIT", path=f"{at}") for at in range(10_001))
    assert annotations_in("REUSE.toml", text).annotations == ()


def test_annotations_with_endless_licences_are_unrecognised():
    licences = ", ".join(f'"LicenseRef-{number}"' for number in range(20_000))
    table = f'version = 1\n[[annotations]]\npath = "**"\nSPDX-License-Identifier = [{licences}]\n'
    (annotation,) = annotations_in("REUSE.toml", table).annotations
    assert annotation.licence == UNRECOGNISED


def _many(number: int) -> bytes:
    globs = ", ".join(f'"**/x{each}*y"' for each in range(number))
    table = f'version = 1\n[[annotations]]\npath = ["z.h", {globs}]\n'
    return f'{table}SPDX-License-Identifier = "Zlib"\n'.encode()


@pytest.mark.parametrize("raw", [_many(100), _many(1).replace(b"x0", b"x" * 2_500)])
def test_annotations_of_a_history_are_bounded_together(
    monkeypatch: pytest.MonkeyPatch, raw: bytes
) -> None:
    monkeypatch.setattr(licence_files_module, "MAX_ANNOTATIONS_SIZE", 10_000)
    texts = read_licence_files((each, f"f{each}/REUSE.toml", raw) for each in range(9))
    files = [text for text in texts.values() if isinstance(text, AnnotationFile)]
    assert [bool(file.annotations) for file in files] == [True] * 3 + [False] * 6


def test_a_path_is_compared_with_a_bounded_number_of_globs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_licences, "MAX_SIZE_ABOVE", 10_000)
    folders = ["", "a/", "a/b/", "a/b/c/", "a/b/c/d/"]
    named = [f"{folder}REUSE.toml" for folder in folders]
    files = licence_files(read_licence_files((path, path, _many(100)) for path in named))
    found = [licence_of(PLAIN, f"{folder}z.h", files, None).name for folder in folders]
    assert found == ["Zlib", "Zlib", "Zlib", None, None]
