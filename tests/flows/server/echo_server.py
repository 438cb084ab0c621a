"""`python -m tests.flows.server.echo_server KIND FD FILES`: a server of 127.0.0.1 that answers everybody.

KIND is `ours` or `uvicorn`: our server behind the guard, or uvicorn alone. FD is a bound socket, FILES the
number of files that the process may open. WebSockets answer with the length of each message.
"""

import resource
import socket
import sys

import uvicorn

from dashboards.guard import Guard, Message, Receive, Scope, Send
from flows.server.uvicorn_server import serve_socket


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with a status of 200, or with lengths."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answered"})
    elif scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": str(_length(message))})


def _length(message: Message) -> int:
    return len(message.get("text") or message.get("bytes") or b"")


def main() -> None:
    """Serve until a signal ends the process."""
    kind, file, files = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
    with socket.socket(fileno=int(file)) as ear:
        if kind == "ours":
            host, port = ear.getsockname()
            serve_socket(Guard(pages=echo, server=f"{host}:{port}"), ear)
        else:
            config = uvicorn.Config(echo, log_level="error", access_log=False, lifespan="on")
            uvicorn.Server(config).run(sockets=[ear])


if __name__ == "__main__":
    main()
