"""The servers of `curriculum serve` answer their owner alone: no other user, no page of another site."""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from curriculum.pipeline.notifiers import EventSource, Notifier
from curriculum.store import Store
from flows import settings
from flows.settings import prefect_variables
from tests.flows.another_user import SNOOP
from tests.flows.hostile_page import ATTEMPTS, Site, site
from tests.flows.prefect_pages import BROWSER_MS, FLAGS, log_in, open_page
from tests.flows.serving import Served, serving

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A workspace that is served."""
    with serving(tmp_path_factory.mktemp("homes") / "home") as served:
        yield served


def status(
    served: Served, method: str, path: str, headers: Mapping[str, str], body: str = ""
) -> int:
    """Return the status of a request with Host and the given headers only."""
    host = headers.get("Host", served.address.removeprefix("http://"))
    connection = http.client.HTTPConnection(served.address.removeprefix("http://"), timeout=60)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Content-Length": str(len(body)), **headers, "Host": host}.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode())
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def run_deployment(served: Served) -> tuple[str, int]:
    """The id of the deployment `run`, and how many flow runs there are."""
    with served.client() as client:
        return str(client.read_deployment_by_name("run/run").id), len(client.read_flow_runs())


def owner(served: Served) -> dict[str, str]:
    return settings.authorization(served.secret)


def wrong() -> dict[str, str]:
    return settings.authorization("curriculum:wrong")


ELSEWHERE = (
    {"Origin": "http://evil.example"},
    {"Origin": "http://127.0.0.1:9"},
    {"Origin": "null"},
    {"Host": "evil.example:{port}"},
    {"Host": "localhost:{port}"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"},
)
"""Headers that a browser adds to requests of another site or of a rebound name."""


def foreign_origins(served: Served) -> list[dict[str, str]]:
    port = served.address.rpartition(":")[2]
    return [{name: text.format(port=port) for name, text in each.items()} for each in ELSEWHERE]


def test_no_request_but_the_owners_reads_or_starts_anything(served: Served) -> None:
    deployment, before = run_deployment(served)
    body = json.dumps({"parameters": {"specialist": "templates.demo"}})
    start, read = f"/api/deployments/{deployment}/create_flow_run", "/api/deployments/filter"
    for kind in ({}, {"Content-Type": "application/json"}, {"Content-Type": "text/plain"}):
        for path, text in ((start, body), (read, "{}")):
            for unknown in (
                {},
                wrong(),
                settings.authorization("curriculum:é"),
                {"Cookie": f"prefect-password={served.secret}"},
            ):
                assert status(served, "POST", path, {**kind, **unknown}, text) == 401
            for foreign in foreign_origins(served):
                asked = {**kind, **owner(served), **foreign}
                assert status(served, "POST", path, asked, text) == 403
    assert run_deployment(served) == (deployment, before)
    known = {**owner(served), "Content-Type": "application/json"}
    assert status(served, "POST", read, known, "{}") == 200, "the owner's is answered"


def test_without_a_password_prefect_answers_everyone() -> None:
    """The control: what is refused above is refused by the password alone."""
    from fastapi.testclient import TestClient
    from prefect.server.api.server import create_api_app
    from prefect.settings import PREFECT_SERVER_API_AUTH_STRING, temporary_settings

    found = {}
    for password in (None, "curriculum:word"):
        with temporary_settings({PREFECT_SERVER_API_AUTH_STRING: password}):
            client = TestClient(create_api_app(ignore_cache=True))
        found[password] = client.get("/version").status_code
    assert found == {None: 200, "curriculum:word": 401}


def test_the_server_of_a_single_run_asks_for_a_password_too(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys, urllib.error, urllib.request\n"
        "from flows import settings\n"
        "from flows.server.supervisor import api_for\n"
        "def asked(headers):\n"
        "    url = f\"{os.environ['PREFECT_API_URL']}/version\"\n"
        "    try:\n"
        "        return urllib.request.urlopen(urllib.request.Request(url, headers=headers)).status\n"
        "    except urllib.error.HTTPError as refused:\n"
        "        return refused.code\n"
        "with api_for(pathlib.Path(sys.argv[1]), print):\n"
        "    print(asked({}), asked(settings.credentials()))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    # A slow start says so before.
    assert done.stdout.split()[-2:] == ["401", "200"]


def test_without_a_login_there_are_health_and_pages_that_hold_nothing(served: Served) -> None:
    """Prefect's pages are the same for everyone: what they show, their scripts read from the API."""
    for path in ("/api/health", "/api/ready"):
        assert status(served, "GET", path, {}) == 200
    for path in ("/api/version", "/api/admin/settings", "/api/csrf-token?client=a"):
        assert (status(served, "GET", path, {}), status(served, "GET", path, wrong())) == (401, 401)
    assert status(served, "GET", "/api/version", owner(served)) == 200
    for path in ("/", "/v2/runs", "/ui-settings", "/curriculum/", "/docs", "/openapi.json"):
        asked = urllib.request.Request(f"{served.address}{path}", headers={"Accept": "text/html"})
        with urllib.request.urlopen(asked, timeout=60) as answer:
            headers = {name.lower(): value for name, value in answer.headers.items()}
            text = answer.read().decode()
        for secret in (served.secret, served.path, str(served.home)):
            assert secret not in text + str(headers)
        assert "set-cookie" not in headers
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]


