import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.families.document_builder import MAX_SUBJECT_LENGTH, DocumentBuilder, header
from curriculum.graph.facts import Range
from curriculum.graph.outline import outline
from schemas.change import FileChange
from schemas.corpus import LANGUAGES, Language

MakeChange = Callable[..., FileChange]

HOSTILE = st.lists(
    st.sampled_from(
        ["*/", "/*", "\n", "\\", "??/", "@file", "\\brief", "*", "/", " ", "a", "\u2028"]
    )
    | st.text(max_size=5)
).map("".join)


@given(
    subject=HOSTILE,
    path=HOSTILE,
    old=HOSTILE,
    repository=HOSTILE,
    language=st.sampled_from(LANGUAGES),
)
def test_nothing_from_outside_leaves_the_comment(
    make_change: MakeChange, subject: str, path: str, old: str, repository: str, language: Language
) -> None:
    change = make_change(
        "a", "b", subject=subject, path=path, old_path=old, repository=repository, language=language
    )
    for style in ("simple", "doxygen"):
        text = header(change, side="change", style=style).text
        text.encode()
        assert text.endswith("\n\n")
        block = text.removesuffix("\n\n")
        assert not re.search(r"(\\|\?\?/)[ \t\f\v\0]*$", block, re.MULTILINE)
        if style == "doxygen" and language in ("cpp", "c"):
            assert block.startswith("/**\n")
            assert block.endswith("\n */")
            assert block.count("*/") == 1
            assert block.count("/*") == 1
        else:
            mark = "//" if language in ("cpp", "c") else "#"
            assert all(line.startswith(mark) for line in block.split("\n"))


def test_a_subject_cannot_invent_tags(make_change: MakeChange) -> None:
    change = make_change("a", "b", subject="@param x \\return y, a@b.org")
    block = header(change, side="change", style="doxygen").text
    assert " * @remark Subject: @@param x \\\\return y, a@b.org\n" in block


def test_facts_that_are_not_known_are_left_out(make_change: MakeChange) -> None:
    change = make_change(None, "b", subject="", commit="", timestamp=10**18)
    text = header(change, side="after", style="doxygen").text
    assert text == "/**\n * @file src/a.cc\n * @remark Repository: sample\n */\n\n"


def test_a_long_subject_is_cut_where_one_sees_it(make_change: MakeChange) -> None:
    change = make_change("a", "b", subject="word " * 1_000)
    (line,) = re.findall("// Subject: (.*)", header(change, side="after", style="simple").text)
    assert len(line) <= MAX_SUBJECT_LENGTH
    assert line.endswith("word…")


def test_build_files_have_doxygen_blocks_of_hashes(make_change: MakeChange) -> None:
    text = header(make_change("a", "b", language="cmake"), side="after", style="doxygen").text
    assert text.startswith("##\n# @file src/a.cc\n# @remark Subject: Mend it\n")


@pytest.mark.parametrize(
    ("first_line", "declared"), [(0, ["int f();", "int g();"]), (1, ["int g();"])]
)
def test_a_declaration_is_marked_only_below_its_own_documentation(
    first_line: int, declared: list[str]
) -> None:
    """The lines that are shown begin with the first comment, or within it."""
    text = "/** Some\n * words. */\nint f();\n\n/** Others. */\nint g();\n"
    lines, builder = outline(text, "cpp"), DocumentBuilder()
    data, start = text.encode(), int(lines.starts[first_line])
    builder.excerpt(data, lines, Range(start, len(data)), source=0, rank=None)
    marked = [span for span in builder.spans if span.kind == "declaration"]
    assert [text[start:][span.start : span.end] for span in marked] == declared
