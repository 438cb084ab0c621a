"""Proxies of the environment stand between this machine and others, never between parts of this machine."""

import contextlib
import http.server
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from flows import settings
from flows.server import children
from flows.server.children import ChildProcess, ServeError
from flows.settings.proxies import direct_to_loopback
from tests.flows.serving import furnish, serving

DIET = """\
specialist: testing
branch: proxies
phases_file: short
corpus: small
model: tiny
tokenizer: corpus
vocab_size: 512
token_budget: 12K
phases: [{phase: first, portion: 1.0, servings: [{family: v3_simple, share: 1.0}]}]
"""
NAMES = [f"{kind}_proxy" for kind in ("http", "https", "all", "no")]


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a proxy that takes each connection and never answers."""
    with socket.socket() as ear:
        ear.bind((settings.HOST, 0))
        ear.listen(100)
        yield f"{settings.HOST}:{ear.getsockname()[1]}"


@pytest.fixture
def page() -> Iterator[str]:
    """The address of a server on this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer((settings.HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://{settings.HOST}:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without proxies."""
    for name in (*NAMES, *map(str.upper, NAMES)):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("scheme", ["http", "socks5", "socks5h", "socks", "socks4", ""])
def test_a_server_on_this_machine_is_asked_without_a_proxy(
    name: str, scheme: str, bare: pytest.MonkeyPatch, silent: str, page: str
) -> None:
    bare.setenv(name, f"{scheme}://{silent}" if scheme else silent)
    for changed, value in direct_to_loopback().items():
        bare.setenv(changed, value)
    with httpx.Client(timeout=5) as client:
        assert client.get(page).status_code == 200
    opener = urllib.request.build_opener(urllib.request.ProxyHandler())
    with opener.open(page, timeout=5) as answer:
        assert answer.status == 200


def test_proxies_for_other_machines_stay(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    bare.setenv("all_proxy", "socks://proxy.example:1080")
    bare.setenv("NO_PROXY", "intranet.example, 10.0.0.1")
    for name, value in direct_to_loopback().items():
        bare.setenv(name, value)
    outside = settings.external_environment()
    assert outside["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert outside["ALL_PROXY"] == "socks://proxy.example:1080"
    assert "all_proxy" not in outside, "an empty one would hide it from git and curl"
    assert outside["NO_PROXY"] == "intranet.example,10.0.0.1,127.0.0.1,localhost"


def test_a_star_for_all_hosts_stays_alone(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("NO_PROXY", "*")
    assert direct_to_loopback() == {"no_proxy": "*", "NO_PROXY": "*"}


def test_a_server_that_never_answers_is_named_with_its_last_words(
    tmp_path: Path, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "PATIENCE_S", 0.5)
    monkeypatch.setattr(children, "FOREIGN_PATIENCE_S", 0.5)
    monkeypatch.setattr(children, "SLOW_S", 0.0)
    child = ChildProcess(
        name="server", arguments=("-c", "import time; time.sleep(900)"), log=tmp_path / "server.log"
    )
    said: list[str] = []
    child.start()
    with contextlib.closing(socket.create_server((settings.HOST, 0))) as deaf:
        nobody = f"http://{settings.HOST}:{deaf.getsockname()[1]}/api/health"
    for server in (child, None):
        with pytest.raises(ServeError) as refused:
            children.await_health(nobody, server, said.append)
        assert "refused" in str(refused.value)
    child.end()
    assert [str(child.log) in line for line in said] == [True]


def _variables(silent: str) -> dict[str, str]:
    return {
        "HTTP_PROXY": f"http://{silent}",
        "HTTPS_PROXY": f"http://{silent}",
        "ALL_PROXY": f"socks5://{silent}",
    }


@pytest.mark.system
def test_run_trains_where_proxies_are_set(tmp_path: Path, silent: str) -> None:
    home = tmp_path / "home"
    furnish(home, tmp_path / "samples", ours=DIET)
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", "run", "ours", "--home", str(home)],
        env=settings.environment(_variables(silent)),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.system
def test_serve_runs_flows_where_proxies_are_set(tmp_path: Path, silent: str) -> None:
    home = tmp_path / "home"
    furnish(home, tmp_path / "samples", ours=DIET)
    http, socks = f"http://{silent}", f"socks5://{silent}"
    with serving(home, HTTP_PROXY=http, HTTPS_PROXY=http, ALL_PROXY=socks) as served:
        with served.client() as client:
            deployment = client.read_deployment_by_name("run/run")
            run = client.create_flow_run_from_deployment(
                deployment.id, parameters={"specialist": "ours", "dry_run": True}
            )
        served.await_state(run.id, "Completed", "Failed", "Crashed")
        assert served.state(run.id) == "Completed"
