"""A tokenizer that preserves every byte: the byte lengths of a text's ids sum to the text's length.

Control tokens are BOS, EOS, sentinels, role markers and every other added token except mere white space. Text
never encodes to control tokens: their text is encoded as plain bytes. Encoding runs on fastokens if its ids
equal those of Hugging Face `tokenizers` on the adversarial texts. Otherwise encoding runs on `tokenizers`,
and the reason is recorded.
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import fastokens
import numpy as np
import numpy.typing as npt
import tokenizers

from curriculum.tokens.admit import controls_of, parse_tokenizer_json
from curriculum.tokens.adversarial import adversarial_texts
from curriculum.tokens.chat_template import CONFIG_NAME, ChatTemplate
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from curriculum.tokens.word_patterns import TAKEN_FOR_SPACE, is_compiled
from schemas.errors import TokenizerError

DocumentTokens = Literal["bos_eos", "bos", "eos", "none"]
ControlRole = Literal[
    "bos", "eos", "pad", "fim_prefix", "fim_middle", "fim_suffix",
    "system", "user", "assistant", "end_of_turn",
]  # fmt: skip

NAMES: Mapping[ControlRole, tuple[str, ...]] = {
    "bos": ("<|bos|>", "<s>", "<|begin_of_text|>", "<|startoftext|>", "<bos>", "[BOS]",
            "<｜begin▁of▁sentence｜>"),
    "eos": ("<|eos|>", "</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "[EOS]",
            "<｜end▁of▁sentence｜>"),
    "pad": ("<|pad|>", "<pad>", "[PAD]", "<|padding|>", "<|finetune_right_pad_id|>", "<｜▁pad▁｜>"),
    "fim_prefix": ("<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<｜fim▁begin｜>"),
    "fim_middle": ("<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<｜fim▁end｜>"),
    "fim_suffix": ("<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<｜fim▁hole｜>"),
    "system": ("<|system|>",),
    "user": ("<|user|>",),
    "assistant": ("<|assistant|>",),
    "end_of_turn": ("<|end_of_turn|>", "<|im_end|>", "<|eot_id|>"),
}  # fmt: skip
"""Texts of the tokens that may have each role.

The first text that the tokenizer has as a token is used. A tokenizer trained here gets the first text.

`<|endoftext|>` ends documents but doesn't begin them: a tokenizer that has only this token has no BOS.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """Tokens that the user assigns to roles; a role that is None gets the first token found in NAMES."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    document_tokens: DocumentTokens = "bos_eos"
    """Control tokens that each document has at its ends, as far as the tokenizer has such tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerSettings:
    """Settings in the manifest of a tokenizer; every tokenizer's manifest has the roles."""

    bos: str | None
    eos: str | None
    pad: str | None
    document_tokens: DocumentTokens
    encodes: bool = True
    """False for a tokenizer.json that no supported engine can load."""

    @property
    def roles(self) -> Roles:
        """Roles of the tokenizer's control tokens."""
        return Roles(bos=self.bos, eos=self.eos, pad=self.pad, document_tokens=self.document_tokens)


def find_roles(controls: Mapping[str, int], roles: Roles, *, name: str) -> dict[ControlRole, int]:
    """Return the id of each role that one of the control tokens has; `controls` are ids by text.

    bos is included only if documents begin with it, and eos only if they end with it. pad defaults to eos,
    and without eos to 0.

    >>> find_roles({"<|endoftext|>": 7, "<|fim_prefix|>": 8}, Roles(), name="t")
    {'eos': 7, 'fim_prefix': 8, 'pad': 7}
    """
    return _as_framed(_all_roles(controls, roles, name=name), roles.document_tokens, name=name)


def _all_roles(controls: Mapping[str, int], roles: Roles, *, name: str) -> dict[ControlRole, int]:
    """Return the id of each role; BOS and EOS are included even if documents don't use them."""
    stated: dict[ControlRole, str | None] = {"bos": roles.bos, "eos": roles.eos, "pad": roles.pad}
    found: dict[ControlRole, int] = {}
    for role, names in NAMES.items():
        given = stated.get(role)
        if given is not None and given not in controls:
            raise TokenizerError(
                name, f"{role} = {given!r}", cause="it has no such added token",
                cure=f"Give one of: {', '.join(sorted(controls)) or 'none, it has no added tokens'}",
            )  # fmt: skip
        known = [
            controls[text] for text in (names if given is None else (given,)) if text in controls
        ]
        if known:
            found[role] = known[0]
    found.setdefault("pad", found.get("eos", 0))
    return found


