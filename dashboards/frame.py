"""Frame of the interactive pages: their names, their style, and the parts that all of them have."""

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
    """One of the pages."""

    name: str
    """Name of its module, and in its address."""
    title: str


PAGES = (
    Page(name="overview", title="Overview"),
    Page(name="mixtures", title="Mixtures"),
    Page(name="runs", title="Runs compared"),
    Page(name="sql", title="SQL"),
)
STYLES = ("scroll.css", "plot.css", "pages.css", "pipeline.css", "sql.css")
STYLE_PATH = "/style.css"
MANIFEST_PATH, REPORTS_PATH, ABLATIONS_PATH = "/manifest/", "/reports/", "/ablations/"
"""Pages without controls, which are no notebooks."""
SCRIPT_PATH = "/pages.js"
HEAD = (
    f'<link rel="stylesheet" href="..{STYLE_PATH}"><meta name="color-scheme" content="light dark">'
    f'<script src="..{SCRIPT_PATH}" defer></script>'
)
"""Tags in the head of every page."""


def style() -> str:
    """The stylesheet of all pages."""
    colours = palette.properties() + palette.family_style() + palette.series_style()
    return colours + "".join(map(html.asset, STYLES))


def script() -> str:
    """The script of all pages."""
    return html.asset("pages.js")


def header(page: str) -> Markup:
    """The top of a page: the workspace and the pages."""
    home = workspace.home()
    plain = (("Ablations", ABLATIONS_PATH), ("Reports", REPORTS_PATH))
    return html.part(TEMPLATE, "header", str(home), home.name, PAGES, page, plain)


def first_steps(title: str, why: str, steps: Iterable[NextStep]) -> Markup:
    """A panel of commands with their effects, where there is nothing to show yet."""
    return html.part(TEMPLATE, "first_steps", title, why, steps)


def choices(*controls: object) -> Markup:
    """Controls of a page's choices side by side; each has a label of its own."""
    return html.part(TEMPLATE, "choices", [control(each) for each in controls])


def control(element: object) -> Markup:
    """An element of marimo's as markup, which it escapes itself."""
    return html.trusted(f"{element}")


def label(text: str) -> str:
    """A text as the label of an element of marimo's, which would read it as Markdown and as HTML.

    >>> label("v3_simple <b>"), label("a*b")
    ('v3&#95;simple &#60;b&#62;', 'a&#42;b')
    """
    return "".join(
        each if each.isalnum() or each in " ,." else f"&#{ord(each)};" for each in visible(text)
    )


def side_by_side(*panels: Markup) -> Markup:
    """Panels in columns, where the window is wide enough."""
    return element("div", *panels, class_="cards")


def shown(*panels: Markup) -> str:
    """Panels as plain text, since marimo takes no other strings."""
    return "".join(map(str, panels))
