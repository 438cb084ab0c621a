"""The pages as one ASGI application that answers its own browser only.

A guard checks each request first. What a page may load is in a header: nothing from elsewhere, and no script
but its own.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

import marimo

from curriculum.pipeline.context import Resources
from dashboards import frame, html, manifest_page, workspace
from dashboards.guard import (
    ALWAYS,
    Application,
    Guard,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    answer,
    headers_of,
    with_headers,
)
from dashboards.questions import PAGES, Watched
from dashboards.report import files, index
from dashboards.report.facts import REPORTS

HERE = Path(__file__).parent
PLAIN_PATHS = (frame.REPORTS_PATH, frame.MANIFEST_PATH)
SESSION_TTL_S = 120
"""Seconds that the state of a page is kept after its browser is gone."""

_SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<body>.*?)</script>", re.DOTALL)
_PRELOAD = re.compile(r'<link rel="preload"[^>]*>')


def application(
    home: Path,
    token: str,
    names: Collection[str],
    served: workspace.Served,
    cure: str,
    resources: Resources | None = None,
) -> Application:
    """The pages of a workspace, for browsers that know the token and ask for one of the names.

    A name is a host and a port: `127.0.0.1:4202`. `served` answers with the Prefect server;
    `cure` is the sentence for a browser that isn't logged in; `resources` are those of this machine.
    """
    workspace.show(home, served, resources)
    pages = marimo.create_asgi_app(
        quiet=True, html_head=frame.HEAD, session_ttl=SESSION_TTL_S, include_code=False
    )
    for page in frame.PAGES:
        pages = pages.with_app(path=f"/{page.name}", root=str(HERE / "apps" / f"{page.name}.py"))
    shown = Pages(built=Watched(pages=pages.build(), open_pages=PAGES))
    return Guard(
        pages=shown,
        token=token,
        names=frozenset(names),
        cure=cure,
        # A report has no origin, and leads to others and to pages of rows.
        followed_below=frame.REPORTS_PATH,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Pages:
    """The pages that were built, with their style, a redirect to the first one, and the policy of each."""

    built: Application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or one WebSocket."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http" and scope["path"] in ("/", ""):
            await answer(send, HTTPStatus.SEE_OTHER, {"location": f"/{frame.PAGES[0].name}/"})
        elif scope["type"] == "http" and scope["path"] == frame.STYLE_PATH:
            await answer(send, HTTPStatus.OK, {"content-type": "text/css"}, frame.style())
        elif scope["type"] == "http" and scope["path"] == frame.SCRIPT_PATH:
            await answer(send, HTTPStatus.OK, {"content-type": "text/javascript"}, frame.script())
        elif scope["type"] == "http" and scope["path"].startswith(PLAIN_PATHS):
            await self._plain(scope, send)
        else:
            await self._show(scope, receive, send, headers_of(scope).get("host", ""))

    async def _plain(self, scope: Scope, send: Send) -> None:
        """Answer with a page without controls, which is made while the pages of others go on."""
        path, query = scope["path"], parse_qs(scope["query_string"].decode("latin-1"))
        page = await asyncio.to_thread(_plain_page, path, query.get("key", [""])[0])
        status, headers = HTTPStatus.OK, {"content-type": "text/html; charset=utf-8"}
        if page is None:
            status = HTTPStatus.NOT_FOUND
            page = html.render("sentence.html", text="There is no such page, or it is gone since.")
        elif path.startswith(frame.REPORTS_PATH) and path != frame.REPORTS_PATH:
            headers["content-security-policy"] = files.policy(page)
        await answer(send, status, headers, page)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Begin and end; what runs for open pages ends with us, and nothing waits for it."""
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for mounted in getattr(self.built, "routes", ()):
            if (app := getattr(mounted, "app", None)) is not None and hasattr(app, "state"):
                await app.state.session_manager.shutdown()
        await send({"type": "lifespan.shutdown.complete"})

    async def _show(self, scope: Scope, receive: Receive, send: Send, host: str) -> None:
        if scope["type"] != "http":
            await self.built(scope, receive, send)
            return
        held: list[Message] = []
        body = bytearray()

        async def pass_on(message: Message) -> None:
            """Hold a page back until all of it is there: its scripts are named in its header."""
            if message["type"] == "http.response.start":
                if _is_page(message["headers"]):
                    held.append(message)
                    return
                message["headers"] = with_headers(message["headers"], ALWAYS)
            elif held:
                body.extend(message.get("body", b""))
                if message.get("more_body"):
                    return
                page = _trimmed(body.decode())
                added = {**ALWAYS, "content-security-policy": policy(page, host)}
                text = page.encode()
                start = held.pop()
                kept = [each for each in start["headers"] if each[0].lower() != b"content-length"]
                size = (b"content-length", str(len(text)).encode())
                await send({**start, "headers": with_headers([*kept, size], added)})
                await send({"type": "http.response.body", "body": text})
                return
            await send(message)

        await self.built(scope, receive, pass_on)


def _plain_page(path: str, keys: str) -> str | None:
    """The list of reports, a report or what it leads to, or the manifests with these keys."""
    home = workspace.home()
    if path == frame.MANIFEST_PATH:
        return manifest_page.page(home, keys)
    name = path.removeprefix(frame.REPORTS_PATH)
    if name:
        return files.page(home / REPORTS, name)
    overview = f"../{frame.PAGES[0].name}/"
    return index.page(home, workspace.resources(), overview=overview)


def policy(page: str, host: str) -> str:
    """Return the policy of a page: everything of this server, and the scripts that the page came with."""
    inline = [
        found["body"] for found in _SCRIPT.finditer(page) if "src=" not in found["attributes"]
    ]
    digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inline)
    scripts = " ".join(f"'sha256-{each}'" for each in digests)
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
    """The page without the script that would leave a service worker behind, and what we don't show."""
    shown = _PRELOAD.sub("", page)
    return _SCRIPT.sub(lambda found: "" if "serviceWorker" in found["body"] else found[0], shown)


def _is_page(headers: Headers) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/html")
        for name, value in headers
    )
