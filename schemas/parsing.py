"""Strict JSON from elsewhere.

Accepted is one JSON value of RFC 8259 in UTF-8, of at most DEEPEST levels. Refused is what parsers disagree
on or what Python's parser accepts beyond it: a name that an object has twice, NaN and infinity, numbers
beyond a double or of more than LONGEST_NUMBER digits, half of a surrogate pair, a byte order mark.
"""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from pydantic import JsonValue

DEEPEST = 64
"""Nested lists and objects; our deepest file needs a dozen."""
LONGEST_NUMBER = 100
"""Digits of a whole number."""
_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Candidates for half of a surrogate pair; most texts have none."""


def parse_json(text: str | bytes | bytearray) -> Any:
    """The value that a JSON text holds; bytes are UTF-8.

    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}

    Raises:
        ValueError: for any other text; its message is one line.
    """
    try:
        written = text if isinstance(text, str) else bytes(text).decode()
        value: JsonValue = json.loads(
            written,
            object_pairs_hook=_distinct,
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_whole,
        )
    except RecursionError:
        raise ValueError(_too_deep()) from None
    except ValueError as broken:
        raise ValueError(f"Invalid JSON: {broken}") from None
    _require_shallow(value)
    if _HALF.search(written):
        _require_whole_characters(value)
    return value


def _distinct(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {ascii(twice)[:60]} stands twice in an object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} is beyond the largest number")
    return value


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number has {len(digits):,} digits; {LONGEST_NUMBER} are read")
    return int(digits)


def _require_shallow(value: JsonValue) -> None:
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(_too_deep())


def _too_deep() -> str:
    return f"more than {DEEPEST} levels are nested"


def _require_whole_characters(value: JsonValue) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("Invalid JSON: half a surrogate pair is no text") from None
