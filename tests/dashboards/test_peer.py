"""Whose a connection is: read from the system's table, for a real one and for those that are closed."""

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from dashboards import guard
from dashboards.guard import is_same_user, owner_of

Ends = tuple[socket.socket, socket.socket, tuple[str, int]]
"""The client's, the server's, and the address of the server."""


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A connection on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as ear:
        client = socket.create_connection(ear.getsockname())
        server, _ = ear.accept()
        with closing(client), closing(server):
            yield client, server, ear.getsockname()


pytestmark = pytest.mark.skipif(not guard.TABLE.exists(), reason="needs Linux's table of sockets")


def test_a_connection_of_this_user_is_known(ends: Ends) -> None:
    client, _, address = ends
    assert owner_of(guard.TABLE.read_text(), client.getsockname(), address) == os.getuid()
    assert is_same_user(client.getsockname(), address)


def test_a_connection_that_its_user_closed_is_nobodys(ends: Ends) -> None:
    """The system lists what is left of it as root's."""
    client, _, address = ends
    mine = client.getsockname()
    client.close()
    assert owner_of(guard.TABLE.read_text(), mine, address) == -1
    assert not is_same_user(mine, address)


def test_a_connection_of_another_user_isnt_ours(ends: Ends) -> None:
    client, _, address = ends
    lines = guard.TABLE.read_text().splitlines()
    word = f":{client.getsockname()[1]:04X}"
    changed = [
        " ".join([*row[:7], "4242", *row[8:]]) if row[1].endswith(word) else " ".join(row)
        for row in map(str.split, lines)
    ]
    assert owner_of("\n".join(changed), client.getsockname(), address) == 4242


def test_a_system_that_doesnt_list_the_server_is_not_asked(ends: Ends) -> None:
    client, _, address = ends
    assert owner_of("head\n", client.getsockname(), address) is None
