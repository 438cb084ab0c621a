"""Paths of a repository that are wanted, and the language of each: all that a path alone can say."""

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
    """Return True if the suffix is one that C never has; `.C` and `.H` count, `.h` doesn't."""
    suffix = PurePosixPath(path).suffix
    return suffix in (".C", ".H") or suffix.lower() in CPP_ONLY


def source_languages(paths: Iterable[str]) -> dict[str, HeaderLanguage]:
    """Return the files in C or C++ whose suffix alone decides the language."""
    found: dict[str, HeaderLanguage] = {}
    for path in paths:
        if is_cpp_only(path):
            found[path] = "cpp"
        elif path.endswith(".c"):
            found[path] = "c"
    return found


def language_of(path: str, *, headers: Language) -> Language | None:
    """The language of a path, None for what we don't read; `headers` is the language of `.h`.

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
"""Bytes of a file's or folder's name; no file system in use takes longer ones."""
MAX_PATH_BYTES = 3_000
"""Bytes of a path, so that systems take it below a folder of ours."""
MAX_STARS, MAX_DEPTHS = 3, 2
"""Stars in one name of a pattern, and `**` before its last name: a path is tried at each place for each."""
REMEMBERED = 100_000
"""Paths whose verdict is kept, for most paths change many times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedPath:
    """A path that is wanted, as text, with its language."""

    path: str
    language: Language


@dataclass(kw_only=True, slots=True)
class PathRules:
    """The rules of one repository in one corpus; `headers` has the language of each `.h`."""

    corpus: CorpusSpec
    headers: HeaderLanguages
    include: GitIgnoreSpec
    exclude: GitIgnoreSpec
    vendored: VendoredCode
    """Vendored code by its content; none where the corpus keeps it."""
    _known: dict[bytes, WantedPath | Reason | None] = field(default_factory=dict)

    def verdict(self, raw: bytes) -> WantedPath | Reason | None:
        """The path if it is wanted, why it isn't, or None for a file in no wanted language."""
        if raw not in self._known:
            if len(self._known) >= REMEMBERED:
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
    """The rules that a pin and its corpus give.

    Raises:
        CorpusError: for a pattern that is none.
    """
    return PathRules(
        corpus=corpus,
        headers=headers,
        vendored=vendored,
        include=_patterns(spec, "include", spec.include),
        exclude=_patterns(spec, "exclude", spec.exclude),
    )


def is_plain(raw: bytes) -> bool:
    """Return True where a path is printable UTF-8 of names that files can have, and stays inside its tree."""
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
                cause=f"a name has at most {MAX_STARS} stars, and a pattern {MAX_DEPTHS} times **",
                cure="Write several patterns, each with fewer",
            )
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as wrong:
        raise CorpusError(
            spec.title(field_name),
            f"{field_name} = {list(lines)}",
            cause=str(wrong),
            cure="Write patterns as in .gitignore",
        ) from None
