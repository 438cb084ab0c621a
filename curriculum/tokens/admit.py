"""Checks of a tokenizer.json: it must be a byte-level BPE with the same ids as in Hugging Face tokenizers.

curriculum/foreign_tokenizers.py limits the time and memory that loading a file can take.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import TokenizerError
from schemas.json_text import parse_json
from schemas.text import Whole

MAX_VOCABULARY = 1 << 21
"""Maximum number of ids; the largest vocabulary in use has a million."""
_NORMALIZERS = frozenset(
    ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Strip", "StripAccents", "ByteLevel")
)
"""Normalizers that can't insert texts from the file; a trial shows whether they preserve bytes."""
_Id = Annotated[Whole, Field(ge=0, lt=MAX_VOCABULARY)]


class _Described(BaseModel):
    """Base of the models for parts of the file; fields that they don't declare are left to the engine."""

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


def parse_tokenizer_json(text: str, name: str) -> dict[str, Any]:
    """Return the content of a tokenizer.json, given as `text`, if its model is a deterministic BPE.

    Raises:
        TokenizerError: for any other file; the error names the first fault.
    """
    try:
        content = parse_json(text)
    except ValueError as broken:
        raise _refused(name, None, f"it can't be parsed as JSON ({broken})") from None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        raise _refused(name, None, "it isn't a tokenizer.json of Hugging Face tokenizers")
    algorithm, dropout = model.get("type"), model.get("dropout")
    if algorithm != "BPE" or dropout:
        raise TokenizerError(
            name, f"model {_short(algorithm)}, dropout {_short(dropout)}",
            cause="only BPE without dropout always gives the same ids",
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
    """Raise unless all pieces and added tokens have distinct ids, and the ids that Hugging Face assigns.

    Raises:
        TokenizerError: naming the file and the first fault.
    """
    try:
        described = _File.model_validate(content)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        place = ".".join(_short(step) for step in first["loc"])
        raise _refused(name, place, first["msg"]) from None
    _require_distinct(described, name)
    _require_given_ids(described, name)


def controls_of(content: dict[str, Any]) -> dict[str, int]:
    """Return the id of every control token by its text.

    Every added token is a control token, unless it consists of white space only. The flag `special` is
    ignored, because foreign files don't set it for sentinels such as <|fim_prefix|>.
    """
    added = content.get("added_tokens") or ()
    return {token["content"]: token["id"] for token in added if token["content"].strip()}


def _require_distinct(described: _File, name: str) -> None:
    vocab = described.model.vocab
    if len(set(vocab.values())) < len(vocab):
        raise _refused(name, "model.vocab", "two of its tokens have the same id")
    added = described.added_tokens or ()
    for values in ([token.id for token in added], [token.content for token in added]):
        if len(set(values)) < len(values):
            raise _refused(name, "added_tokens", "two of them have the same id or the same text")


def _require_given_ids(described: _File, name: str) -> None:
    """Raise if an added token doesn't have the id that Hugging Face tokenizers assigns.

    Tokens that are missing from the vocabulary get consecutive ids after those of the vocabulary.
    """
    vocab = described.model.vocab
    highest = len(vocab) - 1
    for token in described.added_tokens or ():
        given = vocab.get(token.content, highest + 1)
        if given != token.id:
            raise TokenizerError(
                name, f"added token {_short(token.content)} has id {token.id}",
                cause=f"tokenizers would give it id {given}: added tokens that are missing from the "
                "vocabulary get consecutive ids",
                cure="Add the tokens whose ids are missing, or give the file that the rows were made with",
            )  # fmt: skip
        highest = max(highest, given)


def _kinds(part: object) -> Iterator[str]:
    """Yield the type of a normalizer; for a sequence of normalizers, yield their types instead."""
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
