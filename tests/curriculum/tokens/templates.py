"""Chat templates of the shapes that others ship, written for these tests, and tokenizers that have them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from curriculum.tokens.chat_template import ChatTemplate
from curriculum.tokens.codec import BYTE_OF, Tokenizer

_FOLDER = Path(__file__).parent / "chat_templates"
QWEN25 = (_FOLDER / "qwen2.5.jinja").read_text()
"""A default system turn where none is given."""
QWEN3 = (_FOLDER / "qwen3.jinja").read_text()
"""Thoughts of the last answer alone; it takes contents apart at </think>."""
LLAMA3 = (_FOLDER / "llama3.jinja").read_text()
"""BOS, a date, trimmed contents."""
MISTRAL = (_FOLDER / "mistral.jinja").read_text()
"""Marks of instructions, EOS behind answers; a system turn goes before a last user's turn alone."""

CONTROLS = {
    QWEN25: ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    QWEN3: ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"),
    LLAMA3: (
        *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
        *("<|eot_id|>", "<|finetune_right_pad_id|>"),
    ),
    MISTRAL: ("<s>", "</s>", "[INST]", "[/INST]", "<pad>"),
}
TOKENS: dict[str, dict[str, Any]] = {
    QWEN25: {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"},
    QWEN3: {"eos_token": "<|im_end|>"},
    LLAMA3: {"bos_token": "<|begin_of_text|>", "eos_token": {"content": "<|eot_id|>"}},
    MISTRAL: {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}},
}


def tokenizer_json(controls: Sequence[str], **flags: bool) -> str:
    """Every byte, and some control tokens."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    own = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, **flags}
    content: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            {"id": 256 + number, "content": text, "special": True, **own}
            for number, text in enumerate(controls)
        ],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {"type": "BPE", "vocab": dict(BYTE_OF), "merges": []},
    }
    return json.dumps(content)


def put(folder: Path, template: Any, **changes: Any) -> Path:
    """A tokenizer.json and the tokenizer_config.json beside it; returns the former's path."""
    folder.mkdir(exist_ok=True)
    key = template if isinstance(template, str) else ""
    controls = CONTROLS.get(key, CONTROLS[QWEN25])
    config = {"tokenizer_class": "X", **TOKENS.get(key, {}), "chat_template": template, **changes}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(tokenizer_json(controls))
    return folder / "tokenizer.json"


def template_of(text: str) -> ChatTemplate:
    """A template with the tokens that its shape names."""
    tokens = TOKENS.get(text, {})
    used = {
        name: value["content"] if isinstance(value, dict) else value
        for name, value in tokens.items()
        if name in text
    }
    return ChatTemplate(name="tokenizer_config.json", text=text, tokens=tuple(sorted(used.items())))


def tokenizer_with(text: str, **flags: bool) -> Tokenizer:
    """A tokenizer with a template."""
    content = tokenizer_json(CONTROLS.get(text, CONTROLS[QWEN25]), **flags)
    return Tokenizer.parse(content, chat_template=template_of(text))


def plainly(text: str, said: Sequence[tuple[str, str]]) -> str:
    """A conversation as jinja2 renders it by itself, contents included."""
    engine = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    engine.globals["raise_exception"] = None
    messages = [{"role": role, "content": content} for role, content in said]
    return engine.from_string(text).render(
        messages=messages, add_generation_prompt=False, **dict(template_of(text).tokens)
    )
