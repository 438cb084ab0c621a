"""Patterns of tokenizers: which of them fastokens runs as compiled code."""

import json
from pathlib import Path
from typing import Any

import fastokens
import pytest
import tokenizers

from curriculum.tokens.codec import NOT_COMPILED, Tokenizer
from curriculum.tokens.word_patterns import BYTE_LEVEL, COMPILED, DEEPSEEK_3, LLAMA_3, QWEN_2

GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def test_patterns_that_count_as_compiled_are_those_of_the_installed_fastokens() -> None:
    """fastokens doesn't say how it runs a pattern, but its library has the texts that it compares."""
    (library,) = Path(fastokens.__file__).parent.glob("_native*.so")
    texts = library.read_bytes()
    longest = [max(patterns, key=len) for patterns in COMPILED if patterns != (BYTE_LEVEL,)]
    assert [pattern for pattern in longest if pattern.encode() not in texts] == []


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


@pytest.mark.parametrize(
    ("steps", "is_compiled"),
    [
        ([split(LLAMA_3), BYTES], True),
        ([split(QWEN_2), BYTES], True),
        ([*map(split, DEEPSEEK_3), BYTES], True),
        ([{**BYTES, "use_regex": True}], True),
        ([split(LLAMA_3.removeprefix("(?i:'s|'t|'re|'ve|'m|'ll|'d)|")), BYTES], False),
        ([split(r"\p{N}{1,3}"), split(LLAMA_3), BYTES], False),
        ([split(DEEPSEEK_3[-1]), BYTES], False),
        ([{**split(LLAMA_3), "behavior": "Removed", "invert": True}, BYTES], True),
        ([{**split(LLAMA_3), "behavior": "MergedWithNext"}, BYTES], False),
        ([{**split(LLAMA_3), "invert": True}, BYTES], False),
        ([split(GPT_2), BYTES], False),
        ([{"type": "Digits", "individual_digits": True}, {**BYTES, "use_regex": True}], False),
        ([BYTES], False),
    ],
)
def test_a_tokenizer_whose_pattern_is_not_compiled_says_that_it_is_slow(
    steps: list[dict[str, Any]], is_compiled: bool, foreign_tokenizer: Any
) -> None:
    chain = {"type": "Sequence", "pretokenizers": steps}
    tokenizer = Tokenizer.parse(foreign_tokenizer(pre_tokenizer=chain))
    assert tokenizer.engine == "fastokens"
    assert tokenizer.engine_reason == ("" if is_compiled else NOT_COMPILED)


@pytest.mark.parametrize("pattern", [GPT_2, LLAMA_3])
def test_a_character_that_was_a_space_in_old_unicode_is_encoded_as_tokenizers_does(
    pattern: str, foreign_tokenizer: Any
) -> None:
    chain = {"type": "Sequence", "pretokenizers": [split(pattern), BYTES]}
    content = json.loads(foreign_tokenizer(pre_tokenizer=chain))
    content["added_tokens"] = []
    content["model"]["vocab"] |= {"_t": 256, "ĠĠ": 257}
    content["model"]["merges"] = [["_", "t"], ["Ġ", "Ġ"]]
    text = json.dumps(content)
    tokenizer, reference = Tokenizer.parse(text), tokenizers.Tokenizer.from_str(text)
    assert tokenizer.engine == "fastokens"
    for said in ("\u180e_the", "a  \u180e", "\u180e the"):
        assert tokenizer.encode(said).tolist() == reference.encode(said).ids


def test_our_tokenizers_have_a_compiled_pattern(trained: Tokenizer) -> None:
    assert trained.engine_reason == ""
    first, _ = json.loads(trained.json)["pre_tokenizer"]["pretokenizers"]
    assert first["pattern"] == {"Regex": LLAMA_3}
