"""The API of `curriculum serve` answers its owner alone, and nothing that a workspace holds is executed."""

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from curriculum.store import Store
from dashboards.guard import authorization, split_login
from flows import settings
from flows.settings import prefect_variables
from tests.flows.hostile_page import ATTEMPTS, Site, site
from tests.flows.hostile_settings import KEPT, PAYLOAD, THEIRS, plant_settings
from tests.flows.serving import Served, serving, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = [pytest.mark.system, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def sentinel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is there as soon as anything of the sender's was executed."""
    return tmp_path_factory.mktemp("sentinel") / "executed"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, sentinel: Path) -> Iterator[Served]:
    """A workspace from somebody who wants to run commands, served from a shell that stands in it."""
    home = tmp_path_factory.mktemp("homes") / "received"
    plant_settings(home, sentinel)
    with serving(home, cwd=home) as served:
        yield served


def status(
    served: Served, method: str, path: str, headers: Mapping[str, str], body: str = ""
) -> int:
    """What the server answers a request with these headers, and no others but Host."""
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
    return {"Authorization": authorization(served.secret)}


def test_no_request_but_the_owners_reads_or_starts_anything(served: Served) -> None:
    deployment, before = run_deployment(served)
    body = json.dumps({"parameters": {"specialist": "templates.demo"}})
    start, read = f"/api/deployments/{deployment}/create_flow_run", "/api/deployments/filter"
    kinds: list[dict[str, str]] = [
        *({}, {"Content-Type": "application/json"}, {"Content-Type": "text/plain"})
    ]
    for kind in kinds:
        for path, text in ((start, body), (read, "{}")):
            assert status(served, "POST", path, kind, text) == 401, "anonymous"
            wrong = {**kind, "Authorization": authorization("curriculum:wrong")}
            assert status(served, "POST", path, wrong, text) == 401
            for elsewhere in (
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Host": f"evil.example:{served.address.rpartition(':')[2]}"},
            ):
                asked = {**kind, **owner(served), **elsewhere}
                assert status(served, "POST", path, asked, text) == 403
    for path in ("/", "/v2/runs", "/ui-settings", "/api/health", "/docs", "/openapi.json"):
        assert status(served, "GET", path, {}) == 401
    assert run_deployment(served) == (deployment, before)
    known = {**owner(served), "Content-Type": "application/json"}
    assert status(served, "POST", read, known, "{}") == 200, "the owner's is answered"


@pytest.mark.parametrize("path", ["events/out", "events/in", "logs/out"])
def test_no_socket_but_the_owners_is_opened(served: Served, path: str) -> None:
    url = f"{served.address.replace('http', 'ws')}/api/{path}"

    def opened(headers: Mapping[str, str], origin: str | None = None) -> str:
        prefect = [Subprotocol("prefect")]
        from_page = Origin(origin) if origin else None
        with connect(
            url, origin=from_page, subprotocols=prefect, additional_headers=headers, proxy=None
        ) as socket:
            socket.send(json.dumps({"type": "auth", "token": ""}))
            return str(json.loads(socket.recv(60))["type"])

    for headers, origin in (
        ({}, None),
        ({}, served.address),
        ({"Authorization": authorization("curriculum:wrong")}, None),
        (owner(served), "http://evil.example"),
        (owner(served), "http://127.0.0.1:9"),
    ):
        with pytest.raises(InvalidStatus, match="403"):
            opened(headers, origin)
    assert opened(owner(served)) == "auth_success"


def test_a_run_takes_neither_command_nor_environment_from_who_starts_it(
    served: Served, sentinel: Path, tmp_path: Path
) -> None:
    """Its process also logs in by itself: what it sends by a socket arrives."""
    trace = tmp_path / "trace"
    wanted = {
        "command": f"touch {sentinel}",
        "env": {"CURRICULUM_HOME": "/elsewhere", "env.CURRICULUM_HOME": "/elsewhere"},
        "env.CURRICULUM_HOME": "/elsewhere",
        "working_dir": str(served.home),
    }
    deployment = served.napping("cpu")
    with served.client() as client:
        run = client.create_flow_run_from_deployment(
            deployment, parameters={"trace": str(trace)}, job_variables=wanted
        ).id
    served.await_state(run, "Completed")
    assert trace.read_text().split()[1:] == [str(served.home)]
    assert not sentinel.exists()

    def heard() -> bool:
        found = {"filter": {"event": {"name": ["curriculum.flow-run.ended"]}}}
        asked = served.request("events/filter", found)
        return f"prefect.flow-run.{run}" in read(asked)

    wait_until(heard)


