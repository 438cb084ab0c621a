"""Languages of `.h` files, decided once per repository for each header at the newest commit.

    content     C++ syntax outside of blocks that only C++ compilers read       C++
                extern "C" inside of a block that only C++ compilers read       C
    includers   the language of most files that include the header
    repository  the language of most source files

A header that the newest commit no longer has is decided by its last content.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from curriculum.corpus.code_marks import MARKS, QUOTES, replace_marks
from curriculum.corpus.includes import HeaderPaths, included_names
from schemas.corpus import Language

HeaderLanguage = Literal["c", "cpp"]
ReadFiles = Callable[[Sequence[str]], Iterable[tuple[str, bytes]]]
"""Yields path and content of the readable files, in any order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderLanguages:
    """Language of each `.h` file of a repository."""

    usual: HeaderLanguage
    others: frozenset[str] = frozenset()
    """Paths of the headers in the other language."""

    def language_of(self, path: str) -> Language:
        """Return the language of a header."""
        if path not in self.others:
            return self.usual
        return "c" if self.usual == "cpp" else "cpp"


MAX_JUDGED_BYTES = 1_000_000
"""Only this many leading bytes of a file are examined."""
_DIRECTIVE = re.compile(rb"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
_NOT_CPP = re.compile(rb"!\s*defined\b[\s(]*__cplusplus")
_EXTERN_C = re.compile(rb"extern\s*\"C\"")
_CPP_SYNTAX = re.compile(
    rb"^[ \t]*+(?:"
    rb"template[ \t]*<"
    rb"|(?:inline[ \t]+)?namespace\b[ \t\w:]*+(?:\{[ \t]*+)?$"
    rb"|namespace[ \t]+\w+[ \t]*="
    rb"|(?:public|private|protected)[ \t]*:"
    rb"|using[ \t]+\w"
    rb"|(?:virtual|explicit|friend)[ \t]+\w"
    rb"|#[ \t]*include[ \t]*<\w+>"
    rb"|(?:struct|union)[ \t]+\w+(?:[ \t]+final)?[ \t]*:[ \t]*\w"
    rb"|~\w+[ \t]*\([ \t]*\)[ \t]*[;{]"
    rb")"
    rb"|\w::\w"
    rb"|\bconst[ \t]+\w+[ \t]*&"
    rb"|\)[ \t]*const\b[ \t]*[;{=]"
    rb"|\)[ \t]*(?:noexcept|override|final)\b|\)[ \t\w]*=[ \t]*(?:default|delete)[ \t]*;"
    rb"|\boperator[ \t]*(?:[-+*/%^&|~!=<>]+|\(\)|\[\])[ \t]*\("
    rb"|\b(?:static|dynamic|const|reinterpret)_cast[ \t]*<"
    rb"|\b(?:auto|bool|char|double|float|int|long|short|signed|unsigned)[ \t]*&&?[ \t]*+\w*+[ \t]*+[,)]",
    re.MULTILINE,
)
_CLASS = re.compile(rb"^[ \t]*+(?:enum[ \t]+)?class\b[^;(){}=]*+([;{]?)", re.MULTILINE)
"""Head of a class up to the character that shows whether it is a class declaration."""


def language_by_content(content: bytes) -> HeaderLanguage | None:
    r"""Return the language that a header's own text implies, or None.

    >>> language_by_content(b"class A;\n"), language_by_content(b"int f(void);\n")
    ('cpp', None)
    >>> language_by_content(b'#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n')
    'c'
    """
    head = content[:MAX_JUDGED_BYTES].replace(b"\r\n", b"\n")
    code = replace_marks(head, MARKS, lambda found: b" " if found.startswith(b"/") else found)
    common, guarded = _by_compiler(code)
    common = replace_marks(common, QUOTES, lambda _: b'""')
    if _CPP_SYNTAX.search(common) or any(found[1] for found in _CLASS.finditer(common)):
        return "cpp"
    return "c" if _EXTERN_C.search(guarded) else None


def _by_compiler(text: bytes) -> tuple[bytes, bytes]:
    """Split a text into the lines that C compilers may read and the lines that only C++ compilers read."""
    lines: tuple[list[bytes], list[bytes]] = ([], [])
    inside: list[bool | None] = []
    """For each open #if: True if only C++ compilers read its branch; None for other conditions."""
    num_guards = 0
    """Number of open branches that only C++ compilers read."""
    for line in text.split(b"\n"):
        directive = _DIRECTIVE.match(line)
        if directive is None:
            lines[num_guards > 0].append(line)
            continue
        left = None
        if directive[1] in (b"endif", b"else", b"elif"):
            if not inside:
                continue
            left = inside.pop()
            num_guards -= left is True
        if directive[1] != b"endif":
            inside.append(_branch(directive, left))
            num_guards += inside[-1] is True
    common, guarded = lines
    return b"\n".join(common), b"\n".join(guarded)


def _branch(directive: re.Match[bytes], left: bool | None) -> bool | None:
    """Return True if only C++ compilers read a branch; None if its condition is not __cplusplus."""
    if directive[1] in (b"else", b"elif"):
        return None if left is None else not left
    if b"__cplusplus" not in directive[2]:
        return None
    return directive[1] != b"ifndef" and not _NOT_CPP.search(directive[2])


def decide_headers(
    sources: Mapping[str, HeaderLanguage], headers: Sequence[str], read: ReadFiles
) -> HeaderLanguages:
    """Decide the language of each header from the repository's files at its newest commit.

    Args:
        sources: Files whose suffix decides their language. They are read only if both languages occur and the
            content of some header decides nothing.
        headers: Paths of the headers; a few hundred bytes of memory each.
        read: Yields path and content of given files.
    """
    decided: dict[str, HeaderLanguage] = {}
    includes: dict[str, list[str]] = {}
    for path, content in read(headers):
        language = language_by_content(content)
        if language is not None:
            decided[path] = language
        includes[path] = included_names(content)
    counted = Counter(sources.values())
    usual = _majority(counted) or _majority(Counter(decided.values())) or "c"
    if len(counted) > 1 and len(decided) < len(headers):
        decided |= _by_includers(sources, decided, includes, read)
    others = (path for path, language in decided.items() if language != usual)
    return HeaderLanguages(usual=usual, others=frozenset(others))


def _by_includers(
    sources: Mapping[str, HeaderLanguage],
    decided: Mapping[str, HeaderLanguage],
    includes: Mapping[str, Sequence[str]],
    read: ReadFiles,
) -> dict[str, HeaderLanguage]:
    """Decide the remaining headers by the files that include them, round by round.

    Each round counts the includes of the headers decided in the previous round, so that every include is
    counted once.
    """
    known = HeaderPaths(includes)
    open_headers = _OpenHeaders(known, decided)
    votes: _Votes = defaultdict(Counter)
    for path, content in read(sorted(sources)):
        for name in included_names(content):
            votes[known.matching(path, name)][sources[path]] += 1
    found: dict[str, HeaderLanguage] = {}
    added: Mapping[str, HeaderLanguage] = decided
    while True:
        for path, language in added.items():
            for name in includes[path]:
                votes[known.matching(path, name)][language] += 1
        added = open_headers.decided_by(votes)
        if not added:
            return found
        found |= added
        votes.clear()


_Votes = defaultdict[range, Counter[HeaderLanguage]]
"""Votes of files, by the range of headers that an included name may mean."""


class _OpenHeaders:
    """Undecided headers, by their position among all headers."""

    def __init__(self, known: HeaderPaths, decided: Collection[str]) -> None:
        self._paths = known.paths
        self._next = [*range(len(known.paths) + 1)]
        """For each position, an undecided position at or after it, or a closer step towards one."""
        for place, path in enumerate(known.paths):
            if path in decided:
                self._next[place] = place + 1

    def decided_by(self, votes: _Votes) -> dict[str, HeaderLanguage]:
        """Return the language of undecided headers with votes, and mark them as decided."""
        changes: dict[int, Counter[HeaderLanguage]] = defaultdict(Counter)
        for places, cast in votes.items():
            changes[places.start].update(cast)
            changes[places.stop].subtract(cast)
        found: dict[str, HeaderLanguage] = {}
        counted: Counter[HeaderLanguage] = Counter()
        for start, stop in pairwise(sorted(changes)):
            counted.update(changes[start])
            majority = _majority(counted)
            place = self._open_from(start)
            while majority is not None and place < stop:
                found[self._paths[place]] = majority
                self._next[place] = place + 1
                place = self._open_from(place)
        return found

    def _open_from(self, place: int) -> int:
        """Return the first undecided position from `place` on, and compress the path to it."""
        first = place
        while self._next[first] != first:
            first = self._next[first]
        while self._next[place] != first:
            self._next[place], place = first, self._next[place]
        return first


def _majority(counted: Counter[HeaderLanguage]) -> HeaderLanguage | None:
    """Return the language with more votes; C++ on a tie, None without votes."""
    if not counted.total():
        return None
    return "c" if counted["c"] > counted["cpp"] else "cpp"
