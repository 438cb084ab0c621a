"""No header changes the address of a client that our servers see."""

import asyncio
import socket
from typing import Any

import pytest
import uvicorn

from dashboards.guard import Message, Receive, Scope, Send
from flows.server.uvicorn_server import serve_socket

CLAIMED, REAL = "192.0.2.1", "127.0.0.1"


def client_seen(config: uvicorn.Config, seen: list[Any]) -> str:
    """Return the address that an application sees of a local client that claims another one."""

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        pass

    headers = [(b"x-forwarded-for", CLAIMED.encode())]
    scope = {"type": "http", "path": "/", "headers": headers, "client": (REAL, 5), "scheme": "http"}
    config.load()
    asyncio.run(config.loaded_app(scope, receive, send))
    return str(seen.pop()[0])


def test_a_client_cannot_claim_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    configs, seen = list[uvicorn.Config](), list[Any]()

    class Unstarted:
        def __init__(self, config: uvicorn.Config) -> None:
            configs.append(config)

        def run(self, sockets: object) -> None:
            pass

    async def pages(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["client"])

    monkeypatch.setattr(uvicorn, "Server", Unstarted)
    with socket.create_server((REAL, 0)) as ear:
        serve_socket(pages, ear)
    assert client_seen(configs[0], seen) == REAL
    assert client_seen(uvicorn.Config(pages), seen) == CLAIMED, "uvicorn by default believes it"
