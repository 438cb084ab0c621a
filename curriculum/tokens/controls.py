"""Control tokens: which tokens of a tokenizer.json are not text, and which of them plays which role."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from schemas.errors import TokenizerError

DocumentTokens = Literal["bos_eos", "bos", "eos", "none"]
Role = Literal[
    "bos", "eos", "pad", "fim_prefix", "fim_middle", "fim_suffix",
    "system", "user", "assistant", "end_of_turn",
]  # fmt: skip

NAMES: Mapping[Role, tuple[str, ...]] = {
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
"""Names of each role, first found wins; the first name is what a trained tokenizer gets.

`<|endoftext|>` ends a document and leads none: a tokenizer that has only this has no BOS.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Roles:
    """Roles that the user gives to tokens; None leaves them to the names in NAMES."""

    bos: str | None = None
    eos: str | None = None
    pad: str | None = None
    document_tokens: DocumentTokens = "bos_eos"
    """Control tokens around a document, each where the tokenizer has it."""


def find_roles(controls: Mapping[str, int], roles: Roles, *, name: str) -> dict[Role, int]:
    """The id of each role that the control tokens (text → id) have; pad falls back to eos, then 0.

    bos is there only if it leads documents, eos only if it ends them.

    >>> find_roles({"<|endoftext|>": 7, "<|fim_prefix|>": 8}, Roles(), name="t")
    {'eos': 7, 'fim_prefix': 8, 'pad': 7}
    """
    said: dict[Role, str | None] = {"bos": roles.bos, "eos": roles.eos, "pad": roles.pad}
    found: dict[Role, int] = {}
    for role, names in NAMES.items():
        given = said.get(role)
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
    return _as_framed(found, roles.document_tokens, name=name)


def _as_framed(
    found: dict[Role, int], document_tokens: DocumentTokens, *, name: str
) -> dict[Role, int]:
    framed = {
        role: token
        for role, token in found.items()
        if role not in ("bos", "eos") or role in document_tokens
    }
    bos = framed.get("bos")
    if bos is not None and bos == framed.get("eos") and bos != framed["pad"]:
        raise TokenizerError(
            name, f"id {bos}", cause="BOS and EOS are one token, so a BOS would not mark a start",
            cure="Set document_tokens to bos or eos",
        )  # fmt: skip
    return framed
