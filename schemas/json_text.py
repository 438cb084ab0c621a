"""JSON files of ours: each becomes a frozen model, or an error that names the file and its first fault.

A versioned file says which schema_version wrote it. Readers take any minor of their own major: fields that
are missing get their defaults, and unknown ones are left out; another major is refused. A sealed file carries
a digest of all its fields, those of newer versions included, so that damage is refused too.

Accepted is one JSON value of RFC 8259 in UTF-8, of at most DEEPEST levels. Refused is what parsers disagree
on or what Python's parser accepts beyond it: a name that an object has twice, NaN and infinity, numbers
beyond a double or of more than MAX_DIGITS digits, half of a surrogate pair, a byte order mark.
"""

import datetime
import hashlib
import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import PydanticCustomError

from schemas import regular_files
from schemas.document import SCHEMA_VERSION
from schemas.errors import CurriculumError
from schemas.text import Strict


def now() -> str:
    """The present moment.

    >>> len(now()), now()[-6:]
    (32, '+00:00')
    """
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def seconds_from(moment: str) -> float:
    """Seconds between a moment and the present, without a sign: clocks may differ, or be set back.

    >>> seconds_from(now()) < 60
    True
    """
    then = datetime.datetime.fromisoformat(moment)
    return abs((datetime.datetime.now(datetime.UTC) - then).total_seconds())


DEEPEST = 64
"""Nested lists and objects; our deepest file needs a dozen."""
MAX_DIGITS = 100
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
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits; {MAX_DIGITS} are read")
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


Model = TypeVar("Model", bound=BaseModel)
DIGEST = "digest"
MAJOR = SCHEMA_VERSION.partition(".")[0]
_SHOWN = 200
"""Characters of a file's own words in a message."""


def digest(value: JsonValue) -> str:
    """sha256 of the canonical JSON of a value: sorted keys, no spaces, UTF-8; 64 hex digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def version_fault(version: str) -> str | None:
    """Return why a file of a schema_version can't be read; None for any minor of this major.

    >>> version_fault(f"{MAJOR}.99"), version_fault("0.9")
    (None, 'schema_version 0.9; this version reads 1.x')
    """
    if version.partition(".")[0] == MAJOR:
        return None
    return f"schema_version {version}; this version reads {MAJOR}.x"


def of_version(model: type[Model], content: JsonValue, version: str) -> Model:
    """Validate what a file of a readable version says; of another minor, unknown fields are left out."""
    return model.model_validate(content, extra=None if version == SCHEMA_VERSION else "ignore")


class Versioned(Strict):
    """A JSON file that says which version wrote it."""

    schema_version: str = SCHEMA_VERSION

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Validate a file's text, which any minor of this major wrote."""
        try:
            content = parse_json(json_data)
        except ValueError as broken:
            raise _invalid(cls, str(broken)) from None
        if not isinstance(content, dict):
            return cls.model_validate(content, **options)
        version = str(content.get("schema_version", SCHEMA_VERSION))[:_SHOWN]
        fault = version_fault(version) or cls.damage(content)
        if fault is not None:
            raise _invalid(cls, fault)
        return of_version(cls, content, version)

    @classmethod
    def damage(cls, content: dict[str, JsonValue]) -> str | None:
        """Return why a file isn't as it was written, as far as that shows; the seal is taken off."""
        return None


class Sealed(Versioned):
    """A JSON file that carries a digest of itself, which is no field of the model."""

    def model_dump_json(self, **options: Any) -> str:
        """The file's text, sealed."""
        content = json.loads(super().model_dump_json(**options))
        indent = options.get("indent")
        compact = (",", ":") if indent is None else None
        sealed = content | {DIGEST: digest(content)}
        return json.dumps(sealed, ensure_ascii=False, indent=indent, separators=compact)

    @classmethod
    def damage(cls, content: dict[str, JsonValue]) -> str | None:
        """Compare the digest with the rest."""
        stored, found = content.pop(DIGEST, None), digest(content)
        if stored == found:
            return None
        return f"digest {found[:12]} where {str(stored)[:12]} was written: it was changed since"


def _invalid(model: type[BaseModel], fault: str) -> ValidationError:
    # A fault may hold braces, which a template would take for names.
    error = PydanticCustomError("file", "{fault}", {"fault": fault})
    return ValidationError.from_exception_data(
        model.__name__, [{"type": error, "loc": (), "input": None}]
    )


def read_json(
    model: type[Model],
    file: Path,
    *,
    error: type[CurriculumError],
    cause: str,
    cure: str,
    version: str | None = None,
) -> Model:
    """Read a file that a version of ours wrote; `version` is that of a file that doesn't carry its own.

    Raises:
        CurriculumError: of the given kind, for a file that says something else.
    """
    try:
        content = regular_files.read(file, follow_links=True)
        if issubclass(model, Versioned) and version is None:
            return model.model_validate_json(content)
        return of_version(model, parse_json(content), version or SCHEMA_VERSION)
    except ValidationError as broken:
        first = broken.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:_SHOWN] or "the file"
        found = f"{place}: {first['msg'][:_SHOWN]}"
        raise error(str(file), found, cause=cause, cure=cure) from None
    except ValueError as broken:
        raise error(str(file), f"the file: {broken}", cause=cause, cure=cure) from None
