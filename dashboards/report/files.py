"""Reports of a workspace as files: the one at a path, and the policy that it is shown under.

A report may have come with somebody else's workspace. So no page says what it may do: it is shown without an
origin, so that it has no cookies and no neighbours, it loads nothing and sends nothing, and of scripts only
those of our own templates run. Tags that no template of ours writes are shown as text. Links, pipes and files
beyond MAX_BYTES are no reports.
"""

import contextlib
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from dashboards import html
from schemas import regular_files

FOLDER = "rows"
"""Below the reports: the pages that they lead to."""
_NAME = re.compile(rf"((?:{FOLDER}/)?[A-Za-z0-9][A-Za-z0-9._@-]*\.html)", re.ASCII)
_SCRIPTS = ("report.js", "rows.js")
ELEMENTS = (
    *("a", "article", "b", "bdi", "button", "circle", "code", "dd", "details", "div", "dl", "dt"),
    *("footer", "g", "h1", "h2", "h3", "h4", "header", "html", "i", "input", "kbd", "li", "line"),
    *("main", "nav", "output", "p", "path", "polygon", "polyline", "pre", "rect", "section"),
    *("small", "span", "style", "summary", "svg", "table", "tbody", "td", "template", "text"),
    *("th", "thead", "time", "title", "tr", "tspan", "ul"),
)
"""Elements of our templates that can't open a connection under the policy, whatever their attributes are."""
TAGS = (
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width">',
    '<meta name="color-scheme" content="light dark">',
    '<meta name="referrer" content="no-referrer">',
    '<script type="application/json" id="data">',
    "<script>",
)
"""Other tags of our templates, beside that of a policy, which can only forbid more."""
_POLICY_TAG = (
    """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; [^"<>]*">"""
)
_FOREIGN = re.compile(
    rf"(?!<(?:{'|'.join(ELEMENTS)})[ \t\n\f\r/>]|{'|'.join(map(re.escape, TAGS))}|{_POLICY_TAG})"
    "<(?=[A-Za-z])"
)
"""Begin of a tag that no template of ours writes: HTML begins a tag at < before a letter of ASCII."""
MAX_BYTES = 64 << 20
"""Bytes of a page."""


def page(folder: Path, name: str) -> str | None:
    """A report of a folder of reports, or a page below it; None for what is neither.

    No policy keeps a browser from connecting to where a link element or a page inside the page leads.
    """
    try:
        return _FOREIGN.sub("&lt;", read(folder, name)) if _NAME.fullmatch(name) else None
    except (OSError, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def _opened(folder: Path | str, *, beside: int | None = None) -> Iterator[int]:
    """A folder that is no link, as a descriptor."""
    descriptor = regular_files.folder(folder, beside=beside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names(folder: Path) -> list[str]:
    """The names of the reports; none where there is no folder of them."""
    try:
        with _opened(folder) as reports, os.scandir(reports) as entries:
            return sorted(
                entry.name
                for entry in entries
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            )
    except OSError:
        return []


def read(folder: Path, name: str) -> str:
    """Read a report, or a page below it; an OSError for what is neither."""
    below, _, file = name.rpartition("/")
    with contextlib.ExitStack() as held:
        beside = held.enter_context(_opened(folder))
        if below:
            beside = held.enter_context(_opened(below, beside=beside))
        # Text of another encoding would show a browser other instructions than `policy` sees.
        return regular_files.read(file, most=MAX_BYTES, beside=beside).decode("utf-8")


@functools.cache
def policy() -> str:
    """The policy of every page: the styles in it, the scripts of our templates, and nothing else."""
    scripts = " ".join(html.digest(html.asset(name)) for name in _SCRIPTS)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
    )
