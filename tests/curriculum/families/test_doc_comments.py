import doctest

import pytest

from curriculum.families import document_builder
from curriculum.families.document_builder import comment_above


def test_examples_in_docstrings_hold() -> None:
    done = doctest.testmod(document_builder)
    assert done.attempted
    assert not done.failed


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        (b"/** A. */\nint f();", b"/** A. */"),
        (b"/*! A\n */\n\nint f();", b"/*! A\n */"),
        (b"/// A.\n/// B.\nint f();", b"/// A.\n/// B."),
        (b"// A.\nEXPORT\nint f();", b"// A."),
        (b"/* A */ int f();", None),
        (b"int f();", None),
        (b"/* without end", None),
    ],
)
def test_a_comment_has_its_lines_to_itself(text: bytes, comment: bytes | None) -> None:
    found = comment_above(text, 0, len(text))
    assert (text[found.start : found.end] if found else None) == comment
    if found:
        assert text[: found.code].strip() == comment
