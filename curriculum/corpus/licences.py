"""Licence and copyright holder that a text states: the first comment of a file, or a whole licence file.

Licences are not judged here. Names are reported as the text states them, or as SPDX ids if the wording is
known.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from curriculum.corpus.copyright_holders import holder_in
from curriculum.corpus.quality import LEADING_COMMENT
from schemas.spdx import UNRECOGNISED, joined, normalized, unknown_ids
from schemas.tree_licences import FileLicence, FolderLicence, LicenceFiles

HEAD_CHARACTERS = 8_192
"""Number of characters at the start of a file in which its licence is searched."""
MAX_EXPRESSION_CHARACTERS = 100
"""Maximum length of an SPDX expression in characters; a longer one is ignored."""
MAX_TAGS = 200
"""Maximum number of different SPDX tags in a text; with more, the licence is unrecognised."""
_IDENTIFIER = r"(?:\([ \t]*)*[A-Za-z0-9][\w.+\-:]*(?:[ \t]*\))*"
_TAG = re.compile(
    rf"SPDX-License-Identifier:[ \t]*({_IDENTIFIER}(?:[ \t]+(?i:AND|OR|WITH)[ \t]+{_IDENTIFIER})*)"
)
_MARKS = str.maketrans(dict.fromkeys("*/#;!\"'`", " "))
_GNU = re.compile(
    r"gnu (?P<kind>affero |lesser |library )?general public licen[cs]e"
    r"(?:.{0,200}?version (?P<version>[123](?:\.[01])?)(?![.\d]*\d)"
    r"(?P<later>.{0,40}?\b(?:any later version|or later))?)?"
)
_GNU_TITLE = re.compile(
    r"gnu (?P<kind>affero |lesser |library )?general public licen[cs]e (?:v|version )"
    r"(?P<version>[123](?:\.[01])?),? (?:\d{1,2} )?(?:january|february|june|november)\b"
)
"""Pattern of the title of a full GNU licence; the title doesn't say whether later versions are allowed."""
_GNU_ID = re.compile(r"\b(a|l)?gpl-([123](?:\.[01])?)-(only|or-later)\b")
_GNU_SHORT = re.compile(r"\bgplv([23])\b")
_KINDS = {"affero ": "AGPL", "lesser ": "LGPL", "library ": "LGPL"}
_ANY_VERSION = {"GPL": "GPL-1.0-or-later", "LGPL": "LGPL-2.0-or-later", "AGPL": "AGPL-3.0-or-later"}
"""Licence that is meant if a text names a GNU licence without a version: any version is allowed."""
_GRANT = "permission is hereby granted, free of charge, to any person obtaining"
_BSD = "redistribution and use in source and binary forms"
_STATED = (
    (
        "Apache-2.0 WITH LLVM-exception",
        "llvm exceptions",
        r"apache license v2\.0 with llvm exceptions|llvm exceptions to the apache 2\.0 licen[cs]e",
    ),
    (
        "Apache-2.0",
        "apache",
        r"apache licen[cs]e,? (?:version |v)?2\.0(?! with llvm)|\bapache 2\.0 licen",
    ),
    (
        "Apache-1.1",
        "apache software licen",
        r"apache software licen[cs]e,? version 1\.1|the apache software licen[cs]e, version 1\.1",
    ),
    ("BSL-1.0", "boost", r"boost software license,?(?: -)? version 1\.0|\blicense: boost 1\.0"),
    ("MPL-1.1", "mozilla", r"mozilla public license,? v(?:ersion|\.)? ?1\.1"),
    ("MPL-1.1", "mpl 1.1", r"\bmpl 1\.1\b"),
    ("MPL-2.0", "mozilla", r"mozilla public license,? v(?:ersion|\.)? ?2\.0"),
    (
        "MIT",
        _GRANT,
        rf"{_GRANT}(?! a copy of (?:the font|this software and or associated))",
    ),
    ("MIT", "mit ", r"\bmit (?:software )?licen[cs]ed?\b|licen[cs]e: mit\b"),
    ("MIT-Khronos-old", _GRANT, rf"{_GRANT} a copy of this software and or associated"),
    ("OFL-1.1", "sil open font", r"sil open font licen[cs]e,? version 1\.1"),
    (
        "ISC",
        "permission to use",
        r"permission to use, copy, modify, and(?: or)? distribute this software(?: and its documentation)? "
        r"for any purpose with or without fee",
    ),
    (
        "curl",
        "except as contained in this notice",
        r"permission to use, copy, modify, and distribute this software for any purpose with or without fee",
    ),
    (
        "HPND",
        "without fee is hereby granted",
        r"permission to use, copy, modify, and distribute this software (?:and its documentation )?"
        r"for any purpose (?:and )?without fee is hereby granted",
    ),
    (
        "HPND-sell-variant",
        "permission to use",
        r"permission to use, copy, modify, distribute,? and sell this (?:software|code)",
    ),
    ("NCSA", "ncsa", r"university of illinois ncsa open source licen[cs]e"),
    ("PSF-2.0", "python software", r"python software foundation licen[cs]e version 2"),
    ("SSPL-1.0", "server side", r"server side public licen[cs]e"),
    ("LicenseRef-RSALv2", "redis source", r"redis source available licen[cs]e 2\.0"),
    ("OpenSSL", _BSD, _BSD),
    ("BSD-4-Clause", _BSD, _BSD),
    ("BSD-3-Clause", _BSD, _BSD),
    ("BSD-3-Clause", "bsd 3-clause", "bsd 3-clause"),
    ("BSD-2-Clause", _BSD, _BSD),
    ("BSD-2-Clause", "bsd 2-clause", "bsd 2-clause"),
    ("BSD-1-Clause", "following condition is met", _BSD),
    ("Zlib", "altered source versions", r"altered source versions must be plainly marked"),
    (
        "Unlicense",
        "unencumbered",
        r"free and unencumbered software released into the public domain",
    ),
    ("CC0-1.0", "cc0", r"cc0 1\.0 universal"),
    ("CC0-1.0", "creative", r"creative commons zero|creativecommons\.org publicdomain zero 1\.0"),
    ("CC-BY-4.0", "creative", r"creative commons attribution 4\.0"),
    ("blessing", "disclaims copyright", r"the author disclaims copyright to this source code"),
    (
        "LicenseRef-public-domain",
        "public domain",
        r"\b(?:placed|released) (?:in|into|to) the public domain\b(?! by anyone)|\b(?:is|are) (?:hereby )?in "
        r"(?:the )?public domain\b",
    ),
)
"""Known wordings as (licence, hint, pattern).

The hint occurs in every text of the licence and is searched first.
"""
_ADVERTISING, _OPENSSL = "all advertising materials", "by the openssl project"
_PROMOTION = ("endorse or promote", "neither the name")
_FOLLOWING = {
    ("OpenSSL", _BSD): ((f"this product includes software developed {_OPENSSL}",), ()),
    ("BSD-4-Clause", _BSD): ((_ADVERTISING,), (_OPENSSL,)),
    ("BSD-3-Clause", _BSD): (_PROMOTION, (_ADVERTISING,)),
    ("BSD-2-Clause", _BSD): ((), (*_PROMOTION, "following condition is met")),
    ("ISC", "permission to use"): ((), ("except as contained in this notice",)),
    ("HPND", "without fee is hereby granted"): ((), ("stichting mathematisch",)),
}
"""Further conditions for a wording of _STATED, by (licence, hint): a pair of tuples of words.

One of the words in the first tuple must follow the pattern, and none in the second may.
"""
_OTHER = re.compile(
    r"\blicen[cs]ed under\b|\bterms (?:and conditions )?of the .{0,80}licen[cs]e"
    r"|\bsubject to the .{0,40}?licen[cs]e\b"
)
_ELSEWHERE = re.compile(
    r"\b(?:see|found in|governed by|accompanying|provided in) .{0,60}?\b(?:licen[cs]e|copying|copyright)"
)
"""Pattern of words that refer to another file for the licence."""
_CHOICE = re.compile(
    r"\bchoice of\b|\balternatively\b|\bdual(?:ly)?[ -]licen[cs]ed\b|\beither of\b|\bof either\b"
    r"|\bchoose (?:whichever|to accept it either)\b|\bat your option\b(?!\W{0,3}any later)"
)
"""Pattern of words that let the reader choose between licences."""
_SECONDARY = "secondary license"
"""Words with which the MPL names GNU licences; these are not licences of the text."""
_PATTERNS = tuple((name, hint, re.compile(words)) for name, hint, words in _STATED)
_ANYWHERE = ((), ())


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedLicence:
    """Licence and copyright holder that a text states."""

    licence: str | None
    holder: str | None
    offers_choice: bool
    """True if the reader may choose between licences, in this text or in the files that it names."""


