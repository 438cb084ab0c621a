import pytest

from curriculum.families.context import comment_above


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
