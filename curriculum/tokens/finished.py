"""Tokenizers that only decode: the bytes and control tokens of the ids in rows that are already packed.

Packed rows need no text to be encoded. So for such rows, tokenizers that alter text are accepted too, for
example with a normalizer or a prepended space. Nothing in the file is executed.

    piece of a byte-level BPE            Ġint  -> " int"
    of SentencePiece, BPE or Unigram     ▁int  -> " int",    <0x0A> -> a line feed
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from curriculum.tokens.admit import controls_of, require_numbered
from curriculum.tokens.codec import (
    BYTE_OF,
    NO_ENGINE,
    Encode,
    Ids,
    Offsets,
    Roles,
    Tokenizer,
    find_roles,
)
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from schemas.cures import tokenizer_file
from schemas.errors import TokenizerError
from schemas.json_text import parse_json

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "▁"
_KINDS = ("BPE", "Unigram")
"""Types of models whose pieces determine the bytes of their ids."""


def pieces_of(text: str) -> dict[str, Any] | None:
    """Return the content of a tokenizer.json whose vocabulary consists of pieces; None for other models."""
    try:
        content = parse_json(text)
    except ValueError:
        return None
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(model, dict):
        return None
    vocab = model.get("vocab")
    if isinstance(vocab, list) and all(isinstance(pair, list) and pair for pair in vocab):
        vocab = {str(pair[0]): number for number, pair in enumerate(vocab)}
    if model.get("type", "BPE") not in _KINDS or not isinstance(vocab, dict):
        return None
    return {**content, "model": {**model, "type": "BPE", "vocab": vocab}}


def decoding_tokenizer(texts: TokenizerTexts, roles: Roles, reason: str) -> Tokenizer:
    """Return a tokenizer that decodes ids but can't encode text; `reason` says why it can't.

    Raises:
        TokenizerError: for a model whose pieces don't determine bytes.
    """
    content = pieces_of(texts.json)
    if content is None:
        raise TokenizerError(
            texts.name,
            cause="its pieces don't determine the bytes that they stand for",
            cure=tokenizer_file(texts.name),
        )
    require_numbered(content, texts.name)
    controls = controls_of(content)
    pieces = _texts(content, controls)
    return Tokenizer(
        name=texts.name,
        json=texts.json,
        roles=roles,
        chat_template=texts.chat_template,
        ids_of=find_roles(controls, roles, name=texts.name),
        engine=NO_ENGINE,
        engine_reason=reason,
        _texts=pieces,
        _controls={token: text for text, token in controls.items()},
        _encode=_refusing(texts.name, reason),
    )


def _texts(content: dict[str, Any], controls: dict[str, int]) -> tuple[bytes, ...]:
    """Return the bytes that each id encodes; control tokens and unused ids encode no bytes."""
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or ()}
    vocab: dict[str, int] = {**content["model"]["vocab"], **added}
    is_byte_level = "ByteLevel" in json.dumps(
        [content.get("pre_tokenizer"), content.get("decoder")]
    )
    texts = [b""] * (max(vocab.values(), default=-1) + 1)
    for piece, token in vocab.items():
        if piece in controls:
            continue
        if piece in added:
            texts[token] = piece.encode()
        elif is_byte_level:
            texts[token] = bytes(BYTE_OF[letter] for letter in piece if letter in BYTE_OF)
        elif byte := _BYTE.fullmatch(piece):
            texts[token] = bytes([int(byte[1], 16)])
        else:
            texts[token] = piece.replace(_SPACE, " ").encode()
    return tuple(texts)


def _refusing(name: str, cause: str) -> Encode:
    def encode(texts: Sequence[str]) -> tuple[Ids, Offsets]:
        raise TokenizerError(
            name,
            cause=f"it came with finished rows and can't encode text here: {cause}",
            cure="Build with another tokenizer, or train one: curriculum tokenizer train",
        )

    return encode
