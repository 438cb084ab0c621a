"""Guard that connects only to the user's own Prefect server, not to a process of another user at its port.

When a server ends, any user may bind its port. Without the guard, clients of the server would send their
password to that user's process and believe its answers.
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
    """Configure Prefect in this process for a running API: that of a team's server, or that of `serve`."""
    is_teams = settings.team_api() is not None
    settings.apply(prefect_variables.running_server(workspace, api))
    if not is_teams:
        guard_connections(urlsplit(api).port)


def guard_connections(port: int | None) -> None:
    """Refuse connections of this process to `port` of HOST unless this user's process listens there.

    The guard is an audit hook, which can't be removed. Python also calls it for each opened file, which takes
    about 100 ns.
    """
    if port is not None and is_told():
        sys.addaudithook(functools.partial(_refuse_other_users, port))


def _refuse_other_users(port: int, event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect" or arguments[1][:2] != (HOST, port):
        return
    if listening_users(HOST, port) != {os.getuid()}:
        words = f"the process that listens at {HOST}:{port} isn't yours"
        raise ConnectionRefusedError(errno.ECONNREFUSED, words)
