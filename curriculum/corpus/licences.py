"""Licence of a file: what its own head states, else that of its repository, which says so.

No licence is judged here: names are shown as files state them, in SPDX's form where the words are known.
"""

import re
from functools import lru_cache

from curriculum.corpus.quality import LEADING_COMMENT

HEAD_CHARACTERS = 8_192
"""Characters of a file in which its licence is looked for."""
MAX_EXPRESSION = 100
"""Characters of an SPDX expression; a longer one is no licence."""
_IDENTIFIER = r"(?:\([ \t]*)*[A-Za-z0-9][\w.+\-:]*(?:[ \t]*\))*"
_TAG = re.compile(
    rf"SPDX-License-Identifier:[ \t]*({_IDENTIFIER}(?:[ \t]+(?i:AND|OR|WITH)[ \t]+{_IDENTIFIER})*)"
)
_ENCLOSED = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
"""All of an expression in parentheses, two deep."""
_MARKS = re.compile(r"[\s*/#;!\"'`]+")
_GNU = re.compile(
    r"gnu (?P<kind>affero |lesser |library )?general public licen[cs]e"
    r"(?:.{0,200}?version (?P<version>[0-9](?:\.[0-9])?)"
    r"(?P<later>.{0,40}?\b(?:any later version|or later))?)?"
)
_KINDS = {"affero ": "AGPL", "lesser ": "LGPL", "library ": "LGPL"}
_STATED = (
    ("Apache-2.0 WITH LLVM-exception", r"apache license v2\.0 with llvm exceptions"),
    ("Apache-2.0", r"apache license,? (?:version |v)?2\.0(?! with llvm)"),
    ("BSL-1.0", r"boost software license,?(?: -)? version 1\.0"),
    ("MPL-1.1", r"mozilla public license,? v(?:ersion|\.)? ?1\.1|\bmpl 1\.1\b"),
    ("MPL-2.0", r"mozilla public license,? v(?:ersion|\.)? ?2\.0"),
    (
        "MIT",
        r"permission is hereby granted, free of charge, to any person obtaining"
        r"|\bmit licen[cs]ed?\b|licen[cs]e: mit\b",
    ),
    (
        "ISC",
        r"permission to use, copy, modify, and(?: or)? distribute this software for any purpose with or "
        r"without fee",
    ),
    ("SSPL-1.0", r"server side public licen[cs]e"),
    ("LicenseRef-RSALv2", r"redis source available licen[cs]e 2\.0"),
    (
        "BSD-4-Clause",
        r"redistribution and use in source and binary forms(?=.*all advertising materials)",
    ),
    (
        "BSD-3-Clause",
        r"redistribution and use in source and binary forms(?!.*all advertising materials)"
        r"(?=.*(?:endorse or promote|neither the name))",
    ),
    (
        "BSD-2-Clause",
        r"redistribution and use in source and binary forms(?!.*(?:endorse or promote|neither the name))",
    ),
    ("Zlib", r"altered source versions must be plainly marked"),
    ("Unlicense", r"free and unencumbered software released into the public domain"),
    ("CC0-1.0", r"cc0 1\.0 universal|creative commons zero"),
    ("blessing", r"the author disclaims copyright to this source code"),
)
_OTHER = re.compile(r"\blicen[cs]ed under\b|\bterms (?:and conditions )?of the .{0,80}licen[cs]e")
_ELSEWHERE = re.compile(
    r"\b(?:see|found in|governed by|accompanying|provided in) .{0,60}?\b(?:licen[cs]e|copying|copyright)"
)
"""Words that leave the licence to another file, which is the repository's."""
_CHOICE = re.compile(
    r"\bchoice of\b|\balternatively\b|\bdual(?:ly)?[ -]licen[cs]ed\b|\beither of\b|\bof either\b"
    r"|\bat your option\b(?!\W{0,3}any later)"
)
"""Words that leave the choice between licences to the reader."""
UNRECOGNISED = "LicenseRef-unrecognised"
"""The file states a licence in words that aren't known."""
_PATTERNS = tuple((name, re.compile(words)) for name, words in _STATED)


def licence_of(text: str, repository: str | None) -> str | None:
    r"""Return the licence that a file's text states, else `repository: …`; None where neither is known.

    >>> licence_of("// SPDX-License-Identifier: BSL-1.0\\nint a;\\n", "MIT"), licence_of("int a;\\n", "MIT")
    ('BSL-1.0', 'repository: MIT')
    """
    return stated_licence(text[:HEAD_CHARACTERS]) or (repository and f"repository: {repository}")


@lru_cache(maxsize=1024)
def stated_licence(head: str) -> str | None:
    """Return the licences that the comments of a file's head state, or None.

    They are joined by OR where the reader has the choice, else by AND.
    """
    leading = LEADING_COMMENT.match(head)
    assert leading is not None
    comment = leading[0]
    tags = (_expression(tag) for tag in _TAG.findall(comment))
    found = [tag for tag in tags if tag and len(tag) <= MAX_EXPRESSION]
    if found:
        return joined(found)
    words = _MARKS.sub(" ", comment).lower()
    found = [name for name, pattern in _PATTERNS if pattern.search(words)]
    found += _gnu_licences(words)
    if not found and _OTHER.search(words) and not _ELSEWHERE.search(words):
        return UNRECOGNISED
    return " OR ".join(sorted(set(found))) if found and _CHOICE.search(words) else joined(found)


def _expression(tag: str) -> str:
    """Return an SPDX expression in its usual form: operators in capitals, no parentheses around all of it."""
    words = (
        word.upper() if word.lower() in ("and", "or", "with") else word for word in tag.split()
    )
    expression = " ".join(words).rstrip("-:.")
    if expression.count("(") != expression.count(")"):
        return expression.strip("()")
    enclosed = _ENCLOSED.fullmatch(expression)
    return enclosed[1].strip() if enclosed else expression


def _gnu_licences(words: str) -> list[str]:
    """Return the GNU licences of a text; one that is named again with less said of it is the same."""
    named = {_gnu(stated) for stated in _GNU.finditer(words)}
    kinds = {name.partition("-")[0] for name in named if "-" in name}
    later = {name.removesuffix("-or-later") for name in named if name.endswith("-or-later")}
    return [name for name in named if name not in kinds and name.removesuffix("-only") not in later]


def _gnu(stated: re.Match[str]) -> str:
    name = _KINDS.get(stated["kind"] or "", "GPL")
    if stated["version"] is None:
        return name
    version = stated["version"] if "." in stated["version"] else f"{stated['version']}.0"
    return f"{name}-{version}-{'or-later' if stated['later'] else 'only'}"


def joined(licences: list[str]) -> str | None:
    """Join the licences of several texts to one expression, each named once; None without any.

    >>> joined(["MIT", "GPL-2.0-only OR MIT", "MIT"])
    '(GPL-2.0-only OR MIT) AND MIT'
    """
    distinct = sorted(set(licences))
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    return " AND ".join(f"({licence})" if " OR " in licence else licence for licence in distinct)