SOCKETS = (
    "events/out",
    "events/in",
    "logs/out",
    "task_runs/subscriptions/scheduled",
    "work_pools/cpu/workers/connect",
)
"""All WebSockets of Prefect's API; the first message logs in."""


def test_these_are_all_sockets_that_prefect_has() -> None:
    from fastapi.routing import APIWebSocketRoute
    from prefect.server.api.server import API_ROUTERS

    found = {
        route.path.removeprefix("/").replace("{work_pool_name}", "cpu")
        for router in API_ROUTERS
        for route in router.routes
        if isinstance(route, APIWebSocketRoute)
    }
    assert found == {*SOCKETS}


@pytest.mark.parametrize("path", SOCKETS)
def test_no_socket_but_the_owners_is_opened(served: Served, path: str) -> None:
    url = f"{served.address.replace('http', 'ws')}/api/{path}"

    def answer(token: str, *, origin: str | None = None, protocol: str | None = "prefect") -> str:
        protocols = [Subprotocol(protocol)] if protocol else None
        from_page = Origin(origin) if origin else None
        with connect(url, origin=from_page, subprotocols=protocols, proxy=None) as opened:
            opened.send(json.dumps({"type": "auth", "token": token}))
            return str(json.loads(opened.recv(60))["type"])

    for token in ("", "curriculum:wrong", served.secret.partition(":")[2]):
        with pytest.raises(ConnectionClosed):
            answer(token)
    with pytest.raises(InvalidStatus, match="403"):
        answer(served.secret, protocol=None)
    for origin in ("http://evil.example", "http://127.0.0.1:9"):
        with pytest.raises(InvalidStatus, match="403"):
            answer(served.secret, origin=origin)
    assert answer(served.secret) == answer(served.secret, origin=served.address) == "auth_success"


NO_LOGIN: tuple[str | bytes, ...] = (
    *("nonsense", "[]", "1", "null", '"a"', "{}", '{"type":1}', "[" * 100_000, b"\x00\xff", b"{}"),
    *(
        f'{{"type":"auth","token":{token}}}'
        for token in ("5", "true", "[]", "null", '"é"', '"\\ud800"', '"x:y"', f'"{"a" * 100_000}"')
    ),
    '{"type":"auth"}',
)
"""First messages of WebSockets at many of which Prefect ends in an error of its own."""
MALFORMED = (
    *("Basic", "Basic !!!", "Basic \xff", "Bearer x", "\xe9", "Basic a=b=c", "Basic w6k6w6k="),
    *("Basic w6k6w6k=\xa0", "Basic w6k6w6k=\tx", "Basic x w6k6w6k=", "Basic " + "A" * 60_000),
)
"""Invalid Authorization headers; w6k6w6k= is é:é."""


