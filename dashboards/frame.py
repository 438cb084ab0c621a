"""Common parts of the interactive pages: their names, style sheet, header and controls."""

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from curriculum.pipeline.next_steps import NextStep
from dashboards import html, palette, workspace
from dashboards.charts.marks import element
from schemas.visible import visible

TEMPLATE = "panels.html"


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """An interactive page, as links and addresses name it."""

    name: str
    """Module name and path segment."""
    title: str


PAGES = (
    Page(name="overview", title="Overview"),
    Page(name="mixtures", title="Mixtures"),
    Page(name="runs", title="Runs compared"),
    Page(name="sql", title="SQL"),
)
STYLES = ("scroll.css", "plot.css", "settings.css", "pages.css", "pipeline.css", "sql.css")
STYLE_PATH = "/style.css"
MANIFEST_PATH, REPORTS_PATH, ABLATIONS_PATH = "/manifest/", "/reports/", "/ablations/"
"""Paths of pages without controls, which are not marimo apps."""
SCRIPT_PATH = "/pages.js"
HEAD = (
    f'<link rel="stylesheet" href="..{STYLE_PATH}"><meta name="color-scheme" content="light dark">'
    f'<script src="..{SCRIPT_PATH}" defer></script>'
)
"""Tags in the head of every page."""


def style() -> str:
    """Return the style sheet of all pages."""
    colours = palette.properties() + palette.family_style() + palette.series_style()
    return colours + "".join(map(html.asset, STYLES))


def script() -> str:
    """Return the script of all pages."""
    return html.asset("pages.js")


def header(page: str) -> Markup:
    """Return the header of a page: the name of the workspace and links to all pages."""
    home = workspace.home()
    plain = (("Ablations", ABLATIONS_PATH), ("Reports", REPORTS_PATH))
    return html.part(TEMPLATE, "header", str(home), home.name, PAGES, page, plain)


def first_steps(title: str, why: str, steps: Iterable[NextStep]) -> Markup:
    """Return a panel for pages without data, with first commands and their effects."""
    return html.part(TEMPLATE, "first_steps", title, why, steps)


def choices(*controls: object, name: str = "choice") -> Markup:
    """Return controls, each of which has its own label, side by side; `name` is the id of their box."""
    return html.part(TEMPLATE, "choices", name, [control(choice) for choice in controls])


def control(element: object) -> Markup:
    """Return a marimo element as markup; marimo escapes its content."""
    return html.trusted(f"{element}")


def label(text: str) -> str:
    """Escape a text for use as the label of a marimo control; marimo renders labels as Markdown and HTML.

    >>> label("v3_simple <b>"), label("a*b")
    ('v3&#95;simple &#60;b&#62;', 'a&#42;b')
    """
    return "".join(
        character if character.isalnum() or character in " ,." else f"&#{ord(character)};"
        for character in visible(text)
    )


def side_by_side(*panels: Markup) -> Markup:
    """Return panels in columns if the window is wide enough, and below each other otherwise."""
    return element("div", *panels, class_="cards")


def shown(*panels: Markup) -> str:
    """Return panels as one plain string, because marimo accepts no Markup objects."""
    return "".join(map(str, panels))
