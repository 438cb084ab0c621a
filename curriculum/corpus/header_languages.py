"""Languages of `.h` files, decided once per repository for each header at the newest commit.

The first of these rules that gives a language decides:

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
"""Function that yields path and content of those of the given files that are readable, in any order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderLanguages:
    """Language of each `.h` file of a repository.

    `usual` is the language of all headers that aren't in `others`.
    """

    usual: HeaderLanguage
    others: frozenset[str] = frozenset()
    """Paths of the headers whose language isn't `usual`."""

    def language_of(self, path: str) -> Language:
        """Return the language of the header at `path`."""
        if path not in self.others:
            return self.usual
        return "c" if self.usual == "cpp" else "cpp"


MAX_JUDGED_BYTES = 1_000_000
"""Number of bytes at the start of a file that are examined."""
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
"""Pattern of the head of a class, up to the character that shows whether it is a class declaration."""


def language_by_content(content: bytes) -> HeaderLanguage | None:
    r"""Return the language that the text of a header implies, or None if it implies none.

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
    """Return two texts: the lines that C compilers may read, and those that only C++ compilers read."""
    lines: tuple[list[bytes], list[bytes]] = ([], [])
    inside: list[bool | None] = []
    """One value per open #if: True if only C++ compilers read its branch, None for other conditions."""
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
    """Return True if only C++ compilers read the branch that `directive` begins.

    Return None if the branch doesn't depend on __cplusplus. `left` is the result for the branch before #else
    or #elif.
    """
    if directive[1] in (b"else", b"elif"):
        return None if left is None else not left
    if b"__cplusplus" not in directive[2]:
        return None
    return directive[1] != b"ifndef" and not _NOT_CPP.search(directive[2])


def decide_headers(
    sources: Mapping[str, HeaderLanguage], headers: Sequence[str], read: ReadFiles
) -> HeaderLanguages:
    """Decide the language of each header from the files at the newest commit of its repository.

    Args:
        sources: Files whose suffix decides their language. Their contents are read only if both languages
            occur and the content of some header decides nothing.
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
    """Decide the language of the other headers by the files that include them, in rounds.

    In the first round, all files of known language vote for the headers that they include. In each later
    round, the headers decided in the previous round vote. So every include counts once.
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
"""Votes for languages, by the range of headers that an included name may mean."""


class _OpenHeaders:
    """Headers that aren't decided yet, by their positions in the sorted list of all headers."""

    def __init__(self, known: HeaderPaths, decided: Collection[str]) -> None:
        self._paths = known.paths
        self._next = [*range(len(known.paths) + 1)]
        """Links to undecided positions: each position has itself, if it is undecided, or a later position.

        From a decided position, the links lead to the first undecided position after it.
        """
        for place, path in enumerate(known.paths):
            if path in decided:
                self._next[place] = place + 1

    def decided_by(self, votes: _Votes) -> dict[str, HeaderLanguage]:
        """Return the language of each undecided header that has votes, and mark it as decided."""
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
        """Return the first undecided position at or after `place`.

        The steps to it are shortened for later calls.
        """
        first = place
        while self._next[first] != first:
            first = self._next[first]
        while self._next[place] != first:
            self._next[place], place = first, self._next[place]
        return first


def _majority(counted: Counter[HeaderLanguage]) -> HeaderLanguage | None:
    """Return the language with the most votes; C++ if both have the same number, None if there are none."""
    if not counted.total():
        return None
    return "c" if counted["c"] > counted["cpp"] else "cpp"