def read(asked: Any) -> str:
    """The body of an answer."""
    import urllib.request

    with urllib.request.urlopen(asked, timeout=60) as answer:
        return str(answer.read().decode())


def test_the_token_is_in_files_of_the_owners_and_in_no_command_line_or_log(served: Served) -> None:
    folder = settings.prefect_folder(served.home)
    place = settings.address_file(served.home)
    address, token = split_login(place.read_text())
    assert (address, len(token) > 30) == (served.address, True)
    assert [each.stat().st_mode & 0o077 for each in (folder, folder.parent, place)] == [0, 0, 0]
    status(served, "GET", f"/?token={token}", {})
    status(served, "GET", "/api/flows/nonsense?token=wrong", owner(served))
    for process in served.family:
        assert token not in " ".join(process.cmdline())
    logs = sorted(folder.glob("*.log"))
    assert {each.stem for each in logs} >= {"server", "worker-cpu", "worker-gpu", "deployments"}
    assert [each for each in logs if token in each.read_text()] == []


def test_nothing_that_a_received_workspace_holds_is_executed_read_or_written_through(
    served: Served, sentinel: Path, tmp_path: Path
) -> None:
    assert not sentinel.exists()
    assert {(served.home / "prefect" / name).read_text() for name in KEPT} == {THEIRS}
    assert (served.home / "prefect/prefect.db").read_bytes() == b"a database"
    assert not (served.home / "elsewhere.db").exists()
    assert not settings.prefect_folder(served.home).is_relative_to(served.home)
    # The same folder as Prefect's home, and the same current directory, would have run it.
    quiet = settings.environment(prefect_variables.quiet(served.home))
    loose = {**quiet, "PREFECT_HOME": str(served.home / "prefect")}
    for name in ("PREFECT_LOGGING_SETTINGS_PATH", "PREFECT_PROFILES_PATH"):
        del loose[name]
    code = "from prefect.logging.configuration import setup_logging; setup_logging()"
    for environment, fires in ((quiet, False), (loose, True)):
        subprocess.run(
            [sys.executable, "-P", "-c", code], env=environment, cwd=tmp_path, capture_output=True
        )
        assert sentinel.exists() == fires
        sentinel.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "torch"], cwd=served.home, check=True)
    assert sentinel.exists()
    sentinel.unlink()


def test_a_command_takes_no_settings_from_the_folder_that_it_was_called_in(
    served: Served, tmp_path: Path
) -> None:
    """Files for Prefect in the current directory name another database, and count without our care."""
    code = (
        "import contextlib, pathlib, sys\n"
        "from flows import settings\n"
        "from flows.settings import prefect_variables\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "settings.apply(prefect_variables.quiet(home))\n"
        "with prefect_variables.unset(home) if sys.argv[2] == 'with' else contextlib.nullcontext():\n"
        "    from prefect.settings import get_current_settings\n"
        "print(get_current_settings().server.database.connection_url.get_secret_value())\n"
    )
    for care, named in (("with", "prefect.db"), ("without", "elsewhere.db")):
        command = [sys.executable, "-P", "-c", code, str(served.home), care]
        done = subprocess.run(command, cwd=served.home, capture_output=True, text=True, check=True)
        assert done.stdout.strip().endswith(named)


def test_a_worker_imports_nothing_from_the_folder_that_a_command_was_called_in(
    tmp_path: Path,
) -> None:
    """Python starts the processes of a pool with the current directory first on its path."""
    sentinel, here = tmp_path / "executed", tmp_path / "received"
    here.mkdir()
    (here / "multiprocessing.py").write_text(PAYLOAD.format(sentinel=str(sentinel)))
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "from flows import cli\n"
        "if __name__ == '__main__':\n"
        "    if sys.argv[1] == 'command':\n"
        "        cli.app = lambda: None\n"
        "        cli.main()\n"
        "    process = multiprocessing.get_context('spawn').Process(target=print)\n"
        "    process.start()\n"
        "    process.join()\n"
    )
    for caller, fires in (("command", False), ("anybody", True)):
        command = [sys.executable, str(script), caller]
        subprocess.run(command, cwd=here, capture_output=True, check=False)
        assert sentinel.exists() == fires


