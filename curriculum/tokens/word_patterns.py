r"""Patterns that split text into words, and which of them fastokens runs as compiled code.

fastokens has compiled code for the pre-tokenizers of widely used models. It recognises them by the exact text
of their patterns. Any other pattern runs on a regular-expression engine, and encoding takes at least three
times as long.
"""

from collections.abc import Mapping
from typing import Any

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LEAD = r"[^\r\n\p{L}\p{N}]?"
_SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_UPPER_NOT_HAN = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LOWER_NOT_HAN = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"

LLAMA_3 = rf"{_CONTRACTIONS}|{_LEAD}\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACE}"
QWEN_2 = rf"{_CONTRACTIONS}|{_LEAD}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACE}"
QWEN_3_5 = (
    rf"{_CONTRACTIONS}|{_LEAD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACE}"
)
O200K = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|{_LEAD}{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE}"
)
NEMOTRON = (
    rf"{_LEAD}{_UPPER}*{_LOWER}+|{_LEAD}{_UPPER}+{_LOWER}*"
    rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE}"
)
KIMI = (
    rf"[\p{{Han}}]+|{_LEAD}{_UPPER_NOT_HAN}*{_LOWER_NOT_HAN}+{_CONTRACTIONS}?"
    rf"|{_LEAD}{_UPPER_NOT_HAN}+{_LOWER_NOT_HAN}*{_CONTRACTIONS}?"
    rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACE}"
)
DEEPSEEK_3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
"""Three patterns that are applied one after another; line ends in them are literal, not escapes."""
BYTE_LEVEL = "ByteLevel"
"""Name that represents GPT-2's pattern, which is built into the pre-tokenizer of the same name."""

COMPILED: Mapping[tuple[str, ...], str] = {
    (LLAMA_3,): "Llama 3",
    (QWEN_2,): "Qwen 2",
    (QWEN_3_5,): "Qwen 3.5",
    (O200K,): "o200k",
    (NEMOTRON,): "Nemotron",
    (KIMI,): "Kimi",
    DEEPSEEK_3: "DeepSeek 3",
    (BYTE_LEVEL,): "GPT-2",
}
"""Names of models by their patterns, for all patterns that fastokens 0.3.5 has compiled code for.

The patterns of a model are in order of application.
"""

WAYS = (("Isolated", False), ("Removed", True))
"""Settings (behavior, invert) of a split with which the matches of its pattern are the words."""
TAKEN_FOR_SPACE = "\u180e"
"""MONGOLIAN VOWEL SEPARATOR: uncompiled patterns treat it as a space, as Unicode before 6.3 did."""


def is_compiled(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    """Return True if fastokens has compiled code for all patterns of a tokenizer.json's `pre_tokenizer`."""
    part = pre_tokenizer or {}
    steps: list[Mapping[str, Any]] = part.get("pretokenizers") or [part]
    patterns = [_pattern(step) for step in steps]
    return tuple(pattern for pattern in patterns if pattern is not None) in COMPILED


def _pattern(step: Mapping[str, Any]) -> str | None:
    """Return the pattern by which a step of the pre-tokenizer splits text; None if it doesn't split text."""
    if step.get("type") == BYTE_LEVEL:
        return BYTE_LEVEL if step.get("use_regex", True) else None
    pattern = step.get("pattern")
    if (
        not isinstance(pattern, dict)
        or (step.get("behavior"), step.get("invert", False)) not in WAYS
    ):
        return str(step.get("type"))
    return str(pattern.get("Regex"))