def _as_framed(
    found: dict[ControlRole, int], document_tokens: DocumentTokens, *, name: str
) -> dict[ControlRole, int]:
    framed = {
        role: token
        for role, token in found.items()
        if role not in ("bos", "eos") or role in document_tokens
    }
    bos = framed.get("bos")
    if bos is not None and bos == framed.get("eos") and bos != framed["pad"]:
        raise TokenizerError(
            name, f"id {bos}", cause="BOS and EOS are the same token, so BOS would not mark a start",
            cure="Set document_tokens to bos or eos",
        )  # fmt: skip
    return framed


Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Encode = Callable[[list[str]], tuple[Ids, Offsets]]
Engine = Literal["fastokens", "tokenizers", "none"]
NO_ENGINE: Engine = "none"
"""Engine of a tokenizer that came with packed rows and can't encode text."""
NOT_COMPILED = (
    "fastokens hasn't compiled the pattern of its words, and takes three times as long or more"
)

_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_HIDDEN = tuple(byte for byte in range(256) if byte not in _PRINTABLE)
BYTE_OF = {chr(byte): byte for byte in _PRINTABLE} | {
    chr(256 + index): byte for index, byte in enumerate(_HIDDEN)
}
"""Byte-level alphabet: the byte that each character of a vocabulary entry stands for."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tokenizer:
    """A tokenizer.json that is proven to preserve every byte of any UTF-8 text.

    It is cheap to pickle and loads in 0.1 s.
    """

    name: str
    json: str = field(repr=False)
    roles: Roles
    chat_template: ChatTemplate | None = field(repr=False)
    """Chat template that came with the tokenizer."""
    vocab_size: int = field(init=False)
    """Largest id plus one."""
    ids_of: dict[ControlRole, int]
    token_bytes: npt.NDArray[np.int32] = field(init=False, repr=False)
    """Number of bytes that each id encodes, 0 for control tokens, [vocab_size]."""
    ends_line: npt.NDArray[np.bool_] = field(init=False, repr=False)
    """True if the id's last byte is a newline, [vocab_size]."""
    mid_character: npt.NDArray[np.bool_] = field(init=False, repr=False)
    """True if the id's first byte continues a character that an earlier id began, [vocab_size]."""
    leading_space: npt.NDArray[np.int32] = field(init=False, repr=False)
    """Number of bytes of leading white space, 0 for ids of white space only, [vocab_size]."""
    engine: Engine
    engine_reason: str
    """Reason why text isn't encoded at full speed; empty if it is."""
    _texts: tuple[bytes, ...] = field(repr=False)
    _controls: dict[int, str] = field(repr=False)
    _encode: Encode = field(repr=False)

    def __post_init__(self) -> None:
        """Derive the arrays that are indexed by id, from the bytes of each id."""
        texts = self._texts
        spaces = [len(text) - len(text.lstrip() or text) for text in texts]
        middles = [bool(text) and text[0] & 0xC0 == 0x80 for text in texts]
        for name, value in {
            "vocab_size": len(texts),
            "token_bytes": np.array([len(text) for text in texts], dtype=np.int32),
            "ends_line": np.array([text.endswith(b"\n") for text in texts], dtype=np.bool_),
            "mid_character": np.array(middles, dtype=np.bool_),
            "leading_space": np.array(spaces, dtype=np.int32),
        }.items():
            object.__setattr__(self, name, value)

    @staticmethod
    def load(path: Path, roles: Roles = Roles()) -> "Tokenizer":
        """Load a tokenizer.json of a workspace, and the chat template in its folder.

        Raises:
            TokenizerError: for an invalid file, and for a tokenizer that loses bytes.
            StoreError: for a file of an artefact that differs from the published one.
        """
        return Tokenizer.from_texts(TokenizerTexts.read(path), roles)

    @staticmethod
    def from_texts(texts: TokenizerTexts, roles: Roles) -> "Tokenizer":
        """Return the tokenizer whose files have already been read as `texts`.

        Raises:
            TokenizerError: as `load`.
        """
        return Tokenizer.parse(texts.json, roles, texts.name, texts.chat_template)

    @staticmethod
    def parse(
        text: str,
        roles: Roles = Roles(),
        name: str = "tokenizer.json",
        chat_template: ChatTemplate | None = None,
    ) -> "Tokenizer":
        """Return the tokenizer whose tokenizer.json has the content `text`.

        Raises:
            TokenizerError: as `load`.
        """
        content = parse_tokenizer_json(text, name)
        controls = controls_of(content)
        bare = json.dumps(_without_controls(content, controls), ensure_ascii=False)
        texts = _token_texts(content, controls)
        trial = adversarial_texts(sorted(controls))
        encode, engine, slow = _choose_engine(bare, trial, name=name)
        if engine == "fastokens" and not is_compiled(content.get("pre_tokenizer")):
            slow = NOT_COMPILED
        _check_round_trip(encode, texts, trial, content, name=name)
        return Tokenizer(
            name=name,
            json=text,
            roles=roles,
            chat_template=chat_template,
            ids_of=find_roles(controls, roles, name=name),
            engine=engine,
            engine_reason=slow,
            _texts=texts,
            _controls={token: control for control, token in controls.items()},
            _encode=encode,
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the tokenizer as its text, because engines can't be sent to other processes."""
        return Tokenizer.parse, (self.json, self.roles, self.name, self.chat_template)

    @property
    def bos_id(self) -> int | None:
        """Id of the token at the beginning of every document; None if documents have none."""
        return self.ids_of.get("bos")

    @property
    def eos_id(self) -> int | None:
        """Id of the token at the end of every document; None if documents have none."""
        return self.ids_of.get("eos")

    @property
    def pad_id(self) -> int:
        """Id of the padding token; without a padding token, the id of EOS; without EOS, 0."""
        return self.ids_of["pad"]

    @property
    def document_tokens(self) -> DocumentTokens:
        """Control tokens that each document has: BOS, EOS, both or none, as far as the tokenizer has them."""
        framed = [role for role in ("bos", "eos") if role in self.ids_of]
        return "_".join(framed) or "none"  # type: ignore[return-value]

    @property
    def document_controls(self) -> dict[ControlRole, int]:
        """Ids of BOS and EOS, if the tokenizer has them, whether or not documents use them."""
        controls = {text: token for token, text in self._controls.items()}
        found = _all_roles(controls, self.roles, name=self.name)
        return {role: token for role, token in found.items() if role in ("bos", "eos")}

    @property
    def special(self) -> npt.NDArray[np.bool_]:
        """True for the ids of control tokens, to which text never encodes, [vocab_size]."""
        special = np.zeros(self.vocab_size, dtype=np.bool_)
        special[list(self._controls)] = True
        return special

    @property
    def sha256(self) -> str:
        """Digest of tokenizer.json."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write tokenizer.json, and tokenizer_config.json if there is a chat template."""
        (folder / "tokenizer.json").write_bytes(self.json.encode())
        if self.chat_template is not None:
            (folder / CONFIG_NAME).write_bytes(self.chat_template.config.encode())

    def encode_batch(self, texts: list[str]) -> tuple[Ids, Offsets]:
        """Return the ids of all texts end to end [n], and their offsets [len(texts) + 1].

        No BOS or EOS is added.
        """
        return self._encode(texts)

    def encode(self, text: str) -> Ids:
        """Return the ids [n] of one text; no BOS or EOS is added."""
        return self._encode([text])[0]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return exactly the bytes that `ids` encode; control tokens encode no bytes."""
        return b"".join([self._texts[token] for token in ids])

    def decode(self, ids: Iterable[int]) -> str:
        """Return text for display, in which control tokens are visible and invalid UTF-8 becomes U+FFFD."""
        shown = (
            self._controls[token].encode() if token in self._controls else self._texts[token]
            for token in ids
        )  # fmt: skip
        return b"".join(shown).decode("utf-8", errors="replace")


def _without_controls(content: dict[str, Any], controls: dict[str, int]) -> dict[str, Any]:
    """Return the content of the tokenizer.json without control tokens, so that text can't encode to them.

    Engines require vocabularies without holes. So control tokens keep their ids as vocabulary entries, whose
    names contain NUL: NUL isn't in the byte-level alphabet, so no text has such a name. Added tokens of white
    space stay in the vocabulary too.
    """
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or ()}
    vocab = {
        f"\0{token}" if text in controls else text: token
        for text, token in {**content["model"]["vocab"], **added}.items()
    }
    kept = [
        token for token in content.get("added_tokens") or () if token["content"] not in controls
    ]
    changed = {"added_tokens": kept, "post_processor": None, "truncation": None, "padding": None}
    return {**content, **changed, "model": {**content["model"], "vocab": vocab}}


def _token_texts(content: dict[str, Any], controls: dict[str, int]) -> tuple[bytes, ...]:
    """Return the bytes that each id encodes.

    Control tokens, unused ids and entries that aren't byte-level encode no bytes.
    """
    vocab: dict[str, int] = content["model"]["vocab"]
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or ()}
    texts = [b""] * (max((*vocab.values(), *added.values()), default=-1) + 1)
    for text, token in vocab.items():
        if text not in controls and BYTE_OF.keys() >= set(text):
            texts[token] = bytes(map(BYTE_OF.__getitem__, text))
    for text, token in added.items():
        texts[token] = b"" if text in controls else text.encode()
    return tuple(texts)


def _choose_engine(bare: str, trial: Sequence[str], *, name: str) -> tuple[Encode, Engine, str]:
    try:
        reference = _reference_engine(bare)
    except Exception as refused:  # the binding raises plain Exception for every load error
        raise TokenizerError(
            name,
            cause=f"tokenizers can't load it ({refused})",
            cure="Give a working tokenizer.json",
        ) from None
    try:
        fast = _exact(_fast_engine(bare), reference)
    except ValueError as refused:
        return reference, "tokenizers", f"fastokens can't load it ({refused})"
    texts = list(trial)
    (ids, offsets), (found, found_offsets) = reference(texts), fast(texts)
    if np.array_equal(ids, found) and np.array_equal(offsets, found_offsets):
        return fast, "fastokens", ""
    different = next(
        text for text in texts if not np.array_equal(reference([text])[0], fast([text])[0])
    )
    return reference, "tokenizers", f"fastokens differs on {different[:40]!r}"


def _exact(fast: Encode, reference: Encode) -> Encode:
    """Return an engine that encodes with `fast`, except batches that contain TAKEN_FOR_SPACE.

    Such batches are encoded with `reference`.
    """

    def encode(texts: list[str]) -> tuple[Ids, Offsets]:
        misread = any(TAKEN_FOR_SPACE in text for text in texts)
        return reference(texts) if misread else fast(texts)

    return encode


def _fast_engine(bare: str) -> Encode:
    engine = fastokens.Tokenizer.from_json_str(bare)

    def encode(texts: list[str]) -> tuple[Ids, Offsets]:
        with _panics_named("a text"):
            ids, offsets = engine.encode_batch_flat(texts)
        return np.frombuffer(ids, dtype=np.int32), np.frombuffer(offsets, dtype=np.int64)

    return encode


def _reference_engine(bare: str) -> Encode:
    with _panics_named("the file"):
        engine = tokenizers.Tokenizer.from_str(bare)

    def encode(texts: list[str]) -> tuple[Ids, Offsets]:
        with _panics_named("a text"):
            found = engine.encode_batch_fast(texts, add_special_tokens=False)
        offsets = np.cumsum([0, *(len(encoding.ids) for encoding in found)], dtype=np.int64)
        ids = np.fromiter(
            (token for encoding in found for token in encoding.ids), np.int32, offsets[-1]
        )
        return ids, offsets

    return encode


@contextlib.contextmanager
def _panics_named(at: str) -> Iterator[None]:
    """Turn an engine's panic in the `with` block into a TokenizerError; `at` says what was being done.

    An engine panics, for example, if a regular expression exceeds its limit.

    Raises:
        TokenizerError: for a file that can't be loaded, and a text that can't be encoded.
    """
    try:
        yield
    except BaseException as failed:
        # Rust's panics don't derive from Exception, and their class can't be imported.
        is_panic = type(failed).__name__ == "PanicException"
        if not is_panic and not isinstance(failed, RuntimeError | ValueError):
            raise
        raise TokenizerError(
            "tokenizer.json",
            _short(str(failed)),
            cause=f"its engine failed on {at}",
            cure="Fix tokenizer.json, or train a tokenizer: curriculum tokenizer train",
        ) from None


def _check_round_trip(
    encode: Encode,
    texts: tuple[bytes, ...],
    trial: Sequence[str],
    content: dict[str, Any],
    *,
    name: str,
) -> None:
    ids, offsets = encode(list(trial))
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < len(texts):
        raise TokenizerError(
            name,
            f"id {int(ids.max())}",
            cause=f"its engine returned an id outside of its vocabulary of {len(texts)}",
            cure="Fix tokenizer.json, or train a tokenizer: curriculum tokenizer train",
        )
    for index, text in sorted(enumerate(trial), key=lambda item: len(item[1])):
        back = b"".join([texts[token] for token in ids[offsets[index] : offsets[index + 1]]])
        if back != text.encode():
            raise TokenizerError(
                name,
                f"{_short(text)} comes back as {_short(back.decode(errors='replace'))}",
                cause=_why_lossy(content),
                cure="Fix tokenizer.json, or train a tokenizer: curriculum tokenizer train",
            )


def _short(text: str) -> str:
    shown = ascii(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def _why_lossy(content: dict[str, Any]) -> str:
    """Return the most likely reason why the tokenizer loses bytes, from the content of its file."""
    normalizer = content.get("normalizer")
    before = json.dumps(content.get("pre_tokenizer"))
    if normalizer is not None:
        return (
            f'its normalizer ({normalizer.get("type")}) changes text; "normalizer": null would not'
        )
    if '"add_prefix_space": true' in before or "Metaspace" in before:
        return "its pre-tokenizer puts a space in front"
    if "ByteLevel" not in before:
        return "it isn't byte-level"
    return "its vocabulary doesn't have every byte"