def licence_of(text: str, path: str, files: LicenceFiles, corpus: str | None) -> FileLicence:
    r"""Return the licence of a file.

    The licence comes from the first source that states one: the file's .license file, the file's first
    comment, annotations, licence files, the corpus. Annotations may also add to the file's own licence or
    replace it.

    >>> licence_of("// SPDX-License-Identifier: BSL-1.0\nint a;\n", "a.cc", LicenceFiles(), "MIT").name
    'BSL-1.0'
    >>> licence_of("int a;\n", "a.cc", LicenceFiles(), "MIT").evidence
    'corpus'
    """
    stated = _stated_in_comment(_leading_comment(text[:HEAD_CHARACTERS]))
    nearest = files.nearest(path)
    own = _own_licence(stated, files.folders.get(path))
    found = _annotated(own, path, files) if files.annotations else own
    holder = found.holder or (nearest.holder if nearest else None)
    if found.name:
        return replace(found, holder=holder)
    if nearest:
        name = joined(nearest.licences, "OR" if stated.offers_choice else "AND")
        return FileLicence(name=name, evidence=f"file: {nearest.path}", holder=holder)
    return FileLicence(name=corpus, evidence="corpus" if corpus else None, holder=holder)


def _own_licence(stated: StatedLicence, beside: FolderLicence | None) -> FileLicence:
    """Return the licence of a file's .license file (`beside`), or else the one in its first comment."""
    if beside is not None:
        name = joined(beside.licences)
        return FileLicence(name=name, evidence=f"file: {beside.path}", holder=beside.holder)
    evidence = "header" if stated.licence else None
    return FileLicence(name=stated.licence, evidence=evidence, holder=stated.holder)


