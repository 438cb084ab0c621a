"""Users whose processes listen at an address of this machine."""

import socket
import struct
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Tables with one line per socket. Without IPv6 only the first exists; some systems have neither."""
_LISTENS = "0A"


def is_told() -> bool:
    """Return True if this system shows which user's process listens at a port."""
    return _TABLES[0].exists()


def is_here(address: str) -> bool:
    """Return True for an IP address of this machine."""
    with socket.socket(_family(address)) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def listening_users(address: str, port: int) -> set[int]:
    """Return the ids of the users whose processes listen at a port of an IP address of this machine.

    Sockets that listen at all addresses count as well, and so do IPv6 sockets that accept IPv4.
    """
    places = {f"{place}:{port:04X}" for place in _places(address)}
    tables = (table.read_text() for table in _TABLES if table.exists())
    lines = (line.split() for text in tables for line in text.splitlines()[1:])
    return {int(line[7]) for line in lines if line[1] in places and line[3] == _LISTENS}


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _places(address: str) -> set[str]:
    """Return every local address in the tables whose sockets can be reached at `address`."""
    reached = [socket.inet_pton(_family(address), address), bytes(16)]
    if _family(address) == socket.AF_INET:
        reached += [bytes(4), socket.inet_pton(socket.AF_INET6, f"::ffff:{address}")]
    return {
        "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))
        for packed in reached
    }
