"""Expressions that never try a place twice match what their plain forms match."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph import macros, structure
from curriculum.graph.clang import frontend
from curriculum.graph.spelling import type_of, using_of

LAST_NAME = re.compile(rb"~?[A-Za-z_]\w*\s*$")
ENABLING = re.compile(rb"(ENABLE_IF\w*)\(")
GUARD = re.compile(rb"#[ \t]*ifndef[ \t]+(\w+)[^\n]*\n[ \t]*#[ \t]*define[ \t]+\1\b[^\n]*")
USING = re.compile(r"using\s+(?:namespace\s+|enum\s+)?(?:typename\s+)?([\w:\s]+?)\s*;")


def _bytes(*pieces: str) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(pieces), max_size=9).map(lambda some: "".join(some).encode())


@given(_bytes("a", "_", "9", "~", " ", "\n", ".", "::"))
def test_the_last_name_is_the_one_that_ends_a_text(text: bytes) -> None:
    found = LAST_NAME.search(text)
    assert frontend.last_name(text) == (found[0].decode().strip() if found else "")


@given(_bytes("ENABLE_IF", "ENABLE", "A", "_", "(", " "))
def test_enabling_macros_are_those_of_the_plain_form(text: bytes) -> None:
    expected = [found.span(1) for found in ENABLING.finditer(text)]
    assert [found.span(1) for found in macros._ENABLING.finditer(text)] == expected


@given(_bytes("A", "_H", "#", " ", "ifndef ", "define ", "\n", "#ifndef A", "\n#define A"))
def test_guards_are_those_of_the_plain_form(text: bytes) -> None:
    expected, found = GUARD.match(text), structure._GUARD.match(text)
    is_guard = found is not None and found[1].startswith(found[2])
    assert is_guard is (expected is not None)
    if found and expected:
        assert found.span() == expected.span()


@given(
    st.lists(st.sampled_from(["using", " ", "namespace ", "enum ", "typename ", "a", "::", ";"]))
)
def test_names_in_using_declarations_are_those_of_the_plain_form(pieces: list[str]) -> None:
    text = "".join(["using ", *pieces])
    found = USING.match(text)
    assert using_of(text) == ("".join(found[1].split()) if found else "")


@pytest.mark.parametrize("spaces", [10, 1_900])
def test_a_type_without_a_name_behind_many_spaces_is_none(spaces: int) -> None:
    start = time.process_time()
    assert type_of(f"[[a]]{' ' * spaces}!") == ("", "")
    assert time.process_time() - start < 1
