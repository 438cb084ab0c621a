"""Encodings of source text: UTF-8, UTF-16 and UTF-32 with a byte order mark, and some legacy encodings.

    charset-normalizer   finds the encodings that decode the non-ASCII lines to clean text
    script check         checks whether the text is plausible in the encoding's script: common characters,
                         punctuation at the right ends of words, only ASCII outside comments and literals

A text counts as undecodable if it is plausible in two encodings or too short to tell. A skipped file is
better than garbled text.
"""

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from charset_normalizer import from_bytes

from curriculum.corpus.code_marks import replace_marks

MARKS = (
    (codecs.BOM_UTF32_LE, "utf_32_le"),
    (codecs.BOM_UTF32_BE, "utf_32_be"),
    (codecs.BOM_UTF16_LE, "utf_16_le"),
    (codecs.BOM_UTF16_BE, "utf_16_be"),
)
"""Byte order marks with their encodings.

UTF-32 comes first, because its mark begins with the mark of UTF-16.
"""
UTF8 = "utf_8"
MIN_COMMON_SHARE = 0.9
"""Minimum share of common characters of a script among the non-ASCII characters of a text."""
MIN_IDEOGRAPHS, MIN_HANGUL, MIN_CYRILLIC, MIN_WESTERN = 10, 10, 24, 8
"""Minimum number of characters of each script in a text.

Fewer characters are often valid in another encoding, too.
"""
MIN_KANA_SHARE, MIN_HANGUL_SHARE = 0.15, 0.8
"""Minimum share of kana in a Japanese text, and of hangul in a Korean text; punctuation counts."""
MIN_FREQUENT_SHARE = 0.6
"""Minimum share of the eleven most frequent letters in a Russian text; the usual share is 0.7."""
_FREE = re.compile(rb"//|/\*|#|\"|'")
"""Pattern of the beginnings of comments, literals and directives such as #error.

The text in them may be in any language.
"""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd\ue000-\uf8ff]")
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_RUN = re.compile(r"[^\x00-\x7f]+")
_LATIN = re.compile(r"[a-zA-Z]")
_FREQUENT = frozenset("оеаинтсрвлк")
_RUSSIAN = re.compile(r"[а-яё]", re.IGNORECASE)
_NOT_RUSSIAN = re.compile(r"[а-яё][А-ЯЁ]|[a-zA-Z][а-яёА-ЯЁ]|[а-яёА-ЯЁ][a-zA-Z]")
_RUSSIAN_SIGNS = frozenset("«»—–…№°©\u00a0")
_SHARED = frozenset("öüßéóúÄÜÉ")
"""Letters whose bytes are no plausible letters in other European encodings."""
_ALPHABETS = tuple(
    frozenset(letters + letters.upper())
    for letters in ("äöüß", "äöåé", "æøåé", "àâçèéêëîïôùûüœ", "áéíñóúü¡¿", "ãõáéíóúâêôàç", "àèéìòù")
)
"""Non-ASCII letters of western languages.

In this order: German, Swedish and Finnish, Danish and Norwegian, French, Spanish, Portuguese, Italian.
Icelandic is left out, because its letters have the same bytes as those of Turkish in another encoding.
"""
_WESTERN_PAIRS = ("çã", "çõ", "öß", "üß", "äß", "éé")
_SIGNS = frozenset("©®™°±²³µ§«»“”„‘’–—…•£€¥×÷¼½¾\u00a0")
_NOT_WESTERN = re.compile(
    r"[ãõÃÕ](?![oeOE])"
    r"|[”»²³±§£€¥÷¼½¾•©®™×–—](?=[^\W\d_])|°(?=[^\W\d_])(?![CFK]\b)|µ(?![smFAVWgl]\b)(?=\w)"
    r"|(?<=[^\W\d_])(?:[“«„‘•§£€¥÷¼½¾±©\u00a0–—]|’(?!(?:s|t|re|ve|ll|d|m)\b))"
    r"|(?<![\w)])[²³]|(?<![\w.,)\"'])…(?!\w)|(?<=[a-zà-ÿ])[À-Þ]"
)
"""Pattern of signs that a text has another encoding.

They are impossible pairs of letters, and punctuation inside of words or at their wrong end.
"""
_UNCERTAIN = frozenset("…\u00a0")
"""Characters that aren't evidence on their own: in DOS encodings, their bytes are letters that end words."""
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodedSource:
    """Text of a source file, and the encoding that the file has."""

    text: str
    encoding: str


