"""Copyright holders that comments and licence files name, normalised so that names can be compared."""

import re

_YEARS = r"(?:\d{4}(?:[ \t]*(?:-|–|,|to)[ \t]*(?:\d{2,4}|present|now|today))*[ \t,.:]*)*"
_NAMED = re.compile(
    r"(?:SPDX-FileCopyrightText:[ \t]*(?:copyright\b[ \t]*)?(?:\(c\)|©)?"
    r"|\bcopyrights?\b[ \t:]*(?:\(c\)|©|&copy;)"
    r"|(?:\(c\)|©)(?:[ \t]*copyright\b|(?=[ \t]*\d{4}))"
    r"|\bcopyrights?\b[ \t:]*(?=\d{4}|by\b)"
    r"|^[^\w\n]*copyright\b(?=[ \t]+(?-i:[A-Z])))"
    rf"[ \t,:]*{_YEARS}(?:and onwards[ \t]*)?(?:by\b[ \t]*)?(?P<name>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_END = re.compile(
    r"[ \t]*(?:[<(\[|;\"]|\*/|https?:|(?<!\S)\S[^\s@]*+@\S|[ \t]{3,}|\b(?:all )?rights? reserved\b"
    r"|\blicen[cs]ed\b|\bdistributed\b|\bunder the\b|\bpermission\b|\bsee\b|\bet al\b|\band others\b"
    r"|\b(?:19|20)\d{2}\b|\bthis (?:file|program)\b|\bfor the\b|\.[ \t]+(?:this|the|all|see|use)\b)",
    re.IGNORECASE,
)
"""Pattern of what follows the name of a holder: an address, a year, or usual words."""
_SUFFIX = re.compile(
    r"(?<![\s,])[\s,]++"
    r"(?:and|and (?:its )?affiliates|inc|llc|ltd|limited|corp|corporation|gmbh|co|ab|s\.?a|plc)\.?$",
    re.IGNORECASE,
)
MAX_HOLDER_LINE_CHARACTERS = 1_000
"""Maximum characters from the start of a name to the end of its line; a longer text is prose."""
_NO_NAMES = frozenset(("and", "notice", "notices", "holder", "holders", "owner", "owners"))
"""Words that follow `Copyright` in headings and conditions and are no names."""
MAX_HOLDER_CHARACTERS = 100
"""Maximum characters of a name; a longer text is prose."""


def holder_in(text: str) -> str | None:
    """Return the first copyright holder named in a text, or None.

    Years, addresses and legal forms of companies are removed.

    >>> holder_in("// Copyright (c) 2003-2024 Google, Inc. All rights reserved.")
    'Google'
    >>> holder_in("# Copyright Louis Dionne 2013-2022"), holder_in("retain the above copyright notice")
    ('Louis Dionne', None)
    """
    for named in _NAMED.finditer(text):
        name = _normalized(named["name"])
        if name:
            return name
    return None


def _normalized(name: str) -> str | None:
    end = _END.search(name)
    if end is not None:
        name = name[: end.start()]
    name = " ".join(name.split()).strip(" ,.-:*/#'@")
    if len(name) > MAX_HOLDER_LINE_CHARACTERS:
        return None
    shorter = _SUFFIX.sub("", name)
    while shorter != name:
        name, shorter = shorter, _SUFFIX.sub("", shorter)
    is_name = 0 < len(name) <= MAX_HOLDER_CHARACTERS and any(letter.isalpha() for letter in name)
    return name if is_name and name.split()[0].lower() not in _NO_NAMES else None