def _annotated(own: FileLicence, path: str, files: LicenceFiles) -> FileLicence:
    """Return a file's own licence combined with the annotations that apply to the file.

    The nearest annotation supplies what the file doesn't state. An annotation with precedence `aggregate`
    always adds its licence, and one with `override` always replaces the file's own licence.
    """
    found = [*files.annotations_of(path)]
    if found and found[-1][1].precedence == "override":
        own = FileLicence(name=None, evidence=None, holder=None)
    licences = {own.name: own.evidence} if own.name else {}
    holder = own.holder
    for file, annotation in reversed(found):
        holder = holder or annotation.holder
        if annotation.licence and (not licences or annotation.precedence == "aggregate"):
            licences.setdefault(annotation.licence, f"file: {file}")
    evidence = [*licences.values()][-1] if licences else None
    return FileLicence(name=joined(licences), evidence=evidence, holder=holder)


def _leading_comment(head: str) -> str:
    leading = LEADING_COMMENT.match(head)
    assert leading is not None
    return leading[0]


@lru_cache(maxsize=4096)
def _stated_in_comment(comment: str) -> StatedLicence:
    words = _words(comment)
    tagged = joined_tags(_TAG.findall(comment))
    if tagged:
        licence: str | None = tagged
    else:
        found = _known_licences(words)
        found += _gnu_licences(words)
        if not found and _OTHER.search(words) and not _ELSEWHERE.search(words):
            found = [UNRECOGNISED]
        licence = joined(found, "OR" if _CHOICE.search(words) else "AND")
    return StatedLicence(
        licence=licence,
        holder=holder_in(comment),
        offers_choice=_CHOICE.search(words) is not None,
    )


def stated_in_file(text: str) -> StatedLicence:
    """Return the licence that the text of a licence file states; None if it only refers to another file.

    The full text of a GNU licence gives `-only`, because the text alone doesn't allow later versions.
    """
    words = _words(text)
    is_short = len(words) < _SHORT
    titles = {_gnu(title, title["version"], later=False) for title in _GNU_TITLE.finditer(words)}
    found = _known_licences(words)
    if titles:
        found += titles
    elif _SECONDARY not in words:
        found += (name for name in _gnu_licences(words) if not found or name not in _UNVERSIONED)
    found += (f"GPL-{version}.0-only" for version in _GNU_SHORT.findall(words) if is_short)
    tagged = joined_tags(_TAG.findall(text))
    if not found and tagged:
        found = [tagged]
    refers = _ELSEWHERE.search(words) is not None and is_short
    if not found and words.strip() and not refers:
        found = [UNRECOGNISED]
    is_choice = _CHOICE.search(words) is not None
    return StatedLicence(
        licence=joined(found, "OR" if is_choice and not titles else "AND"),
        holder=None if titles else holder_in(text),
        offers_choice=is_choice,
    )


