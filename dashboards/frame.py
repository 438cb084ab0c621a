"""Frame of all pages: their head, their names, and the card of a panel."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib import resources
from urllib.parse import urlencode

from dashboards import workspace
from dashboards.palette import family_colours, properties
from dashboards.questions import Question
from schemas.visible import visible


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
STYLE_PATH = "/style.css"
HEAD = f'<link rel="stylesheet" href="{STYLE_PATH}"><meta name="color-scheme" content="light dark">'
"""Tags in the head of every page."""


def style() -> str:
    """The stylesheet of all pages."""
    ours = "".join(
        (resources.files("dashboards") / name).read_text(encoding="utf-8")
        for name in ("pages.css", "sql.css")
    )
    light = "".join(f"--{name}:{pair.light};" for name, pair in family_colours().items())
    dark = "".join(f"--{name}:{pair.dark};" for name, pair in family_colours().items())
    classes = "".join(f".{name}{{--c:var(--{name})}}" for name in family_colours())
    return (
        f"{properties()}:root{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{classes}{ours}"
    )


def family(name: str) -> str:
    """The class that gives a family its colour; none for one that we don't know."""
    return name if name in family_colours() else ""


def header(page: str, said: str = "") -> str:
    """The top of a page: the workspace, the pages, and what else there is to say."""
    home = str(workspace.home())
    links = "".join(
        f'<a href="../{each.name}/"{_here(each, page)}>{each.title}</a>' for each in PAGES
    )
    name = workspace.home().name
    return (
        f'<header class="top" id="top"><h1>{text(name)}</h1><nav aria-label="Pages">{links}</nav>'
        f'<p title="{text(home)}">{text(said or home)}</p></header>'
    )


def _here(each: Page, page: str) -> str:
    return ' aria-current="page"' if each.name == page else ""


def card(name: str, title: str, body: str, *, why: str = "", asked: Iterable[Question] = ()) -> str:
    """A panel: its id, what it shows, and one click away the questions that its figures answer."""
    said = f"<p>{text(why)}</p>" if why else ""
    return (
        f'<section class="card" id="{name}"><h2>{text(title)}</h2>{said}{body}'
        f"{''.join(sql_of(each) for each in asked)}</section>"
    )


def sql_of(of: Question) -> str:
    """A question that unfolds to its SQL, with the way to where it can be changed."""
    return (
        f'<details class="sql" data-question="{of.name}"><summary>SQL</summary>'
        f'<p>{text(of.words)}</p><pre tabindex="0">{text(of.sql)}</pre>'
        f'<a href="{sql_link(of.sql)}">Open it on the SQL page</a></details>'
    )


def sql_link(sql: str) -> str:
    """The SQL page with a question in its editor."""
    return text(f"../sql/?{urlencode({'q': sql})}")


def problem(name: str, title: str, said: str) -> str:
    """A panel that says what is wrong."""
    return f'<section class="card problem" id="{name}"><h2>{text(title)}</h2><p>{text(said)}</p></section>'


def text(said: str) -> str:
    """Text that people wrote, between tags or in a quoted attribute; what can't be seen is written out."""
    return escape(visible(said))
