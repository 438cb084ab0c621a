from hypothesis import given
from hypothesis import strategies as st

from curriculum.graph.cmake_graph import commands_of


def said(text: str) -> list[tuple[str, list[str]]]:
    return [(each.name, [a.text for a in each.arguments]) for each in commands_of(text).commands]


def test_arguments_are_unquoted_quoted_or_between_brackets() -> None:
    text = 'add_library(a one "two words" [=[three\n]]\nfour]=] x;y)\n'
    assert said(text) == [("add_library", ["a", "one", "two words", "three\n]]\nfour", "x", "y"])]
    assert commands_of(text).is_complete


def test_command_names_are_lowered() -> None:
    assert said("Add_Library (a)\n") == [("add_library", ["a"])]


def test_comments_are_no_arguments() -> None:
    text = "#[[ f(x)\n]] g(a # b)\n  #[not a bracket ]] c)\n c) # d\n"
    assert said(text) == [("g", ["a", "c"])]
    assert commands_of(text).is_complete


def test_parentheses_nest_among_arguments() -> None:
    assert said("if((A AND B) OR C)\n") == [("if", ["A", "AND", "B", "OR", "C"])]
    assert said("f(" + "(" * 100_000 + "a" + ")" * 100_000 + ")\n") == [("f", ["a"])]


def test_only_plain_text_is_literal() -> None:
    text = r'f(a "b c" ${d} "${e}" $<f:g> \${h} @i@ [[${j}]] k@2)'
    (command,) = commands_of(text).commands
    literal = [each.text for each in command.arguments if each.is_literal]
    assert literal == ["a", "b c", "${j}", "k@2"]


def test_legacy_arguments_may_hold_quotes() -> None:
    assert said('f(-Da="b c" $(MAKE) d)\n') == [("f", ['-Da="b c"', "$(MAKE)", "d"])]


def test_quotes_may_span_lines() -> None:
    assert said('f("a\nb" "c\\\nd" "e\\"f")\n') == [("f", ["a\nb", "cd", 'e\\"f'])]


def test_a_command_knows_its_lines() -> None:
    text = "é(1)\n  f(a\n    b)  # c\ng()"
    data = text.encode()
    lines = [
        data[each.lines.start : each.lines.end].decode() for each in commands_of(text).commands
    ]
    assert lines == ["  f(a\n    b)  # c\n", "g()"]
    assert not commands_of(text).is_complete


def test_what_is_no_command_is_passed_over() -> None:
    found = commands_of("<<<<<<< ours\nf(a)\n=======\ng(b)\n")
    assert [each.name for each in found.commands] == ["f", "g"]
    assert not found.is_complete


def test_nothing_is_read_past_a_missing_end() -> None:
    for broken in ("g(a\nh(b)\n", 'g("a)\nh()\n', "g([[a)\nh()\n", "#[[ a\nh()\n"):
        found = commands_of("f(x)\n" + broken)
        assert [each.name for each in found.commands] == ["f"]
        assert not found.is_complete


def test_hostile_texts_cost_linear_time() -> None:
    for text in (
        "[[" * 300_000,
        "a(" * 300_000,
        'f("' * 200_000,
        "f() " * 200_000,
        "#[[" * 200_000,
    ):
        commands_of(text)


@given(st.text(st.sampled_from('ab_ \n()[]=#"\\$@;{}é'), max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    data = text.encode()
    for command in commands_of(text).commands:
        start, end = command.lines
        assert 0 <= start < end <= len(data)
        assert start == 0 or data[start - 1 : start] == b"\n"
        assert end == len(data) or data[end - 1 : end] == b"\n"


@given(
    st.lists(st.tuples(st.from_regex(r"[a-z_]+", fullmatch=True), st.lists(st.text(max_size=8))))
)
def test_commands_that_are_written_are_read(
    commands: list[tuple[str, list[str]]],
) -> None:
    def quoted(text: str) -> str:
        return "[====[\n" + text + "]====]"

    safe = [(name, [each.replace("]", "") for each in values]) for name, values in commands]
    text = "".join(f"{name}({' '.join(map(quoted, values))})\n" for name, values in safe)
    assert said(text) == safe
    assert commands_of(text).is_complete
