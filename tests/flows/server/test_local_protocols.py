"""Requests without a password fill no log and no memory, and leave connections for the owner."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from flows import settings
from flows.server.uvicorn_server import MAX_MESSAGE_BYTES
from tests.flows.serving import wait_until

STRANGER = 65534
FILES = 128
CROWD = 150
"""More connections than a server with FILES files can have."""
WAITS = f"""\
import os, socket, sys
port, user = map(int, sys.argv[1:])
if user != os.getuid():
    os.setgid(user)
    os.setuid(user)
crowd = [socket.socket() for _ in range({CROWD})]
for client in crowd:
    try:
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET / HTTP/1.1\\r\\nHo")
    except ConnectionError:
        pass
print("connected", flush=True)
sys.stdin.read()
"""
"""A program whose connections never send a whole request."""


@dataclass(frozen=True, kw_only=True)
class EchoServer:
    """A server that runs."""

    port: int
    log: Path

    def client(self) -> socket.socket:
        """Connect to the server."""
        return socket.create_connection((settings.HOST, self.port), timeout=30)

    def status(self) -> int:
        """Return the status of a whole request, or 0 if the connection is closed or none is made."""
        with contextlib.suppress(ConnectionError, TimeoutError), self.client() as client:
            client.settimeout(5)
            client.sendall(b"GET / HTTP/1.1\r\n%b\r\n" % self.host)
            return int((client.recv(1000).split() or [b"", b"0"])[1])
        return 0

    @property
    def host(self) -> bytes:
        """Header that names the server."""
        return f"Host: {settings.HOST}:{self.port}\r\n".encode()

    def send(self, *parts: bytes) -> None:
        """Send the parts of a request, each after an answer to the former; wait until all is closed."""
        with self.client() as client, contextlib.suppress(ConnectionError):
            for number, part in enumerate(parts):
                if number:
                    client.recv(10_000)
                client.sendall(part.replace(b"HOST\r\n", self.host))
            while client.recv(10_000):
                pass

    def websocket(self) -> Connection:
        """Open a WebSocket that offers compression."""
        return connect(f"ws://{settings.HOST}:{self.port}/", proxy=None)


@contextlib.contextmanager
def server(kind: str, folder: Path, *, files: int = 1024) -> Iterator[EchoServer]:
    """Run a server of a kind while the block lasts."""
    log = folder / f"{kind}.log"
    with socket.create_server((settings.HOST, 0)) as ear, log.open("wb") as output:
        module = "tests.flows.server.echo_server"
        process = subprocess.Popen(
            [sys.executable, "-m", module, kind, str(ear.fileno()), str(files)],
            stdout=output,
            stderr=output,
            pass_fds=[ear.fileno()],
        )
        served = EchoServer(port=ear.getsockname()[1], log=log)
        try:
            wait_until(lambda: served.status() == 200, words=log.read_text)
            yield served
        finally:
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EchoServer]:
    """Our server."""
    with server("ours", tmp_path_factory.mktemp("ours")) as served:
        yield served


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EchoServer]:
    """The control: uvicorn alone."""
    with server("uvicorn", tmp_path_factory.mktemp("uvicorn")) as served:
        yield served


def frame(code: int, text: bytes) -> bytes:
    """A whole masked frame."""
    return bytes([0x80 | code, 0x80 | len(text)]) + bytes(4) + text


CHUNKED = b"POST / HTTP/1.1\r\nHOST\r\nTransfer-Encoding: chunked\r\n\r\n"
UPGRADE = (
    b"GET / HTTP/1.1\r\nHOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, CLOSE = 1, 8
REQUESTS = {
    "chunk size": (CHUNKED + b"zz\r\n",),
    "chunk size after the answer": (CHUNKED, b"zz\r\n"),
    "connect": (b"CONNECT /curriculum/ HTTP/1.1\r\nHOST\r\n\r\n",),
    "text": (UPGRADE, frame(TEXT, b"\xff")),
    "text and close": (UPGRADE, frame(TEXT, b"\xff") + frame(CLOSE, b"\x03\xe8")),
}


@pytest.mark.parametrize("parts", REQUESTS.values(), ids=REQUESTS)
def test_a_malformed_request_writes_nothing_to_the_log(
    ours: EchoServer, plain: EchoServer, parts: tuple[bytes, ...]
) -> None:
    logged = plain.log.stat().st_size
    plain.send(*parts)
    wait_until(lambda: plain.log.stat().st_size > logged, 30)
    ours.send(*parts)
    assert ours.status() == 200
    assert ours.log.read_text() == ""


def answer(opened: Connection, message: str) -> str:
    """The answer to a message."""
    opened.send(message)
    return str(opened.recv(60))


def test_websockets_unpack_nothing_and_limit_messages(ours: EchoServer, plain: EchoServer) -> None:
    from prefect.settings import PREFECT_EVENTS_MAXIMUM_SIZE_BYTES

    too_large = "a" * (MAX_MESSAGE_BYTES + 1)
    with ours.websocket() as opened:
        assert not opened.protocol.extensions
        for size in (1, PREFECT_EVENTS_MAXIMUM_SIZE_BYTES.value(), MAX_MESSAGE_BYTES):
            assert answer(opened, "a" * size) == str(size)
        with pytest.raises(ConnectionClosed) as closed:
            answer(opened, too_large)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    with plain.websocket() as opened:
        assert opened.protocol.extensions
        assert answer(opened, too_large) == str(len(too_large))
    assert ours.log.read_text() == ""


@contextlib.contextmanager
def crowd(served: EchoServer, user: int) -> Iterator[None]:
    """Let a user's process make CROWD connections that wait while the block lasts."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, str(served.port), str(user)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "connected\n"
        yield
        process.communicate()


def test_uvicorn_alone_logs_that_it_has_no_files_left(tmp_path: Path) -> None:
    """The control."""
    with server("uvicorn", tmp_path, files=FILES) as plain, crowd(plain, os.getuid()):
        assert plain.status() == 0
        wait_until(lambda: "out of system resource" in plain.log.read_text(), 30)


def test_waiting_connections_use_up_no_files(tmp_path: Path) -> None:
    with server("ours", tmp_path, files=FILES) as ours:
        with crowd(ours, os.getuid()):
            assert ours.status() == 0, "the owner may occupy the server"
        wait_until(lambda: ours.status() == 200, 30)
        assert ours.log.read_text() == ""


@pytest.mark.skipif(os.getuid() != 0, reason="root alone may become another user")
@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone knows who connects")
def test_another_user_cannot_occupy_the_server(tmp_path: Path) -> None:
    with server("ours", tmp_path, files=FILES) as ours, crowd(ours, STRANGER):
        assert ours.status() == 200
        assert ours.log.read_text() == ""
