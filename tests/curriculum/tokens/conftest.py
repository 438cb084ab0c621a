"""Small tokenizers: our own, and such as others ship."""

import json
from typing import Any, Protocol

import pytest

from curriculum.tokens.codec import BYTE_OF, Tokenizer
from curriculum.tokens.train import train_tokenizer


class Foreign(Protocol):
    """Makes the text of a tokenizer.json; added tokens are (text, id, special)."""

    def __call__(self, *added: tuple[str, int, bool], **changes: Any) -> str: ...


def foreign_json(*added: tuple[str, int, bool], **changes: Any) -> str:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    content: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            {"id": token, "content": text, "special": special, **flags}
            for text, token, special in added
        ],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {"type": "BPE", "vocab": dict(BYTE_OF), "merges": []},
    }
    return json.dumps({**content, **changes})


@pytest.fixture(scope="session")
def foreign_tokenizer() -> Foreign:
    """256 bytes as ids 0..255, no merges, and the added tokens and changes asked for."""
    return foreign_json


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Return the training texts of the trained tokenizer."""
    return [
        "#include <vector>\n\nint main() {\n    return 0;\n}\n",
        "template <typename T>\nstruct Map {\n\tT* begin();\n\tT* end();\n};\n// a comment\n" * 3,
        "add_library(x STATIC a.cc b.cc)  # a comment — mit Umlauten äöü\n" * 3,
    ]


@pytest.fixture(scope="session")
def trained(texts: list[str]) -> Tokenizer:
    """A tokenizer of our own."""
    return Tokenizer.parse(train_tokenizer(texts, vocab_size=400).decode())


@pytest.fixture(scope="session")
def without_bos(foreign_tokenizer: Foreign) -> Tokenizer:
    """Like Qwen's: no BOS, PAD is EOS, sentinels that are not flagged special."""
    return Tokenizer.parse(
        foreign_tokenizer(
            ("<|endoftext|>", 256, True),
            ("<|im_start|>", 257, True),
            ("<|fim_prefix|>", 258, False),
            ("<tool_call>", 259, False),
        )
    )
