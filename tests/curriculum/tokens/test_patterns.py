"""Patterns of tokenizers: those in use are admitted, those that a text makes explode aren't."""

import pytest

from curriculum.tokens.admit import PatternError, require_bounded
from curriculum.tokens.train import WORDS

_END = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_LETTERS = (
    r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
)
IN_USE = {
    "ours": WORDS,
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "llama3": rf"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_END}",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_END}",
    "deepseek":
    rf"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{{|}}~][A-Za-z]+|[^\r\n\p{{L}}]?[\p{{L}}\p{{M}}]+|{_END}",
    "kimi": r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{M}&&[^\p{Han}]]+(?i:'s|'t)?",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "digits from the right": r"(?=(\d{3})+(?!\d))",
    "digits before a border": r"\d{1,3}(?=(?:\d{3})*\b)",
    "han": "[一-龥ࠀ-一가-퟿]+",
}  # fmt: skip
EXPLODING = [
    "(a+)+$", "(?:a|a)*b", "(a|aa)+$", "(.*)*x", "a*a*b", r"(\w+\s*)+;", r"^(?:.*,){20}P", "(?=(a+)+$)",
    "(?:a{1000}){1000}", r"(?:(?:\p{L}{1,1000}){1,1000}){1,1000}", r"(a)\1*\1+b", "a{99999999}",
    "(?:x?){50}x{50}", "x?" * 30 + "x" * 30, "(?:a|a)" * 30 + "b", r"(?<n>a)\k<n>", r"(?<n>a|\g<n>b)",
    "(?:a?)*b", "(?:(?:a?)?)?" * 9 + "b", "a{1,3}+b", "a{2}?" * 30 + "b", "()*b",
    "(?~a)", "(?(1)a|b)", "a**b",
    "[a-z]{0,900}[a-z]{0,900}b", "(?i)(a+)+b", "(?x)(a+ #)(\n)+b)", "(?#a)b",
]  # fmt: skip
BROKEN = ["(" * 2000 + "a" + ")" * 2000, "[" * 500, "\\", "(a", "a)", "*a", "a{", "x" * 5_000]


@pytest.mark.parametrize("name", IN_USE)
def test_a_pattern_in_use_is_admitted(name: str) -> None:
    require_bounded(IN_USE[name])


@pytest.mark.parametrize("pattern", EXPLODING)
def test_a_pattern_that_a_text_makes_explode_is_not_admitted(pattern: str) -> None:
    with pytest.raises(PatternError):
        require_bounded(pattern)


@pytest.mark.parametrize("pattern", [each for each in BROKEN if each != "a{"])
def test_a_pattern_that_ends_too_early_or_too_late_is_not_admitted(pattern: str) -> None:
    with pytest.raises(PatternError):
        require_bounded(pattern)


def test_a_brace_that_counts_nothing_is_a_letter() -> None:
    require_bounded("a{")
    require_bounded("a{b}")
