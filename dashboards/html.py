"""HTML from templates. All values are escaped, and a page runs only its own style and script.

The Jinja environment escapes values and makes invisible characters visible. Templates never mark values as
safe. Only `trusted` does that, for markup of this project: styles, scripts, data and charts.
"""

import base64
import hashlib
import html
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from curriculum.inspection import formats
from schemas.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = "templates"


@cache
def environment() -> "Environment":
    """Return the Jinja environment that renders all pages."""
    # Commands that write no page import this module too.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("dashboards", TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_written_out,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        bits=formats.bits,
        count=formats.count,
        difference=formats.difference,
        duration=formats.duration,
        gpu_hours=formats.gpu_hours,
        integer=formats.integer,
        interval=formats.interval,
        held_out=formats.held_out_words,
        moment=formats.moment,
        money=formats.money,
        number=formats.number,
        percent=formats.percent,
        rule=formats.rule,
        long_text=long_text,
    )
    return made


def _written_out(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(template: str, **values: object) -> Markup:
    """Render a template with values."""
    return trusted(environment().get_template(template).render(values))


def part(template: str, macro: str, *values: object, **named: object) -> Markup:
    """Return the output of one macro of a template."""
    filled: Markup = getattr(environment().get_template(template).module, macro)(*values, **named)
    return filled


def sentence(text: str, script: str = "") -> str:
    """Return a page that has only one sentence and at most one script."""
    return str(render("sentence.html", text=text, script=trusted(script)))


def page(template: str, *, style: str, script: str = "", **values: object) -> str:
    """Return a page that needs no other files: it sends no requests and allows only this style and script."""
    own = {"policy": policy(style, script), "style": trusted(style), "script": trusted(script)}
    return str(render(template, **own, **values))


def asset(name: str) -> str:
    """Return the text of a style sheet or script in the templates folder."""
    return (resources.files("dashboards") / TEMPLATES / name).read_text(encoding="utf-8")


def policy(style: str, script: str = "") -> Markup:
    """Return the content security policy that allows one style and at most one script."""
    allowed = digest(script) if script else "'none'"
    return trusted(
        f"default-src 'none'; style-src {digest(style)}; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    """Return the digest by which a content security policy allows a style or script with this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def trusted(text: str) -> Markup:
    """Mark text as markup that isn't escaped again; the text must be escaped or come from this project.

    No other function of this package does so.
    """
    return Markup(text)


def escaped(text: str) -> Markup:
    """Escape text for use between tags or in a quoted attribute; markup stays unchanged."""
    return text if isinstance(text, Markup) else escape(visible(text))


def long_text(text: str) -> Markup:
    """Escape long text for use between tags only.

    Quotes aren't escaped, which saves many bytes in code.
    """
    return trusted(html.escape(visible(text), quote=False))


def data(content: dict[str, Any]) -> Markup:
    """Return JSON for the script of a page, escaped so that no value can close the script element."""
    return trusted(json.dumps(content, separators=(",", ":")).replace("<", r"\u003c"))
