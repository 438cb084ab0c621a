"""The user at the other end of a connection of this machine, as Linux lists it.

Browsers send a cookie to every port of a host, so that another user's server may get ours: it is worth
nothing in the hands of another user.
"""

import os
import socket
import struct
from pathlib import Path

TABLE = Path("/proc/net/tcp")
_LOCAL, _REMOTE, _STATE, _USER, _INODE = 1, 2, 3, 7, 9
"""Columns."""
_LISTENS, _GONE = "0A", "0"
Address = tuple[str, int]


def is_same_user(client: Address, server: Address) -> bool:
    """Return True where a connection to a server of ours is this user's, or root's.

    True as well where the system doesn't list connections. One that its process closed already is nobody's.
    """
    try:
        table = TABLE.read_text()
    except OSError:
        return True
    return owner_of(table, client, server) in {None, 0, os.getuid()}


def owner_of(table: str, client: Address, server: Address) -> int | None:
    """The id of the user who holds the client's end.

    -1 where nobody does, None where the table doesn't list the server.
    """
    here, there = _written(server), _written(client)
    rows = [line.split() for line in table.splitlines()[1:]]
    if not any((row[_LOCAL], row[_STATE]) == (here, _LISTENS) for row in rows):
        return None
    held = (
        int(row[_USER])
        for row in rows
        if (row[_LOCAL], row[_REMOTE]) == (there, here) and row[_INODE] != _GONE
    )
    return next(held, -1)


def _written(address: Address) -> str:
    """An address as the table has it: the bytes of its host in this machine's order, in hexadecimal."""
    (host,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{host:08X}:{address[1]:04X}"
