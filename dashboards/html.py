"""HTML from templates: every value is escaped, and a page runs its own style and script and nothing else.

Values are escaped by the environment, and characters that a reader can't see are written out. No template
marks a value as safe: markup of our own is made by `trusted`, for styles, scripts, data and pictures.
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
    """The one environment of all pages."""
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
    """A whole template, filled with values."""
    return trusted(environment().get_template(template).render(values))


def part(template: str, macro: str, *values: object, **named: object) -> Markup:
    """The output of one macro of a template."""
    filled: Markup = getattr(environment().get_template(template).module, macro)(*values, **named)
    return filled


def sentence(text: str, script: str = "") -> str:
    """Return a page of one sentence and at most one script of our own."""
    return str(render("sentence.html", text=text, script=trusted(script)))


def page(template: str, *, style: str, script: str = "", **values: object) -> str:
    """A page that is bound to itself: no request, and no style or script but these."""
    own = {"policy": policy(style, script), "style": trusted(style), "script": trusted(script)}
    return str(render(template, **own, **values))


def asset(name: str) -> str:
    """The text of a style or of a script beside the templates."""
    return (resources.files("dashboards") / TEMPLATES / name).read_text(encoding="utf-8")


def policy(style: str, script: str = "") -> Markup:
    """The policy that allows one style and one script, where there is one, and nothing beside."""
    allowed = digest(script) if script else "'none'"
    return trusted(
        f"default-src 'none'; style-src {digest(style)}; script-src {allowed}; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    """The source expression of a policy that allows a style or a script of this text, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def trusted(text: str) -> Markup:
    """Mark text as markup: the only place, for what this project wrote or has escaped."""
    return Markup(text)


def escaped(text: str) -> Markup:
    """Text between tags or in a quoted attribute; markup stays as it is."""
    return text if isinstance(text, Markup) else escape(visible(text))


def long_text(text: str) -> Markup:
    """Text between tags, never in an attribute: its quotes stay as they are, which saves bytes in code."""
    return trusted(html.escape(visible(text), quote=False))


def data(content: dict[str, Any]) -> Markup:
    """JSON for a page's script; no word in it may end the element that it is in."""
    return trusted(json.dumps(content, separators=(",", ":")).replace("<", r"\u003c"))
