"""Reading of report files for servers, and the content security policy with which they are served.

A report may come from somebody else's workspace, so it isn't trusted. It is served without an origin, which
means without cookies and without access to other pages. It loads and sends nothing, and runs only the scripts
of this package. Tags that no template of this package writes are shown as text. Links, pipes and files over
MAX_BYTES are rejected.
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
"""Folder below the reports that has the pages of rows."""
_NAME = re.compile(rf"((?:{FOLDER}/)?[A-Za-z0-9][A-Za-z0-9._@-]*\.html)", re.ASCII)
_SCRIPTS = ("report.js", "rows.js")
ELEMENTS = (
    *("a", "article", "b", "bdi", "button", "circle", "code", "dd", "details", "div", "dl", "dt"),
    *("footer", "g", "h1", "h2", "h3", "h4", "header", "html", "i", "input", "kbd", "label", "li"),
    *("line", "main", "nav", "option", "output", "p", "path", "polygon", "polyline", "pre", "rect"),
    *("section", "select", "small", "span", "style", "summary", "svg", "table", "tbody", "td"),
    *("template", "text", "th", "thead", "time", "title", "tr", "tspan", "ul"),
)
"""Elements of the templates that can't open a connection under the policy, whatever their attributes."""
TAGS = (
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width">',
    '<meta name="color-scheme" content="light dark">',
    '<meta name="referrer" content="no-referrer">',
    '<script type="application/json" id="data">',
    "<script>",
)
"""Other tags of the templates; a policy tag is also allowed, because it can only forbid more."""
_POLICY_TAG = (
    """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; [^"<>]*">"""
)
_FOREIGN = re.compile(
    rf"(?!<(?:{'|'.join(ELEMENTS)})[ \t\n\f\r/>]|{'|'.join(map(re.escape, TAGS))}|{_POLICY_TAG})"
    "<(?=[A-Za-z])"
)
"""Pattern of the start of any other tag; in HTML, a tag starts with < before an ASCII letter."""
MAX_BYTES = 64 << 20
"""Maximum size of a page."""


def page(folder: Path, name: str) -> str | None:
    """Return a report, or a page in a folder below the reports; None if there is no such file.

    A content security policy can't stop the connections that link elements and nested pages cause. Tags that
    the templates don't have are therefore escaped.
    """
    try:
        return _FOREIGN.sub("&lt;", read(folder, name)) if _NAME.fullmatch(name) else None
    except (OSError, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def _opened(folder: Path | str, *, beside: int | None = None) -> Iterator[int]:
    """Open a folder as a file descriptor for the duration of the block; refuse a symbolic link."""
    descriptor = regular_files.folder(folder, beside=beside)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def names(folder: Path) -> list[str]:
    """Return the file names of reports; empty if the folder does not exist."""
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
    """Read a report, or a page in a folder below the reports.

    Raises:
        OSError: If the file is missing, not a regular file, or too large.
        UnicodeDecodeError: If the file is not UTF-8.
    """
    below, _, file = name.rpartition("/")
    with contextlib.ExitStack() as held:
        beside = held.enter_context(_opened(folder))
        if below:
            beside = held.enter_context(_opened(below, beside=beside))
        # A browser could read text of another encoding differently than the check in `page`.
        return regular_files.read(file, most=MAX_BYTES, beside=beside).decode("utf-8")


@functools.cache
def policy() -> str:
    """Return the content security policy of all reports.

    It allows inline styles and the scripts of this package, and nothing else.
    """
    scripts = " ".join(html.digest(html.asset(name)) for name in _SCRIPTS)
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; sandbox allow-scripts"
    )
