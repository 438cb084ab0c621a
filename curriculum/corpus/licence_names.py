"""Names of licence files, and rules for which files of a folder state the licence of its code."""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from curriculum.corpus.paths import language_of
from schemas.spdx import is_spdx_id
from schemas.tree_licences import DEP5_PATH, TOML_NAME

REUSE_FOLDER = "LICENSES"
"""Name of the folder in which REUSE has one text per licence; the texts are named by SPDX id."""
SIDECAR = ".license"
"""Suffix of a REUSE file that contains the licence header of another file.

The other file is in the same folder and has the same name without the suffix.
"""
_NAME = re.compile(
    r"(?:(?:mit|bsd|gpl|lgpl|mpl|apache|boost)[._-])?(?:un)?(?P<word>licen[cs]es?|copying|copyright)"
    r"(?:[._-][\w.+-]*)?",
    re.IGNORECASE,
)
_PLAIN = re.compile(
    r"(?:un)?(?:licen[cs]e|copying)(?:\.(?:txt|md|rst|markdown|html?))?", re.IGNORECASE
)
_LESSER = re.compile(r"(?:licen[cs]e|copying)[._-](?:lesser|lib|lgpl).*", re.IGNORECASE)
_ASIDE = re.compile(
    r"\b(?:docs?|examples?|mixing|third|3rd|notices?|template|header|test)", re.IGNORECASE
)
"""Words in the names of licence files that don't apply to the code in their folder."""
_NO_TEXT = re.compile(
    r"\.(?:py|sh|js|ts|pl|pm|rb|go|rs|java|cs|in|d|svg|png|json|yml|yaml|xml|cps|toml)",
    re.IGNORECASE,
)
"""Suffixes of programs and data, which are no licence files."""
RANKS = 5


def is_licence_file(path: str) -> bool:
    """Return True if a path is that of a licence file, a text in LICENSES/, or an annotation file.

    >>> [is_licence_file(path) for path in ("a/LICENSE.txt", "COPYING.LIB", "LICENSES/MIT.txt")]
    [True, True, True]
    >>> [is_licence_file(path) for path in ("license.cpp", "LICENSE-docs", "check_license.py")]
    [False, False, False]
    """
    folder, _, name = path.rpartition("/")
    if folder.rpartition("/")[2] == REUSE_FOLDER:
        return reuse_id(path) is not None
    if name.endswith(SIDECAR) or is_annotation_file(path):
        return True
    return (
        _NAME.fullmatch(name) is not None
        and _ASIDE.search(name.replace("_", "-")) is None
        and _NO_TEXT.fullmatch(PurePosixPath(name).suffix) is None
        and language_of(path, headers="cpp") is None
    )


def is_annotation_file(path: str) -> bool:
    """Return True if a path is that of a file with REUSE annotations.

    >>> [is_annotation_file(path) for path in ("lib/REUSE.toml", ".reuse/dep5", "lib/.reuse/dep5")]
    [True, True, False]
    """
    return path == DEP5_PATH or path.rpartition("/")[2] == TOML_NAME


def reuse_id(path: str) -> str | None:
    """Return the SPDX id that a text in LICENSES/ has as its file name; None for other paths."""
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".txt")
    return stem if folder.rpartition("/")[2] == REUSE_FOLDER and is_spdx_id(stem) else None


def covered_by(path: str) -> str:
    """Return the folder to which a licence file applies.

    A .license file applies to the file of the same name without .license.

    >>> covered_by("lib/COPYING"), covered_by("LICENSES/MIT.txt"), covered_by("a/logo.h.license")
    ('lib', '', 'a/logo.h')
    """
    if path.endswith(SIDECAR):
        return path.removesuffix(SIDECAR)
    folder = path.rpartition("/")[0]
    return folder.removesuffix(REUSE_FOLDER).removesuffix("/") if reuse_id(path) else folder


def chosen_files(paths: Iterable[str]) -> list[str]:
    """Return those licence files of a folder that apply, sorted; they have the best rank in the folder.

    Ranks, best first: LGPL texts next to a GPL text, plain names, longer names, COPYRIGHT, texts in
    LICENSES/.
    """
    ranked: dict[int, list[str]] = {}
    for path in paths:
        ranked.setdefault(rank_of(path), []).append(path)
    return sorted(path for rank in chosen_ranks(ranked) for path in ranked[rank])


def chosen_ranks(ranks: Collection[int]) -> list[int]:
    """Return the ranks of the files that apply in a folder, given the ranks of all its licence files.

    This is the best rank. If LGPL texts have the best rank and there is no plain name, files with longer
    names apply as well.
    """
    lowest = min(ranks)
    return [0, 2] if lowest == 0 and 1 not in ranks and 2 in ranks else [lowest]


def rank_of(path: str) -> int:
    """Return the rank of a licence file within its folder, from 0 (best) to RANKS - 1."""
    name = path.rpartition("/")[2]
    named = _NAME.fullmatch(name)
    if named is None or reuse_id(path) is not None:
        return 4
    if named["word"].lower() == "copyright":
        return 3
    return 0 if _LESSER.fullmatch(name) else 1 if _PLAIN.fullmatch(name) else 2
