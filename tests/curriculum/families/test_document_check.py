import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from curriculum.families.document_check import check_document
from curriculum.families.render import render
from schemas.change import FileChange
from schemas.document import Document, Part, Span
from schemas.errors import SchemaError
from tests.error_fields import fields

MakeChange = Callable[..., FileChange]


@pytest.fixture
def sound(make_change: MakeChange) -> Document:
    (document,) = render(
        make_change("int a;\n\nint b;\n", "int c;\n\nint b;\n"), ["v3_simple"]
    ).documents
    return document


def test_a_sound_document_passes(sound: Document) -> None:
    check_document(sound)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": "short"}, "text of 5 bytes"),
        ({"parts": ()}, "parts of 0 bytes"),
        ({"provenance": ()}, "source 0"),
    ],
)
def test_a_broken_document_is_named(sound: Document, change: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        check_document(dataclasses.replace(sound, **change))


def test_a_part_inside_a_line_is_refused(sound: Document) -> None:
    size = len(sound.text.encode())
    parts = (Part(kind="code", start=0, end=3), Part(kind="code", start=3, end=size))
    with pytest.raises(SchemaError, match="line", check=fields(value="part at 3")):
        check_document(dataclasses.replace(sound, parts=parts, provenance=()))


def test_an_empty_part_is_refused(sound: Document) -> None:
    parts = (
        Part(kind="code", start=0, end=0),
        dataclasses.replace(sound.parts[0]),
        *sound.parts[1:],
    )
    with pytest.raises(SchemaError, match="empty", check=fields(value="part at 0")):
        check_document(dataclasses.replace(sound, parts=parts))


@pytest.mark.parametrize(
    "ranges", [[(4, 4)], [(-1, 3)], [(0, 10**6)], [(3, 6), (5, 8)], [(6, 8), (1, 2)]]
)
def test_spans_outside_or_in_disorder_are_refused(
    sound: Document, ranges: list[tuple[int, int]]
) -> None:
    spans = tuple(Span(kind="body", start=start, end=end) for start, end in ranges)
    with pytest.raises(SchemaError):
        check_document(dataclasses.replace(sound, spans=spans))


def test_a_source_that_is_not_tiled_is_refused(sound: Document) -> None:
    source = dataclasses.replace(sound.provenance[0], end=sound.provenance[0].end + 1)
    provenance = (source, *sound.provenance[1:])
    name = f"document {sound.document_id} ({sound.family})"
    with pytest.raises(SchemaError, match=source.path, check=fields(name=name)):
        check_document(dataclasses.replace(sound, provenance=provenance))