_SHORT = 1_000
"""Maximum length in characters of a licence file that may only name licences, for example as GPLv2."""
_UNVERSIONED = frozenset(_ANY_VERSION.values())


def _words(text: str) -> str:
    return f" {' '.join(text.translate(_MARKS).lower().split())} "


def _known_licences(words: str) -> list[str]:
    """Return the licences whose wording `words` contains.

    A licence is left out if its wording is part of another licence that was found.
    """
    found = {
        name
        for name, hint, pattern in _PATTERNS
        if hint in words and _states(words, pattern, *_FOLLOWING.get((name, hint), _ANYWHERE))
    }
    return [*found.difference(*(_WITHIN.get(name, ()) for name in found))]


def _states(
    words: str, pattern: re.Pattern[str], needed: Sequence[str], refused: Sequence[str]
) -> bool:
    """Return True if `words` contain the pattern of a licence in a valid place.

    One of the `needed` words must follow the match, and none of the `refused` words may follow it.
    """
    before = max(map(words.rfind, needed), default=len(words))
    behind = max(map(words.rfind, refused), default=-1)
    return any(behind < found.end() <= before for found in pattern.finditer(words))


_WITHIN = {
    "Apache-2.0 WITH LLVM-exception": ("Apache-2.0",),
    "Unlicense": ("LicenseRef-public-domain",),
    "CC0-1.0": ("LicenseRef-public-domain",),
    "blessing": ("LicenseRef-public-domain",),
    "PSF-2.0": ("HPND",),
    "OpenSSL": ("BSD-2-Clause",),
}
"""Licences whose wording is part of another licence's text, by that other licence."""


def joined_tags(tags: Iterable[str]) -> str | None:
    """Return the licences in SPDX tags as one expression; ids missing from the SPDX list are unrecognised."""
    distinct = dict.fromkeys(tags)
    if len(distinct) > MAX_TAGS:
        return UNRECOGNISED
    return joined(tag for tag in map(_expression, distinct) if tag)


def _expression(tag: str) -> str | None:
    """Return the normalised expression of an SPDX tag; ids missing from the SPDX list are unrecognised."""
    written = tag.rstrip("-:.")
    if written.count("(") != written.count(")"):
        written = written.strip("()")
    if len(written) > MAX_EXPRESSION_CHARACTERS:
        return None
    try:
        return UNRECOGNISED if unknown_ids(written) else normalized(written)
    except ValueError:
        return UNRECOGNISED


def _gnu_licences(words: str) -> list[str]:
    """Return the GNU licences that a text names; of two mentions of one licence, the more specific counts."""
    if "general public licen" not in words and "gpl-" not in words:
        return []
    named = {
        _gnu(stated, stated["version"], later=bool(stated["later"]))
        for stated in _GNU.finditer(words)
    }
    named |= {
        f"{(letter or '').upper()}GPL-{_full(version)}-{reach}"
        for letter, version, reach in _GNU_ID.findall(words)
    }
    kinds = {name.partition("-")[0] for name in named if name not in _ANY_VERSION}
    later = {name.removesuffix("-or-later") for name in named if name.endswith("-or-later")}
    distinct = [
        _ANY_VERSION.get(name, name)
        for name in named
        if name not in kinds and name.removesuffix("-only") not in later
    ]
    if "bison parser skeleton" not in words:
        return distinct
    return [f"{name} WITH Bison-exception-2.2" for name in distinct]


def _gnu(stated: re.Match[str], version: str | None, *, later: bool) -> str:
    name = _KINDS.get(stated["kind"] or "", "GPL")
    if version is None:
        return name
    return f"{name}-{_full(version)}-{'or-later' if later else 'only'}"


def _full(version: str) -> str:
    return version if "." in version else f"{version}.0"
