import re

from hypothesis import given
from hypothesis import strategies as st

from curriculum.corpus.code_marks import MARKS, QUOTES, replace_marks

COMMENTS = re.compile(
    rb"//[^\n]*|/\*.*?(?:\*/|\Z)|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+')", re.DOTALL
)
STRINGS = re.compile(rb"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL)
TEXTS = st.lists(
    st.sampled_from([b"a", b" ", b"\n", b"\\", b'"', b"'", b'\\"', b"/", b"*", b"//", b"/*", b"*/"])
).map(b"".join)


@given(TEXTS)
def test_comments_and_literals_are_those_of_a_regular_expression(text: bytes) -> None:
    expected = COMMENTS.sub(lambda found: found[1] or b" ", text)
    found = replace_marks(text, MARKS, lambda mark: b" " if mark.startswith(b"/") else mark)
    assert found == expected


@given(TEXTS)
def test_literals_are_those_of_a_regular_expression(text: bytes) -> None:
    assert replace_marks(text, QUOTES, lambda _: b"%") == STRINGS.sub(b"%", text)
