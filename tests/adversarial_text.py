"""Texts on which a regular expression would take the square of their length, if any does."""

import re
from collections.abc import Iterator, Sequence
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

LONG = 16
"""Repetitions from which a repeat counts as endless."""
MAX_VARIANTS = 6
"""Texts kept for a part of an expression."""
ENDS = ("", "\n", "!", "\0", "a")
_CLASSES = {
    codes.CATEGORY_DIGIT: "1",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: "-",
}
_LETTERS = " \taA1_-,.:;<>(){}[]*&\"'\\/#=\n\r|~éя"
_Parsed = Sequence[tuple[Any, Any]]


class Attack(NamedTuple):
    """A text that repeats a unit."""

    begin: str
    unit: str
    end: str

    def text(self, length: int) -> str:
        """Return the text of a length, or a little less."""
        repeated = (length - len(self.begin) - len(self.end)) // len(self.unit)
        return f"{self.begin}{self.unit * repeated}{self.end}"


def attacks(pattern: re.Pattern[str] | re.Pattern[bytes]) -> list[Attack]:
    """Return texts that repeat what an expression repeats without end, or a whole match, or nearly one."""
    written = pattern.pattern
    text = written if isinstance(written, str) else written.decode("latin-1")
    parsed = _parser.parse(text, pattern.flags & ~re.UNICODE & ~re.LOCALE)
    found: dict[Attack, None] = {}
    for begin, unit in _repeats(parsed, [""]):
        for end in ENDS:
            found[Attack(begin, unit, end)] = None
        for start in {begin, f"\n{begin}", f" {begin}"}:
            found[Attack("", start + unit, "")] = None
            found[Attack("", start, "")] = None
    for whole in _variants(parsed):
        for between in ("", " ", "\n"):
            found[Attack("", whole + between, "")] = None
            found[Attack("", whole[:-1] + between, "")] = None
    return [attack for attack in found if attack.unit]


def _repeats(parsed: _Parsed, begins: list[str]) -> Iterator[tuple[str, str]]:
    """Yield a beginning and a unit for each endless repeat, outer ones before those within."""
    begins = begins[:MAX_VARIANTS]
    for code, argument in parsed:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            _, largest, body = argument
            if largest >= LONG:
                for begin in begins:
                    for unit in _variants(body):
                        yield begin, unit
            yield from _repeats(body, begins)
        else:
            for body in _bodies(code, argument):
                yield from _repeats(body, begins)
        begins = _extended(begins, _of_node(code, argument))


def _bodies(code: Any, argument: Any) -> list[_Parsed]:
    if code == codes.SUBPATTERN:
        return [argument[3]]
    if code == codes.BRANCH:
        return list(argument[1])
    if code == codes.ATOMIC_GROUP:
        return [argument]
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return [argument[1]]
    return []


def _variants(parsed: _Parsed) -> list[str]:
    """Return some texts that a part of an expression matches."""
    found = [""]
    for code, argument in parsed:
        found = _extended(found, _of_node(code, argument))
    return found


def _extended(begins: list[str], ends: list[str]) -> list[str]:
    """Join texts, such that every one of both occurs, not every pair."""
    if not ends:
        return begins
    joined = [
        begins[number % len(begins)] + ends[number % len(ends)]
        for number in range(max(len(begins), len(ends)))
    ]
    return list(dict.fromkeys(joined))[:MAX_VARIANTS]


def _of_node(code: Any, argument: Any) -> list[str]:
    """Return some texts that one node matches; none for what matches no characters."""
    if code == codes.LITERAL:
        return [chr(argument)]
    if code == codes.NOT_LITERAL:
        return [letter for letter in _LETTERS if ord(letter) != argument]
    if code == codes.ANY:
        return ["a", " ", '"', "'", "/", "("]
    if code == codes.IN:
        return _members(argument)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        smallest, _, body = argument
        once = [unit * max(smallest, 1) for unit in _variants(body)]
        return once if smallest else ["", *once]
    if code == codes.ASSERT:
        return _variants(argument[1]) if argument[0] > 0 else []
    if code in (codes.SUBPATTERN, codes.BRANCH, codes.ATOMIC_GROUP):
        return [text for body in _bodies(code, argument) for text in _variants(body)]
    return []


def _members(items: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return some members of a class of characters, those that mean something to programs first."""
    if items[0][0] != codes.NEGATE:
        found = []
        for code, argument in items:
            if code == codes.LITERAL:
                found.append(chr(argument))
            elif code == codes.RANGE:
                found.append(chr(argument[0]))
            else:
                found.append(_CLASSES[argument])
        return found
    written = {
        letter
        for code, argument in items[1:]
        for letter in _LETTERS
        if (code == codes.LITERAL and ord(letter) == argument)
        or (code == codes.RANGE and argument[0] <= ord(letter) <= argument[1])
        or (code == codes.CATEGORY and _is_of(letter, argument))
    }
    return [letter for letter in _LETTERS if letter not in written]


def _is_of(letter: str, category: Any) -> bool:
    is_category = {
        codes.CATEGORY_DIGIT: letter.isdigit(),
        codes.CATEGORY_SPACE: letter.isspace(),
        codes.CATEGORY_WORD: letter.isalnum() or letter == "_",
    }
    return is_category.get(category, not is_category.get(_opposite(category), True))


def _opposite(category: Any) -> Any:
    return {
        codes.CATEGORY_NOT_DIGIT: codes.CATEGORY_DIGIT,
        codes.CATEGORY_NOT_SPACE: codes.CATEGORY_SPACE,
        codes.CATEGORY_NOT_WORD: codes.CATEGORY_WORD,
    }.get(category)
