"""The door of foreign tokenizers: each is loaded and exercised once, in a sandbox, and trusted from then on.

Engines expand what a file says, run its patterns with backtracking, and end the process at the rest. In the
sandbox that harms nobody: memory and processor time have limits, and a tokenizer that reaches them while it
encodes the texts of tokens/adversarial.py is refused.
"""

import functools
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from curriculum.sandbox import Sandbox, code_paths
from curriculum.sandboxed_process import SandboxedProcess, answer, enter_sandbox
from schemas.errors import TokenizerError

if TYPE_CHECKING:
    from curriculum.tokens.codec import Roles, Tokenizer
    from curriculum.tokens.tokenizer_texts import TokenizerTexts

SECONDS, MEMORY = 8, 2 << 30
"""CPU seconds, and one more for each megabyte of the file, and bytes of the process that exercises it.

Tokenizers in use take one second, and a quarter for each megabyte.
"""


def load_foreign(
    texts: "TokenizerTexts", roles: "Roles", *, unsandboxed: bool = False
) -> "Tokenizer":
    """Return the tokenizer of texts from elsewhere.

    Raises:
        TokenizerError: for texts that aren't one, a tokenizer that loses bytes, and one whose engine crashes
            or takes more time or memory than its sandbox has.
        StoreError: where the kernel can't confine a process and `unsandboxed` is False.
    """
    from curriculum.tokens.codec import Tokenizer

    _exercise(texts.json, roles, texts.name, unsandboxed)
    return Tokenizer.of(texts, roles)


def load_finished(
    texts: "TokenizerTexts", roles: "Roles", *, unsandboxed: bool = False
) -> "Tokenizer":
    """Return the tokenizer of finished rows, without an engine where `load_foreign` refuses it.

    Raises:
        TokenizerError: for texts that aren't one, and a model whose pieces don't say what they stand for.
        StoreError: where the kernel can't confine a process and `unsandboxed` is False.
    """
    from curriculum.tokens.finished import pieces_of, without_engine

    try:
        return load_foreign(texts, roles, unsandboxed=unsandboxed)
    except TokenizerError as refused:
        if pieces_of(texts.json) is None:
            raise
        return without_engine(texts, roles, refused.cause)


@functools.lru_cache(maxsize=16)
def _exercise(text: str, roles: "Roles", name: str, unsandboxed: bool) -> None:
    seconds = SECONDS + len(text) // 1_000_000
    sandbox = Sandbox(read=code_paths(), memory=MEMORY, cpu_seconds=seconds)
    request = {"text": text, "roles": asdict(roles), "name": name}
    with SandboxedProcess(__name__, sandbox, request, unsandboxed=unsandboxed) as process:
        found = process.next_answer()
        if found is None:
            raise TokenizerError(
                name, process.end_reason(),
                cause="its engine can't load it and encode long lines within the limits of its sandbox, "
                f"{seconds} CPU seconds and {MEMORY >> 20:,} MiB",
                cure="Mend its patterns and parts, or train one: curriculum tokenizer train",
            )  # fmt: skip
    if found["fault"] is not None:
        name, value, cause, cure = found["fault"]
        raise TokenizerError(name, value, cause=cause, cure=cure)


def _fault_of(
    text: str, roles: dict[str, Any], name: str
) -> tuple[str, str | None, str, str] | None:
    """Exercise a tokenizer, and return the parts of the error that refuses it, or None."""
    from curriculum.tokens.adversarial import exhausting_texts
    from curriculum.tokens.codec import Roles, Tokenizer

    try:
        tokenizer = Tokenizer.parse(text, Roles(**roles), name)
        for run in exhausting_texts():
            tokenizer.encode(run)
    except TokenizerError as refused:
        value = None if refused.value is None else str(refused.value)
        return refused.name, value, refused.cause, refused.cure
    return None


if __name__ == "__main__":
    answer({"fault": _fault_of(**enter_sandbox())})
