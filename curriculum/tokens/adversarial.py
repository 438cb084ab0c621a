"""Texts on which tokenizers differ, lose bytes or take too long; every tokenizer is tested with them."""

import random
from collections.abc import Iterator, Sequence

from curriculum.tokens.word_patterns import TAKEN_FOR_SPACE

_SNIPPETS = (
    "A",
    "e\u0301",
    "template <typename T>\n  requires std::integral<T>\nauto f(T&& x) -> decltype(x) { return x; }\n",
    '#define S(x) #x\r\n#include <vector>\r\n\tR"delim(raw \\ " text)delim";\r\n',
    "int main() {\n\tfor (auto& [k, v] : m) if (a<b>::c >> 2 != 0xFFu'000) ++k;\n}\n",
    'cmake_minimum_required(VERSION 3.20)\nset(X "${Y};$<CONFIG:Debug>")\n',
    "/* don't I'll WE'RE they've x's */ 'a' '\\'' \"\\u00e9\" // …\n",
    "\ufeffBOM first",
    "a\0b\x01\x7f\x1b[0m",
    "tab\tvertical\vform\fnext\x85line\u2028paragraph\u2029",
    "cafe\u0301 café ﬁ ﬀ Å Å ½ ① ｆｕｌｌ ℌ ſ İi̇ ß ẞ Σσς",
    "\u0344\u0958\u2126\u212a",
    "日本語のコメント 中文注释 한국어 주석 ภาษาไทย עברית عربى हिन्दी",
    "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪👍🏽 𝒳𝔘 \U0010ffff\ue000\ufffd",
    "a\u00a0b\u2003c\u200bd\u3000e\u1680f",
    "1234567890 1,234.5678e-10 ٣٤٥ Ⅷ 0b1010'1010 ²³",
    "CRLF\r\nCR\rLF\n\r\nmixed\n\r",
    "▁ Ġ Ċ ċ ĉ Ā <0x0A> ##ing @@ </w>",
    " leading",
    "trailing ",
    "",
    " ",
    "\n",
)
_CONTROL_LIKE = (
    "<s>",
    "</s>",
    "<unk>",
    "<pad>",
    "[CLS]",
    "[MASK]",
    "<|bos|>",
    "<|eos|>",
    "<|pad|>",
    "<|endoftext|>",
    "<|begin_of_text|>",
    "<|im_start|>",
    "<|fim_prefix|>",
    "<fim_middle>",
    "<|user|>",
    "<|",
    "|>",
    "<|bos|",
)
_RUNS = (
    " ",
    "\n",
    "\t",
    "\r\n",
    " \n",
    "a",
    "A",
    "0",
    "=",
    "-",
    "é",
    "漢",
    "👍",
    "\u0301",
    "()",
    "</s>",
)
LONG_RUNS, LONG_LENGTH = (" ", "\n", "a", "0", "-", "é", "漢", "a "), 200_000
"""Runs on which a pattern with quadratic time needs seconds.

LONG_RUNS are the units that are repeated, and LONG_LENGTH is the length of a run in characters.
"""
SHORT_LENGTH = 3_000
"""Length of a run in characters on which a pattern with cubic time needs minutes."""
_ALTERNATIONS = ("ab", "aab", "aA", "a1", "a-", "a,", "-_", "a\n", " a", "\t ", "é漢", "e\u0301")
_ALPHABET = (
    *" \n\t\r_aAzZ09'\"<>|{}();:,.*&#\\/-+=!?é漢👍\u0301\u00a0ſ",
    "'s",
    "//",
    "::",
    "  ",
    "\r\n",
)


def adversarial_texts(controls: Sequence[str]) -> list[str]:
    """Return about 200 kB of text that contains every byte of UTF-8 and the text of every control token."""
    return [*_SNIPPETS, *_every_byte(), *_runs(), *_around((*_CONTROL_LIKE, *controls)), *_random()]


def exhausting_texts() -> Iterator[str]:
    """Yield about 5 MB of repetitive texts on which backtracking patterns take minutes.

    Each text is a run, which repeats one unit. Every run is yielded twice: alone, and followed by one
    character of every other kind, for patterns that fail only at the end. The second text ends with a
    character that switches encoding from fastokens to tokenizers. So both engines read each run.
    """
    others = "\0" + "".join(map(chr, range(32, 127))) + TAKEN_FOR_SPACE
    for unit in LONG_RUNS:
        run = unit * (LONG_LENGTH // len(unit))
        yield run
        yield run + others
    for unit in (*map(chr, range(32, 127)), *_RUNS, *_ALTERNATIONS):
        run = unit * (SHORT_LENGTH // len(unit))
        yield run
        yield run + others


def _every_byte() -> Iterator[str]:
    """Yield all characters of two bytes, and for longer characters one for each possible first byte."""
    yield "".join(map(chr, range(0x800)))
    yield "".join(chr(lead << 12 | 0x7FF) for lead in range(16) if lead != 0xD) + "\ud7ff"
    yield "".join(chr(plane << 16 | 0x1F600 & 0xFFFF) for plane in range(1, 17))


def _runs() -> Iterator[str]:
    for unit in _RUNS:
        for count in (*range(2, 10), 16, 31, 64, 127, 257):
            yield unit * count
            yield f"x{unit * count}y"
        yield unit * 2000


def _around(controls: Sequence[str]) -> Iterator[str]:
    for text in controls:
        yield text
        yield f" {text} a{text}b{text}{text}\n{text}\n"
        yield f'const char* s = "{text}";  // {text[:-1]} {text[1:]}\n' * 3
    yield "int x;\n" * 500 + "".join(controls) + "int y;\n" * 500


def _random() -> Iterator[str]:
    generator = random.Random(17)
    for length in (*range(1, 40), *(200,) * 60):
        for _ in range(4):
            yield "".join(generator.choices(_ALPHABET, k=length))
