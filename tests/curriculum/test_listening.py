"""Users that listen at addresses of this machine."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum import listening
from curriculum.listening import connecting_user, is_here, is_told, listening_users
from curriculum.workers.ray import RayPool
from schemas.errors import WorkerError

STRANGER = 12_345
AS_STRANGER = f"""
import os, socket, sys
os.setgid({STRANGER})
os.setuid({STRANGER})
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=sys.argv[1] == "::")
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""
CONNECTS = f"""
import os, socket, sys
os.setgid({STRANGER})
os.setuid({STRANGER})
with socket.socket() as client:
    client.connect(("127.0.0.1", int(sys.argv[1])))
    sys.stdin.read()
"""
linux = pytest.mark.skipif(not is_told(), reason="needs /proc/net/tcp")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="root alone may become another user")


@contextlib.contextmanager
def other_process_at(address: str) -> Iterator[int]:
    """The port at which a process of another user listens."""
    with subprocess.Popen(
        [sys.executable, "-c", AS_STRANGER, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.communicate()


@linux
def test_the_users_of_a_port_are_those_that_listen_at_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        assert listening_users("127.0.0.1", port) == {os.getuid()}
        assert listening_users("127.0.0.2", port) == set()
        with socket.create_connection(("127.0.0.1", port)):
            assert listening_users("127.0.0.1", port) == {os.getuid()}
    assert listening_users("127.0.0.1", port) == set()


@linux
@as_root
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_another_user_is_seen_at_this_address_and_at_all(address: str) -> None:
    with other_process_at(address) as port:
        assert listening_users("127.0.0.1", port) == {STRANGER}


@linux
@as_root
def test_no_cluster_of_another_user_on_this_machine_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    words = "no Ray cluster answers at this address .a process of another user listens there"
    with other_process_at("0.0.0.0") as port:
        pool = RayPool(address=f"127.0.0.1:{port}", in_flight=1)
        with pytest.raises(WorkerError, match=words):
            [*pool.map(len, ["a"])]
    with socket.create_server(("127.0.0.1", 0)) as ours:
        pool = RayPool(address=f"127.0.0.1:{ours.getsockname()[1]}", in_flight=1)
        with pytest.raises(WorkerError, match="installed"):  # asked, had it been there
            [*pool.map(len, ["a"])]


@linux
def test_the_user_of_a_connection_is_the_one_that_made_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        place = ours.getsockname()
        with socket.create_connection(place), ours.accept()[0] as made:
            assert connecting_user(made.getpeername(), place) == os.getuid()
        assert connecting_user(("127.0.0.1", 1), place) is None


@linux
@as_root
def test_another_user_is_seen_to_connect() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as ours,
        subprocess.Popen(
            [sys.executable, "-c", CONNECTS, str(ours.getsockname()[1])], stdin=subprocess.PIPE
        ) as process,
        ours.accept()[0] as made,
    ):
        assert connecting_user(made.getpeername(), ours.getsockname()) == STRANGER
        process.communicate()


def test_without_netlink_nobody_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "AF_NETLINK", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as ours:
        place = ours.getsockname()
        with socket.create_connection(place) as client:
            assert connecting_user(client.getsockname(), place) is None


def test_addresses_of_this_machine_are_told_from_others() -> None:
    assert is_here("127.0.0.1")
    assert is_here("127.0.0.2")
    assert not is_here("192.0.2.1")


@linux
def test_without_ipv6_the_first_table_is_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(listening, "_TABLES", (listening._TABLES[0], tmp_path / "none"))
    with socket.create_server(("127.0.0.1", 0)) as ours:
        assert is_told()
        assert listening_users("127.0.0.1", ours.getsockname()[1]) == {os.getuid()}
