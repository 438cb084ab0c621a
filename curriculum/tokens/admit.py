"""The content of a tokenizer.json: byte-level BPE whose ids are those that tokenizers gives.

What a file makes its engine do is bounded where it comes in: see curriculum/foreign_tokenizers.py.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import TokenizerError
from schemas.json_text import parse_json
from schemas.text import Whole

MAX_VOCABULARY = 1 << 21
"""Ids; the largest in use has a million."""
_NORMALIZERS = frozenset(
    ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents", "ByteLevel")
)
"""Normalizers of which a trial shows whether they keep bytes: none has texts of its own."""
_Id = Annotated[Whole, Field(ge=0, lt=MAX_VOCABULARY)]


class _Described(BaseModel):
    """A part of the file; fields that aren't declared are for the engine."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Added(_Described):
    id: _Id
    content: Annotated[str, Field(min_length=1)]


class _Model(_Described):
    type: str
    vocab: dict[str, _Id]
    dropout: float | None = None


class _File(_Described):
    added_tokens: tuple[_Added, ...] | None = None
    normalizer: dict[str, Any] | None = None
    pre_tokenizer: dict[str, Any] | None = None
    decoder: dict[str, Any] | None = None
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
    algorithm, dropout = model.get("type"), model.get("dropout")
    if algorithm != "BPE" or dropout:
        raise TokenizerError(
            name, f"model {_short(algorithm)}, dropout {_short(dropout)}",
            cause="only BPE without dropout keeps promises",
            cure="Give a byte-level BPE, or train one: curriculum tokenizer train",
        )  # fmt: skip
    require_numbered(content, name)
    for kind in _kinds(content.get("normalizer")):
        if kind not in _NORMALIZERS:
            cause = f'its normalizer ({_short(kind)}) may change text; "normalizer": null would not'
            raise _refused(name, None, cause)
    found: dict[str, Any] = content
    return found


def require_numbered(content: dict[str, Any], name: str) -> None:
    """Raise unless each piece and added token has an id of its own, the one that tokenizers gives it.

    Raises:
        TokenizerError: naming the file and the first fault.
    """
    try:
        described = _File.model_validate(content)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        place = ".".join(_short(each) for each in first["loc"])
        raise _refused(name, place, first["msg"]) from None
    _require_distinct(described, name)
    _require_given_ids(described, name)


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


def _require_given_ids(described: _File, name: str) -> None:
    """Refuse added tokens that tokenizers numbers otherwise: from the vocabulary's end on, in their order."""
    vocab = described.model.vocab
    highest = len(vocab) - 1
    for token in described.added_tokens or ():
        given = vocab.get(token.content, highest + 1)
        if given != token.id:
            raise TokenizerError(
                name, f"added token {_short(token.content)} has id {token.id}",
                cause=f"tokenizers gives it id {given}: a token that the vocabulary lacks gets the next free "
                "id, and no id is left out",
                cure="Add the tokens whose ids are missing, or give the file that the rows were made with",
            )  # fmt: skip
        highest = max(highest, given)


def _kinds(part: object) -> Iterator[str]:
    """The types of a normalizer and of those in its sequences."""
    if isinstance(part, dict) and part.get("type") == "Sequence":
        listed = part.get("normalizers")
        for inner in listed if isinstance(listed, list) else ():
            yield from _kinds(inner)
    elif part is not None:
        yield str(part.get("type")) if isinstance(part, dict) else str(part)


def _refused(name: str, value: str | None, cause: str) -> TokenizerError:
    return TokenizerError(
        name, value, cause=cause,
        cure="Give a byte-level BPE of Hugging Face tokenizers, or train one: curriculum tokenizer train",
    )  # fmt: skip


def _short(value: object) -> str:
    shown = ascii(value).strip("'") if isinstance(value, str) else ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"
