"""Headers of the pages of Parquet files: Thrift structures in its compact protocol, each before its page.

pyarrow doesn't show them. A header that readers could take in two ways is refused: a field given twice, a
number outside of 32 bits, a field type that no header has.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
"""Types of pages."""
_OWN = {DATA: 5, DICTIONARY: 7, DATA_V2: 8}
"""The field of a header that is about pages of one type only."""
_PEEK, _MOST_HEADER = 512, 1 << 16
"""Bytes of a header that are read at first, and at most: it may hold the least and the greatest value."""
_DEPTH = 3
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(1, 9)
_STRUCT = 12
_BY_DICTIONARY = (2, 8)
DELTA_TEXT = 7
"""DELTA_BYTE_ARRAY: each text may repeat the one before, so that they take more than their page."""
_ENCODINGS = frozenset((0, 2, 3, 5, 6, DELTA_TEXT, 8, 9))
"""PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, RLE_DICTIONARY,
DELTA_BYTE_ARRAY, BYTE_STREAM_SPLIT."""

Fields: TypeAlias = "dict[int, int | Fields]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A page as its header describes it."""

    kind: int
    content: int
    """The offset in the file at which its bytes begin."""
    compressed: int
    uncompressed: int
    values: int
    encoding: int
    checksum: int | None
    """CRC-32 of its stored bytes; None where none was written."""
    by_dictionary: bool
    repeats: bool
    """Its texts are differences: each is at most as long as the page, and only decoding shows how long."""


def pages_of(fd: int, start: int, end: int) -> Iterator[Page]:
    """The pages of a column chunk, which fill it.

    Raises:
        ValueError: for a header that isn't one, and pages that end elsewhere.
    """
    at = start
    while at < end:
        fields, size = _header(fd, at, end)
        page = _page(fields, at + size)
        if page.kind == DICTIONARY and at != start:
            raise ValueError("a dictionary lies behind its values")
        yield page
        at = page.content + page.compressed
    if at != end:
        raise ValueError("they don't end where their column does")


def _header(fd: int, at: int, end: int) -> tuple[Fields, int]:
    """The fields of the header at an offset of a file, and its size."""
    for most in (_PEEK, _MOST_HEADER):
        raw = os.pread(fd, min(most, end - at), at)
        try:
            return _struct(raw, 0, _DEPTH)
        except IndexError:
            continue
    raise ValueError("a header doesn't end")


def _page(fields: Fields, content: int) -> Page:
    kind, uncompressed, compressed = (_number(fields, each) for each in (1, 2, 3))
    if kind not in _OWN:
        raise ValueError(f"{kind} is no type of page")
    own = fields.get(_OWN[kind])
    if not isinstance(own, dict):
        raise ValueError("a header doesn't say what its page holds")
    values, encoding = _number(own, 1), _number(own, 4 if kind == DATA_V2 else 2)
    if encoding not in _ENCODINGS:
        raise ValueError(f"encoding {encoding} isn't used by this project")
    checksum = fields.get(4)
    return Page(
        kind=kind,
        content=content,
        compressed=compressed,
        uncompressed=uncompressed,
        values=values,
        encoding=encoding,
        checksum=checksum & 0xFFFFFFFF if isinstance(checksum, int) else None,
        by_dictionary=kind != DICTIONARY and encoding in _BY_DICTIONARY,
        repeats=encoding == DELTA_TEXT,
    )


def _number(fields: Fields, name: int) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or not 0 <= found < 1 << 31:
        raise ValueError(f"field {name} of a header is {found}")
    return found


def _struct(raw: bytes, at: int, depth: int) -> tuple[Fields, int]:
    """The fields of a structure by their numbers, and where it ends."""
    fields: Fields = {}
    last = 0
    while (head := raw[at]) != 0:
        at += 1
        kind = head & 0x0F
        if head >> 4:
            last += head >> 4
        else:
            last, at = _varint(raw, at, is_signed=True)
        if last in fields:
            raise ValueError(f"field {last} of a header stands twice")
        fields[last], at = _value(raw, at, kind, depth)
    return fields, at + 1


def _value(raw: bytes, at: int, kind: int, depth: int) -> "tuple[int | Fields, int]":
    """A value of a type, and where it ends; a text counts as the number of its bytes."""
    if _I16 <= kind <= _I64:
        number = raw[at]
        if number < 0x80:
            return number >> 1 ^ -(number & 1), at + 1
        return _varint(raw, at, is_signed=True)
    if kind in (_TRUE, _FALSE):
        return int(kind == _TRUE), at
    if kind == _BINARY:
        size, at = _varint(raw, at)
        if size > _MOST_HEADER:
            raise ValueError("a text in a header is too long")
        if at + size > len(raw):
            raise IndexError
        return size, at + size
    if kind == _STRUCT and depth:
        return _struct(raw, at, depth - 1)
    raise ValueError(f"{kind} is no field type of a header")


def _varint(raw: bytes, at: int, *, is_signed: bool = False) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends; a signed one has its sign in the lowest bit."""
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1 ^ -(value & 1) if is_signed else value), at
        shift += 7
        if shift > 63:
            raise ValueError("a number in a header is too long")
