"""Path rules: which paths of a repository are wanted, and the language of each wanted path."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pathspec import GitIgnoreSpec

from curriculum.corpus.header_languages import HeaderLanguage, HeaderLanguages
from curriculum.corpus.quality import is_vendored
from curriculum.corpus.skips import Reason
from curriculum.corpus.vendored import NOTHING_VENDORED, VendoredCode
from schemas import regular_files
from schemas.corpus import CorpusSpec, Language, RepositorySpec
from schemas.errors import CorpusError

HEADER_SUFFIX = ".h"
_CPP_ONLY = ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .inl .tpp .txx .tcc .ixx .cppm .cu .cuh"
CPP_ONLY = frozenset(_CPP_ONLY.split())
SUFFIXES: dict[str, Language] = {
    **dict.fromkeys(CPP_ONLY, "cpp"),
    ".c": "c",
    ".cmake": "cmake",
    ".mk": "make",
    ".mak": "make",
    ".bzl": "bazel",
    ".bazel": "bazel",
}
NAMES: dict[str, Language] = {
    "CMakeLists.txt": "cmake",
    "Makefile": "make",
    "makefile": "make",
    "GNUmakefile": "make",
    "BUILD": "bazel",
    "WORKSPACE": "bazel",
    "meson.build": "meson",
    "meson_options.txt": "meson",
    "meson.options": "meson",
}


def is_cpp_only(path: str) -> bool:
    """Return True if only C++ uses the suffix of a path; `.C` and `.H` are such suffixes, but not `.h`."""
    suffix = PurePosixPath(path).suffix
    return suffix in (".C", ".H") or suffix.lower() in CPP_ONLY


def source_languages(paths: Iterable[str]) -> dict[str, HeaderLanguage]:
    """Return the language of each C or C++ file whose suffix alone decides the language."""
    found: dict[str, HeaderLanguage] = {}
    for path in paths:
        if is_cpp_only(path):
            found[path] = "cpp"
        elif path.endswith(".c"):
            found[path] = "c"
    return found


def language_of(path: str, *, headers: Language) -> Language | None:
    """Return the language of a path, or None if it is unsupported; `headers` is the language of `.h` files.

    >>> language_of("src/db.cc", headers="cpp"), language_of("README.md", headers="cpp")
    ('cpp', None)
    """
    pure = PurePosixPath(path)
    if pure.name in NAMES:
        return NAMES[pure.name]
    if is_cpp_only(path):
        return "cpp"
    if pure.suffix == HEADER_SUFFIX:
        return headers
    return SUFFIXES.get(pure.suffix.lower())


CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
MAX_NAME_BYTES = 255
"""Maximum length in bytes of a file or folder name in common file systems."""
MAX_PATH_BYTES = 3_000
"""Maximum length of a path in bytes, so that the path is still valid below a folder of the workspace."""
MAX_STARS, MAX_DEPTHS = 3, 2
"""Limits on a pattern, because matching backtracks over stars.

MAX_STARS limits the stars in one name, and MAX_DEPTHS the number of `**` before the last name.
"""
MAX_CACHED_VERDICTS = 100_000
"""Number of cached verdicts; a cache pays because most paths change many times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedPath:
    """A wanted path, decoded, with its language."""

    path: str
    language: Language


@dataclass(kw_only=True, slots=True)
class PathRules:
    """Rules for the paths of one repository in one corpus; `headers` gives the language of each `.h` file."""

    corpus: CorpusSpec
    headers: HeaderLanguages
    include: GitIgnoreSpec
    exclude: GitIgnoreSpec
    vendored: VendoredCode
    """Vendored code that was found by content; empty if the corpus keeps vendored code."""
    _known: dict[bytes, WantedPath | Reason | None] = field(default_factory=dict)

    def verdict(self, raw: bytes) -> WantedPath | Reason | None:
        """Return a path if it is wanted, the reason if it is skipped, or None if its language is unwanted."""
        if raw not in self._known:
            if len(self._known) >= MAX_CACHED_VERDICTS:
                self._known.clear()
            self._known[raw] = self._judge(raw)
        return self._known[raw]

    def _judge(self, raw: bytes) -> WantedPath | Reason | None:
        path = raw.decode(errors="surrogateescape")
        language = language_of(path, headers=self.headers.language_of(path))
        if language is None or language not in self.corpus.files:
            return None
        if self.include.patterns and not self.include.match_file(path):
            return "excluded"
        if self.exclude.match_file(path):
            return "excluded"
        if not is_plain(raw):
            return "path"
        if not self.corpus.quality.vendored and (is_vendored(path) or self.vendored.evidence(path)):
            return "vendored"
        return WantedPath(path=path, language=language)


def path_rules(
    spec: RepositorySpec,
    corpus: CorpusSpec,
    *,
    headers: HeaderLanguages,
    vendored: VendoredCode = NOTHING_VENDORED,
) -> PathRules:
    """Return the path rules of a repository in a corpus.

    Raises:
        CorpusError: for an invalid include or exclude pattern.
    """
    return PathRules(
        corpus=corpus,
        headers=headers,
        vendored=vendored,
        include=_patterns(spec, "include", spec.include),
        exclude=_patterns(spec, "exclude", spec.exclude),
    )


def is_plain(raw: bytes) -> bool:
    """Return True if a path is printable UTF-8, has valid file names, and doesn't lead out of its tree."""
    if len(raw) > MAX_PATH_BYTES:
        return False
    try:
        path = raw.decode()
    except UnicodeDecodeError:
        return False
    if max(map(len, raw.split(b"/"))) > MAX_NAME_BYTES:
        return False
    return regular_files.is_plain(path) and CONTROL.search(path) is None


def _patterns(spec: RepositorySpec, field_name: str, lines: tuple[str, ...]) -> GitIgnoreSpec:
    for line in lines:
        *folders, last = line.rstrip("/").split("/")
        stars = max(name.count("*") for name in (*folders, last, "") if name != "**")
        if stars > MAX_STARS or folders.count("**") > MAX_DEPTHS:
            raise CorpusError(
                spec.title(field_name),
                f"{field_name}: {ascii(line)[:60]}",
                cause=f"a name may have at most {MAX_STARS} stars, and a pattern at most {MAX_DEPTHS} `**`",
                cure="Split it into several patterns with fewer wildcards",
            )
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as wrong:
        raise CorpusError(
            spec.title(field_name),
            f"{field_name} = {list(lines)}",
            cause=str(wrong),
            cure="Use the syntax of .gitignore",
        ) from None
