"""Names of licence files, and which of several in one folder states the licence of the code beside them."""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePosixPath

from curriculum.corpus.paths import language_of
from schemas.spdx import is_spdx_id
from schemas.tree_licences import DEP5_PATH, TOML_NAME

REUSE_FOLDER = "LICENSES"
"""Folder in which REUSE keeps one text a licence, named by its SPDX id."""
SIDECAR = ".license"
"""End of the name of a file in which REUSE keeps the header of the file beside it."""
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
"""Words of names whose files are not the licence of the code beside them."""
_NO_TEXT = re.compile(
    r"\.(?:py|sh|js|ts|pl|pm|rb|go|rs|java|cs|in|d|svg|png|json|yml|yaml|xml|cps|toml)",
    re.IGNORECASE,
)
"""Suffixes of programs and data."""
RANKS = 5


def is_licence_file(path: str) -> bool:
    """Return True for the path of a licence file, by its name and REUSE's folder, or of annotations.

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
    """Return True for the path of a file in which REUSE annotates others.

    >>> [is_annotation_file(path) for path in ("lib/REUSE.toml", ".reuse/dep5", "lib/.reuse/dep5")]
    [True, True, False]
    """
    return path == DEP5_PATH or path.rpartition("/")[2] == TOML_NAME


def reuse_id(path: str) -> str | None:
    """Return the SPDX id that a text in REUSE's folder is named by, or None."""
    folder, _, name = path.rpartition("/")
    stem = name.removesuffix(".txt")
    return stem if folder.rpartition("/")[2] == REUSE_FOLDER and is_spdx_id(stem) else None


def covered_by(path: str) -> str:
    """Return the folder that a licence file covers, or the file that it is the header of.

    >>> covered_by("lib/COPYING"), covered_by("LICENSES/MIT.txt"), covered_by("a/logo.h.license")
    ('lib', '', 'a/logo.h')
    """
    if path.endswith(SIDECAR):
        return path.removesuffix(SIDECAR)
    folder = path.rpartition("/")[0]
    return folder.removesuffix(REUSE_FOLDER).removesuffix("/") if reuse_id(path) else folder


def chosen_files(paths: Iterable[str]) -> list[str]:
    """Choose among the licence files of one folder; several of one rank hold together, sorted.

    That of the LGPL comes before the GPL's, then plain names, names with more, COPYRIGHT, and REUSE's.
    """
    ranked: dict[int, list[str]] = {}
    for path in paths:
        ranked.setdefault(rank_of(path), []).append(path)
    return sorted(path for rank in chosen_ranks(ranked) for path in ranked[rank])


def chosen_ranks(ranks: Collection[int]) -> list[int]:
    """Choose among the ranks of the licence files of one folder, at least one.

    Without plain names, that of the LGPL holds together with names that have more.
    """
    lowest = min(ranks)
    return [0, 2] if lowest == 0 and 1 not in ranks and 2 in ranks else [lowest]


def rank_of(path: str) -> int:
    """Return the rank of a licence file among those of its folder: below RANKS, the lowest holds."""
    name = path.rpartition("/")[2]
    named = _NAME.fullmatch(name)
    if named is None or reuse_id(path) is not None:
        return 4
    if named["word"].lower() == "copyright":
        return 3
    return 0 if _LESSER.fullmatch(name) else 1 if _PLAIN.fullmatch(name) else 2
