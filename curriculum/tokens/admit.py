"""The content of a tokenizer.json, admitted before an engine sees it.

Engines expand what they are given, run its regular expressions with backtracking, and panic at the rest.
Admitted are byte-level BPE models of a bounded vocabulary, made of parts that neither multiply text nor
take more than the square of its length.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from curriculum.tokens.patterns import PatternError, require_bounded
from schemas.errors import TokenizerError
from schemas.json_text import parse_json
from schemas.text import Whole

LARGEST_VOCABULARY = 1 << 21
"""Ids; the largest in use has a million."""
MOST_ADDED, LONGEST_ADDED = 1 << 16, 256
"""Added tokens, and characters of one."""
MOST_PARTS = 16
"""Normalizers and pre-tokenizers, each on its own."""
_GROWING = {"ByteLevel", "Metaspace"}
"""Parts that make text longer, so that one of a kind is admitted."""
_PARTS: Mapping[str, frozenset[str]] = {
    "normalizer": frozenset(
        ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents", "ByteLevel")
    ),
    "pre_tokenizer": frozenset(
        (
            *("BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength", "Metaspace"),
            *("Punctuation", "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit"),
        )
    ),
}  # fmt: skip
"""The parts whose work is bounded; whether they keep bytes is found by trial."""
_INNER = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}
_Id = Annotated[Whole, Field(ge=0, lt=LARGEST_VOCABULARY)]
_Part = dict[str, Any]


class _Described(BaseModel):
    """A part of the file; fields that aren't declared are for the engine."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Added(_Described):
    id: _Id
    content: Annotated[str, Field(min_length=1, max_length=LONGEST_ADDED)]


class _Model(_Described):
    type: str
    vocab: dict[str, _Id]
    dropout: float | None = None


class _File(_Described):
    added_tokens: Annotated[tuple[_Added, ...], Field(max_length=MOST_ADDED)] | None = None
    normalizer: _Part | None = None
    pre_tokenizer: _Part | None = None
    decoder: _Part | None = None
    model: _Model


def admitted(text: str, name: str) -> dict[str, Any]:
    """The content of a tokenizer.json of a BPE model that always gives the same ids.

    Raises:
        TokenizerError: for any other file, with its first fault.
    """
    try:
        content = parse_json(text)
    except ValueError as broken:
        raise _refused(name, None, f"it is no JSON file that is read ({broken})") from None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        raise _refused(name, None, "it isn't a tokenizer.json of Hugging Face tokenizers")
    kind, dropout = model.get("type"), model.get("dropout")
    if kind != "BPE" or dropout:
        raise TokenizerError(
            name, f"model {_short(kind)}, dropout {_short(dropout)}",
            cause="only BPE without dropout keeps promises",
            cure="Give a byte-level BPE, or train one: curriculum tokenizer train",
        )  # fmt: skip
    try:
        described = _File.model_validate(content)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        place = ".".join(_short(each) for each in first["loc"])
        raise _refused(name, place, first["msg"]) from None
    _require_distinct(described, name)
    for field in _PARTS:
        _require_parts(field, content.get(field), name)
    for pattern in _patterns({key: value for key, value in content.items() if key != "model"}):
        try:
            require_bounded(pattern)
        except PatternError as unbounded:
            raise _refused(name, f"the pattern {_short(pattern)}", str(unbounded)) from None
    found: dict[str, Any] = content
    return found


def controls_of(content: dict[str, Any]) -> dict[str, int]:
    """Text → id of every added token that isn't mere whitespace, whether flagged special or not.

    Foreign files flag sentinels such as <|fim_prefix|> as ordinary; runs of spaces are ordinary text.
    """
    added = content.get("added_tokens") or ()
    return {token["content"]: token["id"] for token in added if token["content"].strip()}


def _require_distinct(described: _File, name: str) -> None:
    vocab = described.model.vocab
    if len(set(vocab.values())) < len(vocab):
        raise _refused(name, "model.vocab", "two of its tokens have one id")
    added = described.added_tokens or ()
    for what in ([each.id for each in added], [each.content for each in added]):
        if len(set(what)) < len(what):
            raise _refused(name, "added_tokens", "two of them have one id, or one text")


def _require_parts(field: str, part: _Part | None, name: str) -> None:
    kinds = [*_kinds(part, _INNER[field])]
    for kind in kinds:
        if kind not in _PARTS[field]:
            words = f"its {field.replace('_', '-')} ({_short(kind)}) may change or multiply text"
            raise _refused(name, None, f'{words}; "{field}": null would not')
    several = next((kind for kind in _GROWING if kinds.count(kind) > 1), None)
    if several is not None or len(kinds) > MOST_PARTS:
        found = f"{kinds.count(several)} × {several}" if several else f"{len(kinds)} parts"
        raise _refused(name, f"{field}: {found}", "their work multiplies")


def _kinds(part: object, inner: str) -> Iterator[str]:
    """The types of a part and of those in its sequences."""
    if isinstance(part, dict) and part.get("type") == "Sequence":
        listed = part.get(inner)
        for each in listed if isinstance(listed, list) else ():
            yield from _kinds(each, inner)
    elif part is not None:
        yield str(part.get("type")) if isinstance(part, dict) else str(part)


def _patterns(value: object) -> Iterator[str]:
    """Every regular expression below a value."""
    if isinstance(value, dict):
        pattern = value.get("Regex")
        if isinstance(pattern, str):
            yield pattern
        for each in value.values():
            yield from _patterns(each)
    elif isinstance(value, list):
        for each in value:
            yield from _patterns(each)


def _refused(name: str, value: str | None, cause: str) -> TokenizerError:
    return TokenizerError(
        name, value, cause=cause,
        cure="Give a byte-level BPE of Hugging Face tokenizers, or train one: curriculum tokenizer train",
    )  # fmt: skip


def _short(value: object) -> str:
    shown = ascii(value).strip("'") if isinstance(value, str) else ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
