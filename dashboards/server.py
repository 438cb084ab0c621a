"""ASGI application with the reports and dashboards of a workspace, below a secret path.

A guard checks each request first. Requests outside of the secret path all get the same page; its script
redirects to the secret path if the browser has stored that. A header limits what a page may load: nothing
from other servers, and no scripts but its own.
"""

import asyncio
import base64
import hashlib
import hmac
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

from curriculum.pipeline.context import Resources
from dashboards import ablation_page, frame, html, manifest_page, workspace
from dashboards.guard import (
    Application,
    Guard,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    answer,
    answer_sentence,
    headers_of,
    with_headers,
)
from dashboards.questions import PAGES, Watched
from dashboards.report import files, index
from dashboards.report.facts import REPORTS

HERE = Path(__file__).parent
PLAIN_PATHS = (frame.REPORTS_PATH, frame.MANIFEST_PATH, frame.ABLATIONS_PATH)
SESSION_TTL_S = 120
"""Seconds that the state of a page is kept after its browser disconnects."""
LOGIN = "Open the address that the command printed in its terminal: it logs this browser in."
_ASSETS: dict[str, tuple[str, Callable[[], str]]] = {
    frame.STYLE_PATH: ("text/css", frame.style),
    frame.SCRIPT_PATH: ("text/javascript", frame.script),
}

_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<body>.*?)</script>", re.DOTALL)
_PRELOAD = re.compile(r'<link rel="preload"[^>]*>')


def has_dashboards() -> bool:
    """Return True if marimo is installed, which the dashboards need."""
    return importlib.util.find_spec("marimo") is not None


def application(
    home: Path,
    path: str,
    server: str,
    served: workspace.Served,
    resources: Resources | None = None,
) -> Application:
    """Return the application with all pages of a workspace; without marimo it has only the reports.

    Args:
        home: Workspace.
        path: Secret path: 32 hexadecimal digits.
        server: Host and port, such as `127.0.0.1:4202`.
        served: Function that returns the Prefect server of the workspace.
        resources: Resources of this machine.
    """
    workspace.show(home, served, resources)
    built = Watched(pages=_dashboards(path), open_pages=PAGES) if has_dashboards() else None
    return Guard(pages=Pages(path=path, built=built), server=server)


def _dashboards(path: str) -> Application:
    import marimo

    pages = marimo.create_asgi_app(
        quiet=True, html_head=frame.HEAD, session_ttl=SESSION_TTL_S, include_code=False
    )
    for page in frame.PAGES:
        file = str(HERE / "apps" / f"{page.name}.py")
        pages = pages.with_app(path=f"/{path}/{page.name}", root=file)
    built: Application = pages.build()
    return built


@dataclass(frozen=True, kw_only=True, slots=True)
class Pages:
    """Router of all pages: interactive pages, plain pages, assets, and a redirect to the first page."""

    path: str
    built: Application | None
    """Dashboards below the same path; None if marimo is not installed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or WebSocket."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        below = f"/{self.path}/"
        # Constant time, because a wrong path gets its response immediately.
        if not hmac.compare_digest(scope["path"][: len(below)].encode(), below.encode()):
            script = html.asset("login_pages.js")
            await answer_sentence(scope, send, HTTPStatus.NOT_FOUND, LOGIN, script=script)
            return
        page = scope["path"].removeprefix(below.rstrip("/"))
        if scope["type"] == "http" and page == "/":
            first = f"{frame.PAGES[0].name}/" if self.built else frame.REPORTS_PATH.lstrip("/")
            await answer(send, HTTPStatus.SEE_OTHER, {"location": first})
        elif scope["type"] == "http" and page in _ASSETS:
            kind, text = _ASSETS[page]
            await answer(send, HTTPStatus.OK, {"content-type": kind}, text())
        elif scope["type"] == "http" and page.startswith(PLAIN_PATHS):
            await self._plain(page, scope, send)
        elif self.built is None:
            await answer_sentence(scope, send, HTTPStatus.NOT_FOUND, "This page does not exist.")
        else:
            host = headers_of(scope).get("host", "")
            await _show(self.built, host, scope, receive, send)

    async def _plain(self, path: str, scope: Scope, send: Send) -> None:
        """Send a page without controls; it is rendered in a thread, so that the server stays responsive."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        overview = f"../{frame.PAGES[0].name}/" if self.built else ""
        page = await asyncio.to_thread(_plain_page, path, query.get("key", [""])[0], overview)
        if page is None:
            gone = "This page does not exist or was deleted."
            await answer_sentence(scope, send, HTTPStatus.NOT_FOUND, gone)
            return
        headers = {"content-type": "text/html; charset=utf-8", "x-dns-prefetch-control": "off"}
        if path.startswith(frame.REPORTS_PATH) and path != frame.REPORTS_PATH:
            headers["content-security-policy"] = files.policy()
        await answer(send, HTTPStatus.OK, headers, page)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Handle start-up and shutdown of the server; at shutdown, end the sessions of open pages."""
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for mounted in getattr(self.built, "routes", ()):
            if (app := getattr(mounted, "app", None)) is not None and hasattr(app, "state"):
                await app.state.session_manager.shutdown()
        await send({"type": "lifespan.shutdown.complete"})


async def _show(built: Application, host: str, scope: Scope, receive: Receive, send: Send) -> None:
    """Forward a request to the dashboards.

    A page is sent only when it is complete, because its content security policy, a header, lists its scripts.
    """
    held: list[Message] = []
    body = bytearray()

    async def pass_on(message: Message) -> None:
        if message["type"] == "http.response.start" and _is_page(message["headers"]):
            held.append(message)
        elif held and message.get("more_body"):
            body.extend(message.get("body", b""))
        elif held:
            page = _trimmed((body + message.get("body", b"")).decode())
            text = page.encode()
            added = {
                "content-security-policy": policy(page, host),
                "content-length": str(len(text)),
            }
            start = held.pop()
            await send({**start, "headers": with_headers(start["headers"], added)})
            await send({"type": "http.response.body", "body": text})
        else:
            await send(message)

    await built(scope, receive, pass_on)


def _plain_page(path: str, keys: str, overview: str) -> str | None:
    """Return the page without controls at a path (reports, ablations or manifests); None if there is none."""
    home = workspace.home()
    if path == frame.MANIFEST_PATH:
        return manifest_page.page(home, keys)
    if path == frame.ABLATIONS_PATH:
        return ablation_page.page(home, overview=overview)
    if not path.startswith(frame.REPORTS_PATH):
        return None
    name = path.removeprefix(frame.REPORTS_PATH)
    if name:
        return files.page(home / REPORTS, name)
    return index.page(home, workspace.resources(), overview=overview)


def policy(page: str, host: str) -> str:
    """Return the content security policy of a page: only this server, and the page's inline scripts."""
    inline = [
        found["body"] for found in _SCRIPT.finditer(page) if "src=" not in found["attributes"]
    ]
    digests = (
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in inline
    )
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            f"connect-src 'self' ws://{host}",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            "base-uri 'self'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


def _trimmed(page: str) -> str:
    """Remove from a page the script that installs a service worker, and preloads of unused assets."""
    shown = _PRELOAD.sub("", page)
    return _SCRIPT.sub(lambda found: "" if "serviceWorker" in found["body"] else found[0], shown)


def _is_page(headers: Headers) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/html")
        for name, value in headers
    )
