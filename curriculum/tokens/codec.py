"""A tokenizer that preserves every byte: the byte lengths of a text's ids sum to the text's length.

Control tokens (bos, eos, sentinels, role markers: every added token except mere whitespace) never result
from text: their text is encoded as plain bytes. Encoding runs on fastokens if it equals Hugging Face
`tokenizers` on the adversarial texts, otherwise on `tokenizers`, with the reason.
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
"""Names of each role; the first one found is used, and a trained tokenizer gets the first name.

`<|endoftext|>` ends documents but doesn't begin them: a tokenizer that has only this token has no BOS."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """Token roles set by the user; None selects a token by the names in NAMES."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    document_tokens: DocumentTokens = "bos_eos"
    """Control tokens around a document, as far as the tokenizer has them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerSettings:
    """Settings in the manifest of a tokenizer; every producer writes the roles."""

    bos: str | None
    eos: str | None
    pad: str | None
    document_tokens: DocumentTokens
    encodes: bool = True
    """False for a tokenizer.json that no supported engine can load."""

    @property
    def roles(self) -> Roles:
        """Roles of its tokens."""
        return Roles(bos=self.bos, eos=self.eos, pad=self.pad, document_tokens=self.document_tokens)


def find_roles(controls: Mapping[str, int], roles: Roles, *, name: str) -> dict[ControlRole, int]:
    """Return the id of each role found among the control tokens (text → id); pad defaults to eos, then 0.

    bos is included only if documents begin with it, eos only if they end with it.

    >>> find_roles({"<|endoftext|>": 7, "<|fim_prefix|>": 8}, Roles(), name="t")
    {'eos': 7, 'fim_prefix': 8, 'pad': 7}
    """
    return _as_framed(_all_roles(controls, roles, name=name), roles.document_tokens, name=name)


def _all_roles(controls: Mapping[str, int], roles: Roles, *, name: str) -> dict[ControlRole, int]:
    """Return the id of each role, including BOS and EOS that documents don't use."""
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
"""Byte-level alphabet: the byte of each character in a vocabulary entry."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Tokenizer:
    """A tokenizer.json proven to preserve every byte of any UTF-8 text; cheap to pickle, loads in 0.1 s."""

    name: str
    json: str = field(repr=False)
    roles: Roles
    chat_template: ChatTemplate | None = field(repr=False)
    """Chat template that came with the tokenizer."""
    vocab_size: int = field(init=False)
    """Largest id plus one."""
    ids_of: dict[ControlRole, int]
    token_bytes: npt.NDArray[np.int32] = field(init=False, repr=False)
    """[vocab_size]: bytes encoded by each id, 0 for control tokens."""
    ends_line: npt.NDArray[np.bool_] = field(init=False, repr=False)
    """[vocab_size]: True if the id's last byte is a newline."""
    mid_character: npt.NDArray[np.bool_] = field(init=False, repr=False)
    """[vocab_size]: True if the id's first byte continues a character begun by an earlier id."""
    leading_space: npt.NDArray[np.int32] = field(init=False, repr=False)
    """[vocab_size]: bytes of leading white space, 0 for ids of white space only."""
    engine: Engine
    engine_reason: str
    """Reason why text isn't encoded at full speed, or ""."""
    _texts: tuple[bytes, ...] = field(repr=False)
    _controls: dict[int, str] = field(repr=False)
    _encode: Encode = field(repr=False)

    def __post_init__(self) -> None:
        """Derive arrays by id from the bytes of each id."""
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
        """Load a tokenizer.json of a workspace, and the chat template beside it.

        Raises:
            TokenizerError: for an invalid file, and for a tokenizer that loses bytes.
            StoreError: for a file of an artefact that differs from the published one.
        """
        return Tokenizer.from_texts(TokenizerTexts.read(path), roles)

    @staticmethod
    def from_texts(texts: TokenizerTexts, roles: Roles) -> "Tokenizer":
        """Return the tokenizer described by texts already read; raises TokenizerError as `load` does."""
        return Tokenizer.parse(texts.json, roles, texts.name, texts.chat_template)

    @staticmethod
    def parse(
        text: str,
        roles: Roles = Roles(),
        name: str = "tokenizer.json",
        chat_template: ChatTemplate | None = None,
    ) -> "Tokenizer":
        """Return the tokenizer described by a tokenizer.json's text; raises TokenizerError as `load` does."""
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
        """Pickle as text, since engines can't be sent to other processes."""
        return Tokenizer.parse, (self.json, self.roles, self.name, self.chat_template)

    @property
    def bos_id(self) -> int | None:
        """Token at the beginning of every document, or None."""
        return self.ids_of.get("bos")

    @property
    def eos_id(self) -> int | None:
        """Token at the end of every document, or None."""
        return self.ids_of.get("eos")

    @property
    def pad_id(self) -> int:
        """Padding token: its own, else eos, else 0."""
        return self.ids_of["pad"]

    @property
    def document_tokens(self) -> DocumentTokens:
        """Control tokens around each document, among those that the tokenizer has."""
        framed = [role for role in ("bos", "eos") if role in self.ids_of]
        return "_".join(framed) or "none"  # type: ignore[return-value]

    @property
    def document_controls(self) -> dict[ControlRole, int]:
        """BOS and EOS, as far as the tokenizer has them, whether or not documents use them."""
        controls = {text: token for token, text in self._controls.items()}
        found = _all_roles(controls, self.roles, name=self.name)
        return {role: token for role, token in found.items() if role in ("bos", "eos")}

    @property
    def special(self) -> npt.NDArray[np.bool_]:
        """[vocab_size]: True for control tokens, which text never yields."""
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
        """Return the concatenated ids [n] of all texts and offsets [len(texts) + 1], without BOS and EOS."""
        return self._encode(texts)

    def encode(self, text: str) -> Ids:
        """Return the ids [n] of one text, without BOS and EOS."""
        return self._encode([text])[0]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return exactly the bytes that the ids encode; control tokens encode none."""
        return b"".join([self._texts[token] for token in ids])

    def decode(self, ids: Iterable[int]) -> str:
        """Return text for display: control tokens are shown, invalid UTF-8 becomes U+FFFD."""
        shown = (
            self._controls[token].encode() if token in self._controls else self._texts[token]
            for token in ids
        )  # fmt: skip
        return b"".join(shown).decode("utf-8", errors="replace")


def _without_controls(content: dict[str, Any], controls: dict[str, int]) -> dict[str, Any]:
    """Return the same tokenizer without control tokens.

    Engines require vocabularies without holes, so control tokens keep their ids as vocabulary entries with
    names that no text contains: NUL isn't in the byte-level alphabet. Runs of whitespace stay in the
    vocabulary too.
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
    """Return the bytes of each id; empty for control tokens, holes and entries that aren't byte-level."""
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
    """Return the fast engine, with the reference engine for batches that contain TAKEN_FOR_SPACE."""

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
    """Convert an engine's panic, for example a regular expression beyond its limit, to an error.

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
    """Return the most likely reason for lost bytes, from the file."""
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
