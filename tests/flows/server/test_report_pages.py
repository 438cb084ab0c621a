"""Reports are handed to this machine's browsers, and nothing else to nobody else."""

import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from curriculum.store import Store
from dashboards.guard import authorization, secret_of
from dashboards.report.files import policy
from flows import settings
from flows.server.report_pages import Server

TOKEN = "a-token-of-24-characters"
OWNER = {"Authorization": authorization(secret_of(TOKEN))}
POLICY = "default-src 'none'; style-src 'sha256-x'"
PAGE = f'<!doctype html>\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">\nGröße\n'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of two reports, beside things that aren't its business."""
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "templates.html").write_text(PAGE, encoding="utf-8")
    (folder / "bare.html").write_text("<script>alert(1)</script>", encoding="utf-8")
    (folder / ".templates.html.1.draft").write_text("half")
    (folder / "notes.txt").write_text("secret")
    (folder / "rows").mkdir()
    (folder / "rows" / "0123456789ab.html").write_text(PAGE, encoding="utf-8")
    (folder / "rows" / "link.html").symlink_to(tmp_path / "secret.html")
    (folder / "rows" / "notes.txt").write_text("secret")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "in.html").write_text("secret")
    (folder / "folder.html").mkdir()
    (tmp_path / "secret.html").write_text("secret")
    (folder / "link.html").symlink_to(tmp_path / "secret.html")
    with Server(folder, 0, TOKEN) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def _ask(
    server: Server,
    path: str,
    *,
    method: str = "GET",
    host: str | None = None,
    known: dict[str, str] = OWNER,
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    headers = {**known, **({} if host is None else {"Host": host})}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, body


@pytest.mark.parametrize(
    "path", ["/templates.html", "/templates.html?x=1", "/rows/0123456789ab.html"]
)
def test_a_report_comes_whole_and_with_the_policy_of_the_server(server: Server, path: str) -> None:
    status, headers, body = _ask(server, path)
    assert (status, body) == (200, PAGE)
    assert headers["Content-Security-Policy"] == policy(PAGE)
    assert POLICY not in headers["Content-Security-Policy"]
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_without_a_policy_may_do_nothing(server: Server) -> None:
    status, headers, _ = _ask(server, "/bare.html")
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "unsafe" not in headers["Content-Security-Policy"].partition("script-src")[2]
    assert "sandbox" in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        *("/reports/", "/none.html", "/notes.txt", "/deeper/in.html", "/link.html"),
        *("/../secret.html", "/%2e%2e/secret.html", "//etc/passwd", "/.templates.html.1.draft"),
        *("/rows/", "/rows", "/rows/link.html", "/rows/notes.txt", "/rows/../templates.html"),
        *("/rows//0123456789ab.html", "/rows/rows/0123456789ab.html", "/rows/%2e%2e/secret.html"),
        *("/folder.html", "/templates.html/", "/templates.html%00", "http://x/templates.html"),
    ],
)
def test_nothing_else_is_handed_out_or_listed(server: Server, path: str) -> None:
    status, headers, body = _ask(server, path)
    if path.startswith("http:"):
        assert status == 403, "its Host is another"
        return
    assert status == 404
    assert body == "There is no such report.\n"
    assert "sandbox" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1:1", ""])
def test_a_foreign_name_that_points_here_reads_nothing(server: Server, host: str) -> None:
    status, _, body = _ask(server, "/templates.html", host=host)
    assert status == 403
    assert "Größe" not in body


def test_localhost_is_this_machine(server: Server) -> None:
    assert _ask(server, "/templates.html", host=f"localhost:{server.server_port}")[0] == 200


def test_nothing_can_be_sent_to_it(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert _ask(server, "/templates.html", method=method)[0] == 501


def test_head_tells_the_size_only(server: Server) -> None:
    status, headers, body = _ask(server, "/templates.html", method="HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) == len(PAGE.encode())


def test_it_listens_on_this_machine_only(server: Server) -> None:
    assert server.server_address[0] == settings.HOST


def test_a_folder_that_isnt_there_yet_has_no_reports(tmp_path: Path) -> None:
    with Server(tmp_path / "none", 0, TOKEN) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        assert _ask(serving, "/templates.html")[0] == 404
        serving.shutdown()
        thread.join()


def test_the_command_says_where_it_is_and_ends_when_told(tmp_path: Path) -> None:
    Store(tmp_path).open()
    (tmp_path / "reports").mkdir(exist_ok=True)
    (tmp_path / "reports" / "x.html").write_text(PAGE, encoding="utf-8")
    with socket.socket() as taken:
        taken.bind((settings.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.server.report_pages", str(tmp_path), "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=settings.environment(settings.paged(TOKEN)),
        )
        assert process.stdout is not None
        address = process.stdout.readline().strip()
    assert settings.reports_file(tmp_path).read_text() == address
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)", address)
    assert found, "it says where it listens"
    assert int(found[1]) != port, "the port was taken"
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
    connection.request("GET", "/x.html", headers=OWNER)
    assert connection.getresponse().read().decode() == PAGE
    connection.close()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert not settings.reports_file(tmp_path).exists()
