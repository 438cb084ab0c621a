"""Checks of foreign tokenizers: each is loaded and exercised once in a sandbox, and trusted afterwards.

The engine that runs a tokenizer expands the contents of its file, runs its patterns with backtracking, and
aborts the process on errors. The sandbox limits memory and processor time. A tokenizer is refused if it
reaches a limit while it encodes the texts of tokens/adversarial.py.
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
"""Limits of the process that exercises a tokenizer: CPU seconds, and bytes of memory.

The process gets another CPU second per megabyte of the file. Common tokenizers take one second, plus a
quarter of a second per megabyte.
"""


def load_foreign(
    texts: "TokenizerTexts", roles: "Roles", *, unsandboxed: bool = False
) -> "Tokenizer":
    """Return the tokenizer defined by foreign texts, after exercising it in a sandbox.

    Raises:
        TokenizerError: for invalid texts, a tokenizer that loses bytes, and one whose engine crashes or
        exceeds the sandbox's time or memory.
        StoreError: if the kernel has no sandbox and `unsandboxed` is False.
    """
    from curriculum.tokens.codec import Tokenizer

    _exercise(texts.json, roles, texts.name, unsandboxed)
    return Tokenizer.from_texts(texts, roles)


def load_finished(
    texts: "TokenizerTexts", roles: "Roles", *, unsandboxed: bool = False
) -> "Tokenizer":
    """Return the tokenizer of rows that were imported in finished form.

    If `load_foreign` refuses the tokenizer, the result has no engine: it can only decode.

    Raises:
        TokenizerError: for invalid texts, and a model whose pieces don't define their bytes.
        StoreError: if the kernel has no sandbox and `unsandboxed` is False.
    """
    from curriculum.tokens.finished import decoding_tokenizer, pieces_of

    try:
        return load_foreign(texts, roles, unsandboxed=unsandboxed)
    except TokenizerError as refused:
        if pieces_of(texts.json) is None:
            raise
        return decoding_tokenizer(texts, roles, refused.cause)


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
                cure="Fix its patterns and parts, or train one: curriculum tokenizer train",
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
