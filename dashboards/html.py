"""Templates as pages that are bound to themselves: their own style and script, and no request.

A page's policy names its style and its script by their digests, so that nothing else is run, whatever a
repository's text holds.
"""

import base64
import hashlib
import html
import re
from importlib import resources

from schemas.visible import visible

_SLOT = re.compile(r"\{\{(\w+)\}\}")


def template(name: str) -> str:
    """The text of a template of the dashboards."""
    return (resources.files("dashboards") / name).read_text(encoding="utf-8")


def fill(text: str, slots: dict[str, str]) -> str:
    """Slots filled in one pass, so that nothing that is put in is taken for a slot; others stay."""
    return _SLOT.sub(lambda found: slots.get(found[1], found[0]), text)


def policy(page: str) -> str:
    """The policy that allows a page's one style and its script, if it has one, and nothing beside."""
    return (
        f"default-src 'none'; style-src {_digest('style', page)}; script-src {script_digest(page)}; "
        "base-uri 'none'; form-action 'none'"
    )


def script_digest(page: str) -> str:
    """The source expression of a policy that allows the script of a page, or of a template, and no other."""
    return _digest("script", page)


def _digest(tag: str, page: str) -> str:
    found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    if found is None:
        return "'none'"
    digest = hashlib.sha256(found[1].encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def escaped(text: str) -> str:
    """Text between tags, never inside one; what a reader can't see is written out."""
    return html.escape(visible(text), quote=False)


def quoted(text: str) -> str:
    """Text inside a quoted attribute."""
    return escaped(text).replace('"', "&quot;")
