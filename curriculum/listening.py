"""Users whose processes listen at an address of this machine, or connect to one."""

import socket
import struct
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""Tables with one line per socket. Without IPv6 only the first exists; some systems have neither."""
_LISTENS = "0A"
_SOCK_DIAG = 4
"""Netlink family that describes sockets: NETLINK_SOCK_DIAG of linux/netlink.h."""
_BY_FAMILY = 20
"""Type of its requests and of its answers: SOCK_DIAG_BY_FAMILY of linux/sock_diag.h."""
_HEADER = "=IHHII"
"""struct nlmsghdr: length, type, flags, sequence number, port."""
_REQUESTS = 1
"""Flag NLM_F_REQUEST."""
_USER_AT = struct.calcsize(_HEADER) + 64
"""Position of idiag_uid in an answer, which is a struct inet_diag_msg."""


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


def connecting_user(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Return the id of the user whose process made an IPv4 connection within this machine.

    The kernel looks up this one socket. It would need milliseconds to write all of /proc/net/tcp, and longer
    if a user opens many sockets.

    Args:
        client: Address and port of the end that connected.
        server: Address and port of the end that accepted.

    Returns:
        The user's id, or None if this system doesn't know the client's socket: the client is a process of
        Windows beside WSL, for example, or the system isn't Linux.
    """
    if not hasattr(socket, "AF_NETLINK"):
        return None
    ends = (client[1], server[1], *(socket.inet_aton(address) for address, _ in (client, server)))
    # Any interface and any cookie.
    connection = struct.pack("!HH4s12x4s12x", *ends) + struct.pack("=III", 0, 2**32 - 1, 2**32 - 1)
    any_state = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, 2**32 - 1)
    length = struct.calcsize(_HEADER) + len(any_state) + len(connection)
    header = struct.pack(_HEADER, length, _BY_FAMILY, _REQUESTS, 0, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.sendto(header + any_state + connection, (0, 0))
            answer = kernel.recv(4096)
    except OSError:
        return None
    if struct.unpack_from(_HEADER, answer)[1] != _BY_FAMILY:
        return None
    return int(struct.unpack_from("=I", answer, _USER_AT)[0])


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
