"""Connections to the user's own Prefect server, refused while another user's process listens at its port.

A server that has ended leaves its port to whoever comes first. Programs that were attached to the server
would send their password there and believe the answers.
"""

import errno
import functools
import os
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flows import settings
from flows.settings import HOST, prefect_variables

_SOCKETS = Path("/proc/net/tcp")
"""A line for each socket of IPv4; systems without such a file don't say whose a port is."""
_LISTENS = "0A"


def join_api(workspace: Path, api: str) -> None:
    """Set Prefect in this process to an API that is there already: a team's, or the one of `serve`."""
    is_teams = settings.team_api() is not None
    settings.apply(prefect_variables.attached(workspace, api))
    if not is_teams:
        guard_connections(urlsplit(api).port)


def guard_connections(port: int | None) -> None:
    """Refuse connections from this process to a port of HOST unless this user alone listens there.

    The guard can't be taken back. It is asked, within some 100 ns, at each file that is opened too.
    """
    if port is not None and _SOCKETS.exists():
        sys.addaudithook(functools.partial(_refuse_stranger, port))


def listeners(port: int) -> set[int]:
    """Return the user ids of the processes that listen on a port of HOST."""
    host = int.from_bytes(socket.inet_aton(HOST), sys.byteorder)
    places = {f"{address:08X}:{port:04X}" for address in (host, 0)}
    lines = (line.split() for line in _SOCKETS.read_text().splitlines()[1:])
    return {int(line[7]) for line in lines if line[1] in places and line[3] == _LISTENS}


def _refuse_stranger(port: int, event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect" or arguments[1][:2] != (HOST, port):
        return
    if listeners(port) != {os.getuid()}:
        words = f"no process of yours alone listens at {HOST}:{port}"
        raise ConnectionRefusedError(errno.ECONNREFUSED, words)
