"""A program asks its user's own Prefect server as long as that one listens, and nobody who took its port."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

as_root = pytest.mark.skipif(os.getuid() != 0, reason="listens as another user")
linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc/net/tcp")
STRANGER = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else 0

ASKING = """\
import asyncio, os, socket, sys
from flows.settings.api_listener import guard_connections

def tried(connect):
    try:
        connect()
    except ConnectionRefusedError:
        return "refused"
    return "connected"

def by_asyncio():
    asyncio.run(asyncio.open_connection("127.0.0.1", port))

def both():
    return [tried(lambda: socket.create_connection(("127.0.0.1", port)).close()), tried(by_asyncio)]

ours = socket.create_server(("127.0.0.1", 0))
port = ours.getsockname()[1]
if sys.argv[1] == "guarded":
    guard_connections(port)
print(*both())
ours.close()
print(*both())
ready, telling = os.pipe()
if os.fork() == 0:
    os.setuid(int(sys.argv[2]))
    theirs = socket.create_server(("127.0.0.1", port))
    os.write(telling, b"x")
    theirs.accept()
    theirs.accept()
    os._exit(0)
os.read(ready, 1)
print(*both())
os.kill(0, 15)
"""


def answers(way: str) -> list[str]:
    """Connect to a server of ours, to none, and to one of another user, by a socket and by asyncio."""
    asked = subprocess.run(
        [sys.executable, "-c", ASKING, way, str(STRANGER)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=True,
    )
    return asked.stdout.splitlines()


@linux
@as_root
def test_no_connection_is_made_to_a_port_that_another_user_took() -> None:
    assert answers("guarded") == ["connected connected", "refused refused", "refused refused"]
    # Without the guard the stranger is asked.
    assert answers("open") == ["connected connected", "refused refused", "connected connected"]
