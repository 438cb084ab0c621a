"""Connections to the user's own Prefect server, refused while another user's process listens at its port.

A server that has ended leaves its port to whoever comes first. Programs that were attached to the server
would send their password there and believe the answers.
"""

import errno
import functools
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from curriculum.listening import is_told, listening_users
from flows import settings
from flows.settings import HOST, prefect_variables


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
    if port is not None and is_told():
        sys.addaudithook(functools.partial(_refuse_other_users, port))


def _refuse_other_users(port: int, event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect" or arguments[1][:2] != (HOST, port):
        return
    if listening_users(HOST, port) != {os.getuid()}:
        words = f"no process of yours alone listens at {HOST}:{port}"
        raise ConnectionRefusedError(errno.ECONNREFUSED, words)
