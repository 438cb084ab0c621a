"""Labels of the elements of a page are markdown to marimo: no text of others gets into one."""

import ast
from pathlib import Path

import marimo as mo
import pytest

import dashboards
from dashboards import frame

PAGES = sorted(Path(dashboards.__file__).parent.rglob("*.py"))
HOSTILE = "<img src=x onerror=alert(1)>**b**'\""


def _labels(text: str) -> list[ast.expr]:
    """Return expressions that are labels of elements or markdown."""
    found: list[ast.expr] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("mo.ui."):
            found += [
                each.value for each in node.keywords if (each.arg or "label").endswith("label")
            ]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "mo.md":
            found += node.args
    return found


def test_the_search_finds_labels() -> None:
    text = "mo.ui.slider(0, 1, label=name)\nmo.ui.form(submit_button_label=name)\nmo.md(name)"
    assert len(_labels(text)) == 3
    assert len(_labels("mo.ui.slider(0, 1, **given)")) == 1


def test_pages_have_labels() -> None:
    assert sum(len(_labels(page.read_text())) for page in PAGES) >= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_labels_are_words_of_our_own(page: Path) -> None:
    for each in _labels(page.read_text()):
        if isinstance(each, ast.Call):
            assert ast.unparse(each.func) == "frame.label"
        else:
            assert isinstance(each, ast.Constant), ast.unparse(each)


def test_a_label_of_others_is_text() -> None:
    """Families of imported rows are what their writers call them."""
    shown = f"{mo.ui.slider(0, 1, label=frame.label(HOSTILE + ' [a](b:c) `d` $e$ _f_'))}"
    assert "onerror" in shown
    for tag in ("<img", "u003cimg", "u003cstrong", "u003ca ", "u003ccode", "u003cem", "marimo-tex"):
        assert tag not in shown
    assert "u003cimg" in f"{mo.ui.slider(0, 1, label=HOSTILE)}", "a label is markdown"


def test_a_name_to_choose_is_text() -> None:
    """Names of specialists and phases are options, which stand in an attribute."""
    shown = f"{mo.ui.dropdown([HOSTILE], value=HOSTILE)}"
    assert "onerror" in shown
    assert "<img" not in shown
    assert "<b" not in shown
    assert "strong" in f"{mo.ui.dropdown([HOSTILE], label=HOSTILE)}", "a label is markdown"
