"""Templates escape whatever they are given, and markup is made in one place."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

import dashboards
from curriculum.pipeline.next_steps import NextStep
from dashboards import html
from dashboards.charts import marks, plots
from tests.flows.html_text import Read

FOLDER = Path(dashboards.__file__).parent
TEMPLATES = sorted((FOLDER / html.TEMPLATES).glob("*.html"))
MODULES = sorted(FOLDER.rglob("*.py"))
EVIL = '</script><img src=x onerror="alert(1)">{{ 7 * 7 }}\'&\u202e\0'
WRITTEN = re.compile(r"\b(?:safe|autoescape|unsafe)\b")


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_no_template_takes_a_value_for_markup(file: Path) -> None:
    tags = re.findall(r"(?s){[{%].*?[%}]}", file.read_text())
    assert tags
    assert [tag for tag in tags if WRITTEN.search(tag)] == []


def test_the_search_finds_a_template_that_would() -> None:
    assert WRITTEN.search("{{ name|safe }}")
    assert WRITTEN.search("{% autoescape false %}")


def _markup_makers(file: Path) -> list[str]:
    """Calls that make markup of text, but for an empty one."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] == "Markup"
        and node.args
    ]


def test_markup_is_made_in_one_place() -> None:
    makers = {file.name: found for file in MODULES if (found := _markup_makers(file))}
    assert makers == {"html.py": ["Markup(text)"]}


def test_only_these_modules_mark_text_of_their_own_as_markup() -> None:
    users = {file.name for file in MODULES if re.search(r"\btrusted\(", file.read_text())}
    assert users == {"html.py", "marks.py", "frame.py"}, "pictures, and marimo's elements"


@given(st.text(max_size=30))
def test_any_text_is_text(text: str) -> None:
    assert Read(html.sentence(text)).tags == Read(html.sentence("")).tags


def test_a_value_is_escaped_wherever_a_macro_puts_it() -> None:
    calm = Read(
        html.part("panels.html", "first_steps", "x", "x", [NextStep(command="x", effect="x")])
    )
    read = Read(
        html.part("panels.html", "first_steps", EVIL, EVIL, [NextStep(command=EVIL, effect=EVIL)])
    )
    assert read.tags == calm.tags
    assert read.attributes == calm.attributes
    assert "\u202e" not in read.said
    assert "{{ 7 * 7 }}" in read.said, "a text is no template"


def test_an_attribute_is_never_left() -> None:
    read = Read(html.part("panels.html", "header", EVIL, EVIL, (), "", ((EVIL, EVIL),)))
    assert {name for name, _ in read.attributes} == {"class", "id", "aria-label", "title", "href"}
    assert read.tags == ["header", "h1", "nav", "a", "p"]


def test_pictures_escape_their_texts_and_their_labels() -> None:
    part = marks.BarPart(share=0.5, look="own", title=EVIL)
    drawn = str(marks.stacked_bar([part], label=EVIL))
    assert "<img" not in drawn
    assert Read(drawn).tags == ["svg", "rect", "title"]
    lines = [
        plots.Series(
            name=EVIL, figure=EVIL, look=EVIL, points=[(0, 1.0), (1, 2.0)], is_line=is_line
        )
        for is_line in (True, False, False)
    ]
    scale = plots.within(0, 2)
    plot = plots.plot(lines, x=scale, y=scale, label=EVIL, below=EVIL, marks=[(0.5, EVIL)])
    assert "img" not in Read(str(plot)).tags


@given(st.dictionaries(st.text(max_size=9), st.text(max_size=30), max_size=3))
def test_data_never_ends_its_script(content: dict[str, str]) -> None:
    assert "<" not in html.data(content)


def test_a_value_that_is_missing_is_an_error_and_not_a_gap() -> None:
    with pytest.raises(UndefinedError, match="text"):
        html.render("sentence.html")


def test_a_text_that_is_long_keeps_its_quotes_and_nothing_else() -> None:
    assert html.long_text("a \"b\" 'c' <d> &\u202e") == "a \"b\" 'c' &lt;d&gt; &amp;\\u202e"


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_every_template_is_found_in_the_package_and_compiles(file: Path) -> None:
    assert html.environment().get_template(file.name).filename == str(file)