def is_marked(raw: bytes) -> bool:
    """Return True if the bytes begin with the byte order mark of UTF-16 or UTF-32."""
    return raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))


def as_utf8(raw: bytes) -> bytes:
    """Return the text of a source file as UTF-8; if the encoding is ambiguous, return the bytes unchanged."""
    decoded = None if raw.isascii() else decode_source(raw)
    return raw if decoded is None else decoded.text.encode()


def decode_source(raw: bytes) -> DecodedSource | None:
    r"""Decode a source file and remove its byte order mark; return None if the encoding is ambiguous.

    >>> decode_source(b"int a;\n").encoding, decode_source("\ufeffint a;\n".encode("utf-16-le")).encoding
    ('utf_8', 'utf_16_le')
    >>> decode_source(b"// \xa9 2010\n").text, decode_source(b"// \xe9\xe8\xf8\xfe\n")
    ('// © 2010\n', None)
    """
    for mark, encoding in MARKS:
        if raw.startswith(mark):
            return _strict(raw[len(mark) :], encoding)
    return _strict(raw.removeprefix(codecs.BOM_UTF8), UTF8) or _older(raw)


def _strict(raw: bytes, encoding: str) -> DecodedSource | None:
    try:
        return DecodedSource(text=raw.decode(encoding), encoding=encoding)
    except UnicodeDecodeError:
        return None


Verdict = Literal["other", "possible", "certain"]


def _older(raw: bytes) -> DecodedSource | None:
    """Decode with the only legacy encoding that gives plausible text; None if there isn't exactly one."""
    found: dict[str, tuple[str, Verdict]] = {}
    for encoding in _readable(raw):
        decoded = _strict(raw, encoding)
        if decoded is None or _CONTROL.search(decoded.text):
            continue
        if not replace_marks(decoded.text.encode(), _FREE, lambda _: b"").isascii():
            continue
        verdict = _SCRIPTS[encoding](decoded.text)
        if verdict != "other":
            found.setdefault(decoded.text, (encoding, verdict))
    if len(found) != 1:
        return None
    ((text, (encoding, verdict)),) = found.items()
    return DecodedSource(text=text, encoding=encoding) if verdict == "certain" else None


def _readable(raw: bytes) -> list[str]:
    lines = [line for line in raw.splitlines() if not line.isascii()]
    matches = from_bytes(b"\n".join(lines), cp_isolation=list(_SCRIPTS), preemptive_behaviour=False)
    read = {name for match in matches for name in match.could_be_from_charset}
    return [encoding for encoding in _SCRIPTS if encoding in read]


def _verdict(*, possible: bool, certain: bool) -> Verdict:
    return "other" if not possible else "certain" if certain else "possible"


def _western(text: str) -> Verdict:
    """Judge whether a text is in a western language, by its letters and punctuation.

    All letters must belong to one language, and nearly every non-ASCII character must be between ASCII
    characters.
    """
    foreign = _FOREIGN.findall(text)
    letters = [character for character in foreign if character not in _SIGNS]
    is_language = any(alphabet.issuperset(letters) for alphabet in _ALPHABETS)
    runs = [run for run in _RUN.findall(text) if run not in _WESTERN_PAIRS]
    pairs = sum(len(run) > 1 for run in runs)
    is_sparse = max(map(len, runs), default=1) <= 2 and pairs * 4 <= len(runs)
    few = (
        _SHARED.issuperset(letters)
        and not _UNCERTAIN.issuperset(foreign)
        and all(map(_LATIN.search, _WORD.findall(text)))
    )
    many = len(letters) >= MIN_WESTERN and len(set(letters)) > 1
    return _verdict(
        possible=is_language and is_sparse and not _NOT_WESTERN.search(text), certain=few or many
    )


