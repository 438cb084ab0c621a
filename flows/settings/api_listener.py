"""Guard of connections to the user's own Prefect server, in case another user's process listens at its port.

When a server ends, any user may bind its port. Clients of the server would send their password to that
process and believe its answers.
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
    """Configure Prefect in this process for a running API: a team's, or the one of `serve`."""
    is_teams = settings.team_api() is not None
    settings.apply(prefect_variables.running_server(workspace, api))
    if not is_teams:
        guard_connections(urlsplit(api).port)


def guard_connections(port: int | None) -> None:
    """Refuse connections from this process to a port of HOST unless only this user listens there.

    An audit hook can't be removed. It is also called for every opened file, which takes about 100 ns.
    """
    if port is not None and is_told():
        sys.addaudithook(functools.partial(_refuse_other_users, port))


def _refuse_other_users(port: int, event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect" or arguments[1][:2] != (HOST, port):
        return
    if listening_users(HOST, port) != {os.getuid()}:
        words = f"the process that listens at {HOST}:{port} isn't yours"
        raise ConnectionRefusedError(errno.ECONNREFUSED, words)
