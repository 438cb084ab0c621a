"""The server of reports answers the browser of its owner alone, and its links work there."""

import contextlib
import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.guard import login
from flows import settings
from flows.server.report_pages import Server
from tests.flows.server.test_report_pages import OWNER, TOKEN

SECRET = "int of_ours();"
PAGE = f'<!doctype html><title>report</title><p>{SECRET}</p><a href="rows/one.html">rows</a>'
ROWS = '<!doctype html><title>rows</title><a href="../templates.html">back</a>'
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of a report and a page of rows below it."""
    folder = tmp_path / "reports"
    (folder / "rows").mkdir(parents=True)
    (folder / "templates.html").write_text(PAGE)
    (folder / "rows" / "one.html").write_text(ROWS)
    with _shown(folder) as serving:
        yield serving


@contextlib.contextmanager
def _shown(folder: Path, token: str = TOKEN) -> Iterator[Server]:
    with Server(folder, 0, token) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def _asked(server: Server, path: str, headers: dict[str, str]) -> tuple[int, str, list[str]]:
    connection = http.client.HTTPConnection(settings.HOST, server.server_port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    said = answer.status, answer.read().decode(), answer.headers.get_all("Set-Cookie", [])
    connection.close()
    return said


@pytest.mark.parametrize("path", ["/", "/templates.html", "/rows/one.html", "/none.html"])
@pytest.mark.parametrize("query", ["", "?token=", "?token=wrong"])
def test_nobody_reads_a_report_without_the_token(server: Server, path: str, query: str) -> None:
    status, said, cookies = _asked(server, f"{path}{query}", {})
    assert (status, cookies) == (401, [])
    assert "curriculum serve" in said, "it says which address to open"
    assert SECRET not in said
    assert "templates" not in said
    assert TOKEN not in said
    wanted = 404 if path == "/none.html" else 200
    assert _asked(server, path, OWNER)[0] == wanted, "the owner is answered"


def _cookies(server: Server) -> str:
    status, _, cookies = _asked(server, f"/?token={TOKEN}", {})
    assert status == 303
    return "; ".join(each.partition(";")[0] for each in cookies)


def test_a_login_at_one_server_counts_at_all_that_have_its_token(
    server: Server, tmp_path: Path
) -> None:
    known = {"Cookie": _cookies(server)}
    with _shown(tmp_path / "reports") as beside, _shown(tmp_path / "reports", "other") as other:
        assert _asked(beside, "/templates.html", known)[0] == 200
        assert _asked(other, "/templates.html", known)[0] == 401


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user_of_the_machine_reads_no_report_with_the_cookie(server: Server) -> None:
    code = (
        "import http.client, os, sys\n"
        "for user in (0, 65534):\n"
        "    os.setuid(user)\n"
        "    connection = http.client.HTTPConnection(sys.argv[1], timeout=60)\n"
        "    connection.request('GET', '/templates.html', headers={'Cookie': sys.argv[2]})\n"
        "    print(connection.getresponse().status)\n"
    )
    place = server.address.removeprefix("http://")
    command = [sys.executable, "-c", code, place, _cookies(server)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["200", "401"], "root's first, and then another's"


@pytest.mark.browser
@pytest.mark.timeout(300)
def test_links_to_reports_and_between_them_work_in_a_browser_that_is_logged_in(
    server: Server, tmp_path: Path, chromium: str
) -> None:
    from playwright.sync_api import expect, sync_playwright

    (tmp_path / "reports" / "runs.html").write_text(
        f'<title>runs</title><a href="{server.address}/templates.html">report</a>'
    )
    with _shown(tmp_path / "reports") as beside, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.goto(f"{server.address}/templates.html")
        expect(page.locator("body")).to_contain_text("curriculum serve")
        # Another port of the host logs in, as Prefect's does.
        page.goto(login(f"{beside.address}/runs.html", TOKEN))
        assert TOKEN not in page.url
        page.get_by_role("link", name="report").click()
        expect(page).to_have_url(f"{server.address}/templates.html")
        expect(page.locator("p")).to_have_text(SECRET)
        assert page.evaluate("self.origin") == "null"
        page.get_by_role("link", name="rows").click()
        expect(page).to_have_title("rows")
        page.get_by_role("link", name="back").click()
        expect(page).to_have_title("report")
        page.reload()
        expect(page).to_have_title("report")
        page.goto(server.address)
        page.get_by_role("link", name="templates").first.click()
        expect(page).to_have_title("report")
        browser.close()