UPGRADE = (
    "GET /api/events/out HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
RAW = (
    "nonsense\r\n\r\n",
    f"GET / HTTP/1.1\r\nA: {'a' * 200_000}\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: {host}\r\nContent-Length: -1\r\n\r\n",
    UPGRADE + "Sec-WebSocket-Extensions: \xff;;=\r\n\r\n",
    UPGRADE + "Sec-WebSocket-Protocol: pre\xff,,fect\r\n\r\n",
)
"""Requests at which uvicorn or websockets end in an error or a warning."""


@pytest.mark.parametrize("index", [0, 1, 2, 3, 11, 14, 15])
def test_prefect_alone_ends_in_an_error_at_an_unauthenticated_message(index: int) -> None:
    """The control: what the log doesn't hold below is an error of Prefect's, not a refusal."""
    from fastapi.testclient import TestClient
    from prefect.server.api.server import create_api_app
    from prefect.settings import PREFECT_SERVER_API_AUTH_STRING, temporary_settings

    def answer() -> None:
        with client.websocket_connect("/events/out", subprotocols=["prefect"]) as socket:
            socket.send_text(str(NO_LOGIN[index]))
            socket.receive_json()

    with temporary_settings({PREFECT_SERVER_API_AUTH_STRING: "curriculum:word"}):
        client = TestClient(create_api_app(ignore_cache=True))
        with pytest.raises((ValueError, AttributeError, TypeError)):
            answer()


def test_websockets_alone_ends_in_an_error_at_a_header_beyond_ascii() -> None:
    """The control, for the other requests."""
    protocol = ServerProtocol()
    protocol.receive_data(RAW[-1].format(host="a").encode("latin-1"))
    (request,) = protocol.events_received()
    assert isinstance(request, Request)
    with pytest.raises(UnicodeEncodeError):
        protocol.accept(request)


def close_code(url: str, message: str | bytes) -> int | None:
    """The code with which a WebSocket is closed after its first message."""
    with connect(url, subprotocols=[Subprotocol("prefect")], proxy=None) as opened:
        opened.send(message)
        with pytest.raises(ConnectionClosed) as closed:
            opened.recv(60)
        return closed.value.rcvd.code if closed.value.rcvd else None


def send_raw(address: str, request: str) -> None:
    """Send a request, and wait until the server closed the connection or answered."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as opened:
        opened.sendall(request.replace("{host}", f"{host}:{port}").encode("latin-1"))
        opened.recv(1000)


def test_unauthenticated_requests_fill_no_log(served: Served) -> None:
    folder = settings.prefect_folder(served.home)
    logs = [folder / "server.log", folder / "dashboards.log"]
    before = [log.read_bytes() for log in logs]
    for header in MALFORMED:
        for path in ("/api/version", "/api/flows/nonsense"):
            assert status(served, "GET", path, {"Authorization": header}) == 401
    url = served.address.replace("http", "ws")
    found = {close_code(f"{url}/api/{path}", said) for path in SOCKETS for said in NO_LOGIN}
    assert found == {1008}
    for path in ("/", "/v2/", "/api", "/api/", "/api/nonsense", "/docs"):
        for protocols in ([Subprotocol("prefect")], None):
            with pytest.raises(InvalidStatus, match="403"):
                connect(f"{url}{path}", subprotocols=protocols, proxy=None)
    for address in (served.address, served.places.pages):
        for request in RAW:
            send_raw(address, request)
    assert [log.read_bytes() for log in logs] == before


def test_reports_and_dashboards_are_shown_below_their_path_alone(served: Served) -> None:
    server = served.places.pages.removeprefix("http://")

    def asked(path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection(server, timeout=60)
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        assert answer.headers["Set-Cookie"] is None
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def opened(path: str, origin: str | None) -> str:
        url = f"ws://{server}{path}/sql/ws?session_id=s_abcdef"
        with connect(url, origin=Origin(origin) if origin else None, proxy=None) as socket:
            return str(socket.recv(60))

    inside, guessed = f"/{served.path}", f"/{served.path[::-1]}"
    for page in ("overview/", "mixtures/", "runs/", "sql/", "reports/", "style.css"):
        assert asked(f"{inside}/{page}", {})[0] == 200
        for path in (f"/{page}", f"{guessed}/{page}"):
            assert asked(path, owner(served)) == asked("/", {}), "the same says nothing"
            assert asked(path, {})[0] == 404
        foreign = [{**each, "Host": each.get("Host", server)} for each in foreign_origins(served)]
        assert {asked(f"{inside}/{page}", each)[0] for each in foreign} == {403}
    assert "kernel-ready" in opened(inside, f"http://{server}")
    for path, origin in ((guessed, None), ("", None), (inside, "http://evil.example")):
        with pytest.raises(InvalidStatus, match="403"):
            opened(path, origin)


def test_secrets_are_in_files_of_the_owners_and_in_no_command_line_or_log(served: Served) -> None:
    folder, place = settings.prefect_folder(served.home), settings.served_file(served.home)
    secrets = (served.secret.partition(":")[2], served.path)
    assert [len(each) for each in secrets] == [32, 32]
    assert "".join(secrets).isascii()
    assert [each.stat().st_mode & 0o077 for each in (folder, folder.parent, place)] == [0, 0, 0]
    status(served, "GET", "/api/flows/nonsense", owner(served))
    with urllib.request.urlopen(f"{served.places.pages}/{served.path}/reports/", timeout=60):
        pass
    logs = sorted(folder.glob("*.log"))
    stems = {"server", "worker-cpu", "worker-gpu", "dashboards", "deployments"}
    assert {each.stem for each in logs} >= stems
    for secret in secrets:
        assert [each for each in served.family if secret in " ".join(each.cmdline())] == []
        assert [each for each in logs if secret in each.read_text()] == []
        assert secret in place.read_text()
        assert secret in served.log.read_text(), "the owner's terminal has it"


def test_commands_of_others_get_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Store(tmp_path / "home").open()
    variables = prefect_variables.own_server(tmp_path / "home", 4200, "curriculum:word")
    for name, value in (variables | settings.pages_path_variable("guess")).items():
        monkeypatch.setenv(name, value)
    names = {"PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING", "CURRICULUM_PAGES_PATH"}
    assert names <= {*os.environ}
    assert {os.environ[name] for name in names} == {"curriculum:word", "guess"}
    told = tmp_path / "told"
    notifier = Notifier(target=f"sh -c 'env > {told}'", environment=settings.external_environment())
    assert notifier.notify(
        EventSource(home=tmp_path, specialist="a"), "done", "a is done", warn=print
    )
    assert "HOME=" in told.read_text()
    for secret in ("curriculum:word", "guess", *names):
        assert secret not in told.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user_of_the_machine_gets_in_by_nothing_that_it_sees(served: Served) -> None:
    server, pages = (
        address.removeprefix("http://") for address in (served.address, served.places.pages)
    )
    children = [served.child(f"flows.server.{name}").pid for name in ("api", "dashboard")]

    def snooped(user: int) -> dict[str, Any]:
        place = settings.served_file(served.home)
        words = (server, pages, place, served.path, served.secret, *children)
        command = [sys.executable, "-c", SNOOP, str(user), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    outside = {"ports": [True, True], "lines": []}
    assert snooped(65534) == outside | {
        "health": "closed",
        "api": "closed",
        "pages": ["closed"] * 4,
        "file": "PermissionError",
        "environment": ["PermissionError"] * 2,
        "memory": ["PermissionError"] * 2,
    }
    assert snooped(0) == outside | {
        "health": 200,
        "api": 401,
        "pages": [404] * 4,
        "file": served.secret,
        "environment": [True] * 2,
        "memory": [None] * 2,
    }, "the owner sees all of it"


@pytest.mark.browser
def test_a_page_from_elsewhere_starts_and_reads_nothing_in_the_browser_of_the_owner(
    served: Served, chromium: str
) -> None:
    from playwright.sync_api import sync_playwright

    with site() as hostile, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        context = browser.new_context()
        context.set_default_timeout(BROWSER_MS)
        page = context.new_page()
        try:
            page.goto(served.address)
            page.get_by_role("button", name="Login").wait_for()
            page.goto(served.places.login.replace("#", "#0"))
            assert "curriculum serve" in page.inner_text("body"), "nobody is logged in yet"
            log_in(page, served)
            _look_at_the_history(context, served)
            _is_logged_in(page, served)
            _follow_the_link_of_an_artifact(page, served)
            _look_at_a_neighbour(page, served, hostile)
            for name in (settings.HOST, "localhost"):
                _attack(context, served, hostile, f"http://{name}:{hostile.port}/")
            _is_logged_in(page, served)
        finally:
            browser.close()


def _is_logged_in(page: "Page", served: Served) -> None:
    """The pages of both servers are shown, no address holds a secret, and there is no cookie."""
    for path in ("/v2/runs", "/runs"):
        open_page(page, served, f"{served.address}{path}")
    login = base64.b64encode(served.secret.encode()).decode()
    assert page.evaluate("localStorage.getItem('prefect-password')") == login
    page.goto(f"{served.places.pages}/reports/")
    page.wait_for_url(f"{served.places.pages}/{served.path}/reports/")
    assert page.evaluate("document.referrer") == ""
    open_page(page, served, served.address)
    assert page.context.cookies() == [], "Prefect's page would set one of its analytics"
    page.evaluate("() => ['AMP_a=1', 'a=1'].forEach((text) => (document.cookie = text))")
    assert [each["name"] for each in page.context.cookies()] == ["a"]
    page.context.clear_cookies()


def _look_at_the_history(context: "BrowserContext", served: Served) -> None:
    """The address that holds the secrets is no entry of the browser's history."""
    page = context.new_page()
    page.goto(f"{served.address}/curriculum/?before")
    log_in(page, served)
    page.evaluate("history.back()")
    page.wait_for_url(f"{served.address}/curriculum/?before")
    page.close()


def _follow_the_link_of_an_artifact(page: "Page", served: Served) -> None:
    """Links in Prefect's database hold no path, so that those of an earlier serve lead on."""
    reports = served.home / "reports"
    reports.mkdir(exist_ok=True)
    (reports / "x.html").write_text("<title>report x</title>")
    link = f"{settings.reports_at(served.home)}/x.html"
    made = served.request(
        "artifacts/", {"key": "x", "type": "markdown", "data": f"[Report of x]({link})"}
    )
    with urllib.request.urlopen(made, timeout=60) as answer:
        artifact = json.loads(answer.read())["id"]
    open_page(page, served, f"{served.address}/v2/artifacts/artifact/{artifact}")
    shown = page.get_by_role("link", name="Report of x").first
    assert shown.get_attribute("href") == link
    shown.evaluate("link => { link.removeAttribute('target'); link.click(); }")
    page.wait_for_url(f"{served.places.pages}/{served.path}/reports/x.html")
    assert page.title() == "report x"


def _look_at_a_neighbour(page: "Page", served: Served, hostile: Site) -> None:
    """Another user's server on another port gets no secret, whoever leads the browser there."""
    # Browsers do send cookies there: this is what the secrets would be worth as cookies.
    page.context.add_cookies([{"name": "c", "value": "control", "url": served.address}])
    neighbour = f"http://{settings.HOST}:{hostile.port}"
    hostile.page = f"<title>neighbour</title><a href='{neighbour}/next'>on</a>"
    for address in (f"{served.places.pages}/reports/", f"{served.address}/v2/runs", neighbour):
        if address.startswith(served.address):
            open_page(page, served, address)
        else:
            page.goto(address)
        hostile.headers.clear()
        page.evaluate(
            "url => { const a = Object.assign(document.createElement('a'), { href: url });"
            " document.body.append(a); a.click(); }",
            f"{neighbour}/next",
        )
        page.wait_for_url(f"{neighbour}/next")
        (first, *_) = hostile.headers
        assert "c=control" in first["Cookie"]
        assert ("Referer" in first) == (address == neighbour), "a page without our header tells"
        for secret in (served.secret.partition(":")[2], served.path):
            assert secret not in str(hostile.headers)
    page.context.clear_cookies(name="c")
    open_page(page, served, served.address)


def _attack(context: "BrowserContext", served: Served, hostile: Site, address: str) -> None:
    """Open a page of another site that tries all it can; the same page reaches a server without a guard."""
    deployment, before = run_deployment(served)
    body: dict[str, object] = {"parameters": {"specialist": "templates.demo"}}
    start = f"/api/deployments/{deployment}/create_flow_run"
    paths = dict.fromkeys(("simple", "json", "form"), start) | {
        "read": "/api/deployments/filter",
        "frame": "/v2/runs",
        "script": "/api/health",
        "picture": "/ico/favicon-32x32.png",
        "socket": "/api/events/out",
    }
    page = context.new_page()
    hostile.attack(served.address, paths, body)
    page.goto(address)
    came = page.evaluate("window.all")
    assert came.keys() == {*ATTEMPTS}
    # A form and a frame say that they are loaded also where they show an error.
    may_load = {"form", "frame"}
    assert {name for name, what in came.items() if what == "came"} <= may_load
    shown = [each for each in page.frames if each != page.main_frame]
    assert len(shown) == 2
    assert [each for each in shown if "Prefect" in each.content()] == []
    assert run_deployment(served) == (deployment, before)

    hostile.asked.clear()
    hostile.attack(
        f"http://{settings.HOST}:{hostile.port}", {each: f"/{each}" for each in ATTEMPTS}, body
    )
    page.goto(address)
    page.evaluate("window.all")
    assert {*ATTEMPTS} <= {*hostile.asked}, "an attempt is none"
    page.close()