def test_a_workspace_elsewhere_or_of_another_sender_has_a_prefect_of_its_own(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for home in (one, two):
        Store(home).open()
    mine = settings.prefect_folder(one)
    (two / "workspace.json").write_bytes((one / "workspace.json").read_bytes())
    assert settings.prefect_folder(two) != mine, "a copy"
    (tmp_path / "link").symlink_to(one)
    assert settings.prefect_folder(tmp_path / "link") == mine
    (one / "workspace.json").unlink()
    Store(one).open()
    assert settings.prefect_folder(one) != mine, "another one at the same path"


def test_a_prefect_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store(home).open()
    place = settings.prefect_folder(home)
    place.rmdir()
    place.symlink_to(tmp_path)
    try:
        with pytest.raises(settings.SettingError, match="link"):
            settings.prefect_folder(home)
    finally:
        place.unlink()


def test_commands_of_others_get_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in prefect_variables.admitted("curriculum:secret").items():
        monkeypatch.setenv(name, value)
    assert "secret" in os.environ["PREFECT_API_AUTH_STRING"]
    assert [name for name, value in settings.outside().items() if "curriculum:" in value] == []
    assert not {"PREFECT_API_AUTH_STRING", "PREFECT_CLIENT_CUSTOM_HEADERS"} & {*settings.outside()}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user_of_the_machine_has_nothing_of_a_cookie(served: Served) -> None:
    """Browsers send it to every port of a host, also to that user's."""
    server = served.address.removeprefix("http://")
    login = settings.address_file(served.home).read_text().partition(server)[2]
    connection = http.client.HTTPConnection(server, timeout=60)
    connection.request("GET", login)
    given = connection.getresponse().headers.get_all("Set-Cookie", [])
    cookie = "; ".join(each.partition(";")[0] for each in given)
    code = (
        "import http.client, os, sys\n"
        "for user in (0, 65534):\n"
        "    os.setuid(user)\n"
        "    connection = http.client.HTTPConnection(sys.argv[1], timeout=60)\n"
        "    said = {'Cookie': sys.argv[2], 'X-Forwarded-For': sys.argv[3]}\n"
        "    connection.request('GET', '/api/health', headers=said)\n"
        "    print(connection.getresponse().status)\n"
    )
    # That is an open connection of the owner's, as any user reads it in the system's list.
    host, number = connection.sock.getsockname()
    command = [sys.executable, "-c", code, server, cookie, f"{host}:{number}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    connection.close()
    assert done.stdout.split() == ["200", "401"], "root's first, and then another's"


@pytest.mark.browser
def test_a_page_from_elsewhere_starts_and_reads_nothing_in_the_browser_of_the_owner(
    served: Served, chromium: str
) -> None:
    from playwright.sync_api import sync_playwright

    from tests.flows.test_ui import BROWSER_MS, FLAGS

    with site() as hostile, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        context = browser.new_context()
        context.set_default_timeout(BROWSER_MS)
        page = context.new_page()
        try:
            page.goto(served.address)
            assert "holds a token" in page.inner_text("body"), "nobody is logged in yet"
            page.goto(settings.address_file(served.home).read_text())
            _is_logged_in(page, served)
            for name in (settings.HOST, "localhost"):
                _attack(context, served, hostile, f"http://{name}:{hostile.port}/")
            page.goto(served.address)
            _is_logged_in(page, served)
        finally:
            browser.close()


def _is_logged_in(page: "Page", served: Served) -> None:
    """The pages are shown, and their scripts read the API."""
    page.get_by_role("link", name="Deployments").first.wait_for()
    assert "token" not in page.url
    body = 'fetch("/api/deployments/filter", {method: "POST", body: "{}"}).then(r => r.status)'
    assert page.evaluate(body) == 200
    kept = [each for each in page.context.cookies() if each["name"].startswith("curriculum-")]
    assert all(each["httpOnly"] for each in kept)
    # Prefect takes the first one alone: see the tests of the guard.
    assert {each["sameSite"] for each in kept} == {"Strict", "Lax"}


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
