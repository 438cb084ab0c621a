"""The address of the reports that `serve` prints leads to a page that lists them."""

import http.client
import threading
from pathlib import Path

from dashboards.guard import authorization, secret_of
from flows.server.report_pages import Server

OWNER = {"Authorization": authorization(secret_of("token"))}
PAGE = "<!doctype html>\n<title>{name}</title>\n"


def _asked(folder: Path, dashboards: str | None = None) -> tuple[int, str]:
    with Server(folder, 0, "token", lambda: dashboards) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        connection.request("GET", "/", headers=OWNER)
        answer = connection.getresponse()
        said = answer.status, answer.read().decode()
        connection.close()
        server.shutdown()
        thread.join()
    return said


def test_the_address_of_the_reports_lists_them(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    (folder / "rows").mkdir(parents=True)
    for name in ("templates", "templates-ux"):
        (folder / f"{name}.html").write_text(PAGE.format(name=name))
    (folder / "rows" / "0123456789ab.html").write_text(PAGE.format(name="rows"))
    (folder / "notes.txt").write_text("secret")
    status, said = _asked(folder)
    assert status == 200
    for name in ("templates", "templates-ux"):
        assert f'href="{name}.html"' in said
    assert "0123456789ab" not in said
    assert "notes" not in said


def test_where_no_report_is_written_yet_the_address_says_so(tmp_path: Path) -> None:
    status, said = _asked(tmp_path / "reports")
    assert status == 200
    assert "No report" in said
    assert "curriculum report" in said


def test_the_list_leads_to_the_overview_where_that_is_shown(tmp_path: Path) -> None:
    assert "Overview" not in _asked(tmp_path / "reports")[1]
    said = _asked(tmp_path / "reports", "http://127.0.0.1:4202")[1]
    assert '<a href="http://127.0.0.1:4202/overview/">Overview</a>' in said
