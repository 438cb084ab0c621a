"""Strict JSON files of the workspace, read into frozen models. Errors name the file and the first fault.

A versioned file has the schema_version that wrote it. Readers accept any minor version of their own major
version: missing fields get their defaults, and unknown fields are ignored. Other major versions are refused.
A sealed file has a digest of all its fields (including those of newer versions), so that damage is detected.

A file must be one RFC 8259 JSON value in UTF-8 with at most DEEPEST levels. Readers refuse everything that
parsers treat differently or that Python accepts beyond the RFC: duplicate names, NaN and infinity, numbers
beyond a double or with more than MAX_DIGITS digits, lone surrogates, and a byte order mark.
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
    """Return the current UTC time in ISO 8601 with microseconds.

    >>> len(now()), now()[-6:]
    (32, '+00:00')
    """
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")


def seconds_from(moment: str) -> float:
    """Return the absolute difference in seconds between a time and now.

    It is absolute because clocks may differ or be set back.

    >>> seconds_from(now()) < 60
    True
    """
    then = datetime.datetime.fromisoformat(moment)
    return abs((datetime.datetime.now(datetime.UTC) - then).total_seconds())


DEEPEST = 64
"""Maximum nesting of lists and objects; the deepest file of a workspace needs a dozen."""
MAX_DIGITS = 100
"""Maximum number of digits of an integer."""
_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Pattern of text that may contain a lone surrogate; most texts don't match."""


def parse_json(text: str | bytes | bytearray) -> Any:
    """Return the value of a JSON text; bytes are UTF-8.

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
        raise ValueError(f"the name {ascii(twice)[:60]} occurs twice in an object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:40]} exceeds the largest number")
    return value


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits; at most {MAX_DIGITS} are allowed")
    return int(digits)


def _require_shallow(value: JsonValue) -> None:
    level: list[Any] = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for container in level
            if isinstance(container, dict | list)
            for inner in (container.values() if isinstance(container, dict) else container)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ValueError(_too_deep())


def _too_deep() -> str:
    return f"more than {DEEPEST} levels of nesting"


def _require_whole_characters(value: JsonValue) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("Invalid JSON: a lone surrogate is not text") from None


Model = TypeVar("Model", bound=BaseModel)
DIGEST = "digest"
MAJOR = SCHEMA_VERSION.partition(".")[0]
_SHOWN = 200
"""Maximum number of characters that a message quotes from a file."""


def digest(value: JsonValue) -> str:
    """Return the sha256 (64 hex digits) of a value's canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def version_fault(version: str) -> str | None:
    """Return why a file with a schema_version can't be read; None for any minor version of this major one.

    >>> version_fault(f"{MAJOR}.99"), version_fault("0.9")
    (None, 'schema_version 0.9; this version reads 1.x')
    """
    if version.partition(".")[0] == MAJOR:
        return None
    return f"schema_version {version}; this version reads {MAJOR}.x"


def of_version(model: type[Model], content: JsonValue, version: str) -> Model:
    """Return the content of a file as a model. Fields that another minor version added are ignored."""
    return model.model_validate(content, extra=None if version == SCHEMA_VERSION else "ignore")


class Versioned(Strict):
    """A JSON file that says which schema_version wrote it."""

    schema_version: str = SCHEMA_VERSION

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Return the model of a file's text, written by any minor version of this major."""
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
        """Remove the digest from `content`. Return why the content isn't what was written, if that shows."""
        return None


class Sealed(Versioned):
    """A JSON file with a digest of its other fields; the digest isn't a field of the model."""

    def model_dump_json(self, **options: Any) -> str:
        """Return the file's text with its digest."""
        content = json.loads(super().model_dump_json(**options))
        indent = options.get("indent")
        compact = (",", ":") if indent is None else None
        sealed = content | {DIGEST: digest(content)}
        return json.dumps(sealed, ensure_ascii=False, indent=indent, separators=compact)

    @classmethod
    def damage(cls, content: dict[str, JsonValue]) -> str | None:
        """Compare the digest with the other fields, and return why they differ, if they do."""
        stored, found = content.pop(DIGEST, None), digest(content)
        if stored == found:
            return None
        return (
            f"the file was changed since it was written: its digest is {found[:12]} instead of "
            f"{str(stored)[:12]}"
        )


def _invalid(model: type[BaseModel], fault: str) -> ValidationError:
    # A fault may contain braces, which a template would take for field names.
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
    """Read a JSON file of the workspace. `version` is for files that have no schema_version of their own.

    Raises:
        CurriculumError: of the given type, if the file doesn't match the model.
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