def _russian(text: str) -> Verdict:
    foreign = _FOREIGN.findall(text)
    letters = _RUSSIAN.findall(text)
    small = sum(letter.islower() for letter in letters)
    frequent = sum(letter.lower() in _FREQUENT for letter in letters)
    others = [character for character in foreign if not _RUSSIAN.match(character)]
    return _verdict(
        possible=len(letters) > 1
        and _RUSSIAN_SIGNS.issuperset(others)
        and small > len(letters) / 2
        and _NOT_RUSSIAN.search(text) is None,
        certain=len(letters) >= MIN_CYRILLIC and frequent >= MIN_FREQUENT_SHARE * len(letters),
    )


def _chinese(encoding: str, codec: str, leads: tuple[range, ...]) -> Callable[[str], Verdict]:
    def judge(text: str) -> Verdict:
        foreign = _FOREIGN.findall(text)
        ideographs = sum("\u4e00" <= character <= "\u9fff" for character in foreign)
        return _verdict(
            possible=_share(foreign, _characters(codec, leads)) >= MIN_COMMON_SHARE
            and not _is_other_script(text.encode(encoding)),
            certain=ideographs >= MIN_IDEOGRAPHS,
        )

    return judge


def _japanese(text: str) -> Verdict:
    foreign = _FOREIGN.findall(text)
    kana = sum("\u3041" <= character <= "\u30fe" for character in foreign)
    common = _characters("euc_jp", (range(0xA1, 0xA9), range(0xB0, 0xD0)))
    return _verdict(
        possible=kana >= MIN_KANA_SHARE * len(foreign)
        and _share(foreign, common) >= MIN_COMMON_SHARE,
        certain=len(foreign) >= MIN_IDEOGRAPHS,
    )


def _korean(text: str) -> Verdict:
    foreign = _FOREIGN.findall(text)
    common = _characters("euc_kr", (range(0xA1, 0xA4), range(0xB0, 0xC9)))
    hangul = [character for character in foreign if "\uac00" <= character <= "\ud7a3"]
    return _verdict(
        possible=len(hangul) >= MIN_HANGUL_SHARE * len(foreign)
        and _share(foreign, common) >= MIN_COMMON_SHARE,
        certain=len(hangul) >= MIN_HANGUL,
    )


def _is_other_script(raw: bytes) -> bool:
    """Return True if bytes that decode as Chinese decode also as Korean or Japanese.

    The text is then Korean or Japanese.
    """
    korean, japanese = _strict(raw, "cp949"), _strict(raw, "euc_jp")
    return (korean is not None and _korean(korean.text) != "other") or (
        japanese is not None and _japanese(japanese.text) != "other"
    )


def _share(characters: list[str], common: frozenset[str]) -> float:
    return sum(character in common for character in characters) / len(characters)


@cache
def _characters(codec: str, leads: tuple[range, ...]) -> frozenset[str]:
    """Return the characters of a double-byte encoding whose first byte is in one of the ranges `leads`."""
    pairs = (bytes((lead, trail)) for row in leads for lead in row for trail in range(0x40, 0xFF))
    return frozenset("".join(pair.decode(codec, errors="ignore") for pair in pairs))


_SCRIPTS: Mapping[str, Callable[[str], Verdict]] = {
    "cp1252": _western,
    "cp1251": _russian,
    "koi8_r": _russian,
    "cp866": _russian,
    "cp932": _japanese,
    "euc_jp": _japanese,
    "cp949": _korean,
    "gb18030": _chinese("gb18030", "gb2312", (range(0xA1, 0xA4), range(0xB0, 0xD8))),
    "big5": _chinese("big5", "big5", (range(0xA1, 0xC7),)),
}
"""Legacy encodings that are tried, each with the function that checks the script."""
