"""Reports of a workspace as files: the one at a path, and the policy that it is shown under.

A report may have come with somebody else's workspace. So no page says what it may do: it is shown without an
origin, so that it has no cookies and no neighbours, it loads nothing and sends nothing, and of scripts only
those of our own templates run. Links, pipes and files beyond MOST_BYTES are no reports.
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
_INSTRUCTION = re.compile(r"http-equiv", re.IGNORECASE)
_LINK = re.compile("<link", re.IGNORECASE)
_OURS = re.compile(
    r"""<meta http-equiv="Content-Security-Policy" content="default-src 'none'; [^"<>]*">"""
)
MOST_BYTES = 64 << 20
"""Bytes of a page."""


def page(folder: Path, name: str) -> str | None:
    """A report of a folder of reports, or a page below it; None for what is neither.

    Our pages have no link elements, and no policy keeps a browser from connecting to where one leads.
    """
    try:
        return _LINK.sub("&lt;link", read(folder, name)) if _NAME.fullmatch(name) else None
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
        return regular_files.read(file, most=MOST_BYTES, beside=beside).decode("utf-8")


def policy(page: str) -> str:
    """The policy of a page, of which nothing is taken from the page itself.

    Scripts run in a page that gives the browser no instruction but a policy, which can only forbid more.
    In any other none runs, and then no page leads a browser elsewhere by itself either.
    """
    is_plain = len(_INSTRUCTION.findall(page)) == len(_OURS.findall(page))
    return f"{_POLICY_HEAD}; script-src {_scripts()}; sandbox{' allow-scripts' if is_plain else ''}"


_POLICY_HEAD = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


@functools.cache
def _scripts() -> str:
    return " ".join(html.digest(html.asset(name)) for name in _SCRIPTS)
