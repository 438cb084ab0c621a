"""Language of `.h` files: decided once per repository, header by header, at its newest commit.

    content     C++ syntax outside what only C++ compilers read                 C++
                an extern "C" that only C++ compilers read                      C
    includers   the language of most files that include the header
    repository  the language of most source files

A header that the newest commit no longer has goes by the content that it had last.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from curriculum.corpus.includes import HeaderPaths, included_names
from schemas.corpus import Language

HeaderLanguage = Literal["c", "cpp"]
ReadFiles = Callable[[Sequence[str]], Iterable[tuple[str, bytes]]]
"""Yield path and content of the files that can be read, in any order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeaderLanguages:
    """The language of each `.h` file of a repository."""

    usual: HeaderLanguage
    others: frozenset[str] = frozenset()
    """Paths of the headers in the other language."""

    def language_of(self, path: str) -> Language:
        """Return the language of one header."""
        if path not in self.others:
            return self.usual
        return "c" if self.usual == "cpp" else "cpp"


MAX_JUDGED_BYTES = 1_000_000
"""Bytes of a file that are looked at."""
_COMMENT = re.compile(
    rb"//[^\n]*|/\*.*?(?:\*/|\Z)|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+')", re.DOTALL
)
_STRING = re.compile(rb"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'")
_DIRECTIVE = re.compile(rb"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
_NOT_CPP = re.compile(rb"!\s*defined\b[\s(]*__cplusplus")
_EXTERN_C = re.compile(rb"extern\s*\"C\"")
_CPP_SYNTAX = re.compile(
    rb"^[ \t]*(?:"
    rb"template[ \t]*<"
    rb"|(?:inline[ \t]+)?namespace\b[ \t\w:]*\{?[ \t]*$"
    rb"|namespace[ \t]+\w+[ \t]*="
    rb"|(?:enum[ \t]+)?class\b[^;(){}=]*[;{]"
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
    rb"|\b(?:auto|bool|char|double|float|int|long|short|signed|unsigned)[ \t]*&&?[ \t]*\w*[ \t]*[,)]",
    re.MULTILINE,
)


def language_by_content(content: bytes) -> HeaderLanguage | None:
    r"""Return the language that a header's own text decides, or None.

    >>> language_by_content(b"class A;\n"), language_by_content(b"int f(void);\n")
    ('cpp', None)
    >>> language_by_content(b'#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n')
    'c'
    """
    head = content[:MAX_JUDGED_BYTES].replace(b"\r\n", b"\n")
    common, guarded = _by_compiler(_COMMENT.sub(lambda found: found[1] or b" ", head))
    if _CPP_SYNTAX.search(_STRING.sub(b'""', common)):
        return "cpp"
    return "c" if _EXTERN_C.search(guarded) else None


def _by_compiler(text: bytes) -> tuple[bytes, bytes]:
    """Divide lines into those that a C compiler may read, and those that only C++ compilers read."""
    lines: tuple[list[bytes], list[bytes]] = ([], [])
    inside: list[bool | None] = []
    """For each open #if: whether only C++ compilers read its branch; None for another condition."""
    for line in text.split(b"\n"):
        directive = _DIRECTIVE.match(line)
        if directive is None:
            lines[True in inside].append(line)
        elif directive[1] == b"endif":
            del inside[-1:]
        elif directive[1] in (b"else", b"elif"):
            inside[-1:] = [None if state is None else not state for state in inside[-1:]]
        elif b"__cplusplus" in directive[2]:
            inside.append(directive[1] != b"ifndef" and not _NOT_CPP.search(directive[2]))
        else:
            inside.append(None)
    common, guarded = lines
    return b"\n".join(common), b"\n".join(guarded)


def decide_headers(
    sources: Mapping[str, HeaderLanguage], headers: Sequence[str], read: ReadFiles
) -> HeaderLanguages:
    """Decide the language of each header from the repository's files at its newest commit.

    `sources` are files whose language their suffix decides. They are read only where both languages occur
    and some header's content decides nothing. Memory: a few hundred bytes a header.
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
    """Decide the remaining headers by the sources and decided headers that include them, round by round."""
    known = HeaderPaths(includes)
    votes: dict[str, Counter[HeaderLanguage]] = {path: Counter() for path in includes}
    for path, content in read(sorted(sources)):
        for name in included_names(content):
            for header in known.matching(path, name):
                votes[header][sources[path]] += 1
    found: dict[str, HeaderLanguage] = {}
    added: Mapping[str, HeaderLanguage] = decided
    while True:
        for path, language in added.items():
            for name in includes[path]:
                for header in known.matching(path, name):
                    votes[header][language] += 1
        added = {
            header: majority
            for header, counted in votes.items()
            if header not in decided and header not in found
            if (majority := _majority(counted)) is not None
        }
        if not added:
            return found
        found |= added


def _majority(counted: Counter[HeaderLanguage]) -> HeaderLanguage | None:
    """Return the language with more votes; C++ for a tie, and None without votes."""
    if not counted.total():
        return None
    return "c" if counted["c"] > counted["cpp"] else "cpp"
