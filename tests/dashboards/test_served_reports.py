"""Reports are handed to the browser that knows their path, and nothing else is handed out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.report.files import policy
from dashboards.server import Pages
from tests.dashboards.pages_server import PATH, PagesServer, pages_server

POLICY = "default-src 'none'; style-src 'sha256-x'"
PAGE = f'<!doctype html>\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">\nGröße\n'
SECRET = "int of_ours();"
LINKED = f'<!doctype html><title>report</title><p>{SECRET}</p><a href="rows/one.html">rows</a>'
ROWS = '<!doctype html><title>rows</title><a href="../linked.html">back</a>'
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PagesServer]:
    """A server of reports, beside things that aren't its business."""
    folder = tmp_path / "reports"
    (folder / "rows").mkdir(parents=True)
    (folder / "templates.html").write_text(PAGE, encoding="utf-8")
    (folder / "bare.html").write_text("<script>alert(1)</script>", encoding="utf-8")
    (folder / "linked.html").write_text(LINKED)
    (folder / ".templates.html.1.draft").write_text("half")
    (folder / "notes.txt").write_text("secret")
    (folder / "rows" / "0123456789ab.html").write_text(PAGE, encoding="utf-8")
    (folder / "rows" / "one.html").write_text(ROWS)
    (folder / "rows" / "link.html").symlink_to(tmp_path / "secret.html")
    (folder / "rows" / "notes.txt").write_text("secret")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "in.html").write_text("secret")
    (folder / "folder.html").mkdir()
    (tmp_path / "secret.html").write_text("secret")
    (folder / "link.html").symlink_to(tmp_path / "secret.html")
    with pages_server(tmp_path) as served:
        yield served


@pytest.mark.parametrize("path", ["templates.html", "templates.html?x=1", "rows/0123456789ab.html"])
def test_a_report_comes_whole_and_with_the_policy_of_the_server(
    server: PagesServer, path: str
) -> None:
    found = server.report(path)
    assert (found.status, found.body) == (200, PAGE)
    assert found.headers["Content-Security-Policy"] == policy()
    assert POLICY not in found.headers["Content-Security-Policy"]
    assert found.headers["Content-Type"] == "text/html; charset=utf-8"
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["Referrer-Policy"] == "no-referrer"
    assert found.headers["Set-Cookie"] is None


def test_a_page_without_a_policy_may_do_nothing(server: PagesServer) -> None:
    given = server.report("bare.html").headers["Content-Security-Policy"]
    assert given.startswith("default-src 'none'")
    assert "unsafe" not in given.partition("script-src")[2]
    assert "sandbox" in given


@pytest.mark.parametrize(
    "path",
    [
        *("reports/", "none.html", "notes.txt", "deeper/in.html", "link.html"),
        *("../secret.html", "%2e%2e/secret.html", "/etc/passwd", ".templates.html.1.draft"),
        *("rows/", "rows", "rows/link.html", "rows/notes.txt", "rows/../templates.html"),
        *("rows//0123456789ab.html", "rows/rows/0123456789ab.html", "rows/%2e%2e/secret.html"),
        *("folder.html", "templates.html/", "templates.html%00"),
    ],
)
def test_nothing_else_is_handed_out(server: PagesServer, path: str) -> None:
    found = server.report(path)
    assert found.status == 404
    assert "secret" not in found.body
    assert "templates" not in found.body


def test_the_list_names_reports_and_nothing_else(server: PagesServer) -> None:
    found = server.report("")
    assert found.status == 200
    for name in ("templates", "linked"):
        assert f'href="{name}.html"' in found.body
    assert "0123456789ab" not in found.body
    assert "notes" not in found.body
    assert "Overview" not in found.body, "no dashboards are shown"


def test_where_no_report_is_written_yet_the_list_says_so(tmp_path: Path) -> None:
    with pages_server(tmp_path / "none") as server:
        found = server.report("")
        assert server.report("templates.html").status == 404
    assert found.status == 200
    assert "curriculum report" in found.body


def test_the_list_leads_to_the_overview_where_that_is_shown(server: PagesServer) -> None:
    with pages_server(Path("none"), Pages(path="", built=None)) as beside:
        assert '<a href="../overview/">Overview</a>' in beside.report("").body


@pytest.mark.parametrize("path", ["reports/", "reports/linked.html", "reports/rows/one.html"])
def test_nobody_reads_a_report_without_the_path(server: PagesServer, path: str) -> None:
    for guess in ("", "reports/", f"{PATH[::-1]}/", f"{PATH[1:]}/"):
        found = server.ask(f"/{guess}{path}")
        assert found.status == 404
        assert SECRET not in found.body
        assert "templates" not in found.body
        assert PATH not in found.body
    assert server.ask(f"/{PATH}/{path}").status == 200, "the owner is answered"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1:1", ""])
def test_a_foreign_name_that_points_here_reads_nothing(server: PagesServer, host: str) -> None:
    found = server.report("templates.html", {"Host": host})
    assert found.status == 403
    assert "Größe" not in found.body


def test_a_head_request_gets_the_size_alone(server: PagesServer) -> None:
    found = server.ask(f"/{PATH}/reports/templates.html", method="HEAD")
    assert (found.status, found.body) == (200, "")
    assert int(found.headers["Content-Length"]) == len(PAGE.encode())


@pytest.mark.browser
@pytest.mark.timeout(300)
def test_links_to_reports_need_no_path_in_a_browser_that_is_logged_in(
    server: PagesServer, chromium: str, tmp_path: Path
) -> None:
    from playwright.sync_api import expect, sync_playwright

    link = f"{server.origin}/reports/linked.html"
    (tmp_path / "reports" / "runs.html").write_text(
        f'<title>runs</title><a href="{link}">report</a>'
    )
    with pages_server(tmp_path) as beside, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.goto(link)
        expect(page.locator("body")).to_contain_text("Open the address")
        page.goto(server.login.replace("#", "#0"))
        page.goto(server.login.replace(PATH, PATH[::-1]))
        page.wait_for_timeout(500)
        expect(page.locator("body")).to_contain_text("Open the address")
        assert page.evaluate("localStorage.length") == 0, "a path that is wrong isn't stored"

        page.goto(server.login)
        page.wait_for_url(server.reports)
        # A page of another port of the host, as Prefect's is.
        page.goto(f"{beside.reports}runs.html")
        page.get_by_role("link", name="report").click()
        page.wait_for_url(f"{server.reports}linked.html")
        expect(page.locator("p")).to_have_text(SECRET)
        assert page.evaluate("self.origin") == "null"
        page.get_by_role("link", name="rows").click()
        expect(page).to_have_title("rows")
        page.get_by_role("link", name="back").click()
        expect(page).to_have_title("report")
        page.reload()
        expect(page).to_have_title("report")
        page.goto(server.origin)
        page.get_by_role("link", name="templates").first.click()
        page.wait_for_url(f"{server.reports}templates.html")
        # A bookmark of an earlier serve.
        page.goto(f"{server.origin}/{PATH[::-1]}/reports/linked.html")
        page.wait_for_url(f"{server.reports}linked.html")
        assert page.context.cookies() == []
        browser.close()
