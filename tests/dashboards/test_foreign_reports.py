"""A report that came with somebody else's workspace does nothing but show itself."""

import base64
import contextlib
import hashlib
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from dashboards import html
from dashboards.report import files
from dashboards.report.files import policy
from tests.dashboards.pages_server import PagesServer, pages_server

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder of reports."""
    (tmp_path / "reports" / "rows").mkdir(parents=True)
    return tmp_path / "reports"


@pytest.fixture
def server(folder: Path) -> Iterator[PagesServer]:
    """Its server."""
    with pages_server(folder.parent) as served:
        yield served


def _digest(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@pytest.mark.parametrize(
    "said", ["default-src 'none'\r\nSet-Cookie: a=b", "default-src *", "default-src 'none'\nX: y"]
)
def test_no_text_of_a_page_gets_into_a_header(server: PagesServer, folder: Path, said: str) -> None:
    page = f'<meta http-equiv="Content-Security-Policy" content="{said}"><p>x'
    (folder / "a.html").write_bytes(page.encode())
    found = server.report("a.html")
    assert found.status == 200
    assert found.headers["Set-Cookie"] is None
    assert found.headers["X"] is None
    given = found.headers["Content-Security-Policy"]
    assert given.startswith("default-src 'none'; ")
    assert "*" not in given


def test_a_page_cannot_allow_a_script_of_its_own(server: PagesServer, folder: Path) -> None:
    script = "fetch('http://127.0.0.1:1/')"
    allowed = f"default-src 'none'; script-src {_digest(script)}"
    page = (
        f'<meta http-equiv="Content-Security-Policy" content="{allowed}"><script>{script}</script>'
    )
    (folder / "a.html").write_text(page)
    given = server.report("a.html").headers["Content-Security-Policy"]
    assert _digest(script) not in given
    assert len(re.findall("sha256-", given)) == 2


def _own_page(name: str) -> str:
    """A page with nothing in it but the style and the script of its template."""
    given = {"style": html.asset(f"{name}.css"), "script": html.asset(f"{name}.js")}
    return html.page("page.html", title=name, data="null", **given)


@pytest.mark.parametrize("name", ["report", "rows"])
def test_the_scripts_of_our_own_pages_are_allowed(name: str) -> None:
    page = _own_page(name)
    given = policy()
    found = re.search("<script>(.*?)</script>", page, re.DOTALL)
    assert found
    assert _digest(found[1]) in given
    assert given.endswith("sandbox allow-scripts")


@pytest.mark.parametrize("name", ["report", "rows"])
def test_pages_of_ours_lose_nothing(server: PagesServer, folder: Path, name: str) -> None:
    page = _own_page(name)
    (folder / "a.html").write_text(page)
    assert server.report("a.html").body == page


TEMPLATES = ("page.html", "report.html", "rows.html", "row.html", "parts.html")


def test_the_tags_that_are_shown_are_those_of_our_templates() -> None:
    made_of = "\n".join(re.sub(r"(?s){[{%#].*?[%}#]}", "", html.asset(name)) for name in TEMPLATES)
    modules = [
        module
        for package in ("charts", "report", "rows")
        for module in (Path(html.__file__).parent / package).glob("*.py")
    ]
    drawn = re.findall(r'\belement\(\s*"(\w+)"', "\n".join(map(Path.read_text, modules)))
    assert {*re.findall(r"<([A-Za-z][^\s/>]*)", made_of), *drawn} == {
        *files.ELEMENTS,
        *(tag[1:].partition(" ")[0].rstrip(">") for tag in files.TAGS),
    }
    for tag in re.findall(r"<(?:script|meta)\b[^>]*>", made_of):
        assert tag in files.TAGS or tag.startswith('<meta http-equiv="Content-Security-Policy" ')


@pytest.mark.parametrize(
    "tag",
    [
        *('<link rel="preconnect" href="//x">', "<LINK\nrel=icon href=x>", "<a\vb>", "<P>", "<p"),
        *("<iframe/srcdoc=x>", "<svg:a>", "<object data=x>", "<base href=x>", "<noscript>"),
        *('<script src="//x">', "<script\n>", '<script type="speculationrules">', "<SCRIPT>"),
        *('<meta http-equiv="refresh" content="0;url=//x">', "<meta http-equiv=refresh content=0>"),
        """<meta http-equiv="Content-Security-Policy" content="img-src 'none'">""",
    ],
)
def test_tags_that_are_none_of_ours_are_text(server: PagesServer, folder: Path, tag: str) -> None:
    (folder / "a.html").write_text(f"<title>calm</title>{tag}", newline="")
    assert server.report("a.html").body == f"<title>calm</title>&lt;{tag[1:]}"


def _link(file: Path, secret: Path) -> None:
    file.symlink_to(secret)


def _pipe(file: Path, secret: Path) -> None:
    os.mkfifo(file)


def _huge(file: Path, secret: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(files.MAX_BYTES + 1)


def _other_encoding(file: Path, secret: Path) -> None:
    file.write_bytes("\ufeff<meta http-equiv=refresh>".encode("utf-16-le"))


@pytest.mark.parametrize("place", ["a.html", "rows/a.html"])
@pytest.mark.parametrize("way", [_link, _pipe, _huge, _other_encoding])
def test_what_is_no_plain_page_is_no_report(
    server: PagesServer, folder: Path, way: object, place: str
) -> None:
    secret = folder.parent / "secret.html"
    secret.write_text("secret")
    assert callable(way)
    way(folder / place, secret)
    assert server.report(place).status == 404
    (folder / place).unlink()
    (folder / place).write_text("<p>")
    assert server.report(place).status == 200


@pytest.mark.parametrize("name", ["reports", "reports/rows"])
def test_a_folder_of_reports_that_is_a_link_has_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine" / "rows").mkdir(parents=True)
    for file in ("secret.html", "rows/secret.html"):
        (tmp_path / "mine" / file).write_text("secret")
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to(tmp_path / ("mine/rows" if "/" in name else "mine"))
    with pages_server(tmp_path) as served:
        assert [served.report(path).status for path in ("secret.html", "rows/secret.html")] == [
            404,
            404,
        ]


PLANTED = """<!doctype html><title>calm</title>
<script>document.title = "ran"; fetch("other.html")</script>
<img src="other.html"><img src=x onerror="document.title = 'ran'">
<link rel="stylesheet" href="other.html"><iframe src="other.html"></iframe>
<a id="a" href="javascript:document.title='ran'">x</a>
<form id="f" action="other.html"><button id="b">x</button></form>
<meta http-equiv="refresh" content="1;url=other.html"><object data="other.html"></object>
"""


@pytest.mark.browser
@pytest.mark.timeout(300)
def test_a_planted_page_runs_nothing_loads_nothing_and_leads_nowhere(
    server: PagesServer, folder: Path, chromium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "planted.html").write_text(PLANTED)
    (folder / "other.html").write_text("<title>other</title>")
    (folder / "ours.html").write_text(_own_page("report"))
    read: list[str] = []
    reading = files.read

    def record_read(folder: Path, name: str) -> str:
        read.append(name)
        return reading(folder, name)

    monkeypatch.setattr(files, "read", record_read)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.context.add_cookies([{"name": "c", "value": "v", "url": server.origin}])
        page.goto(f"{server.reports}planted.html")
        page.locator("#a").click(no_wait_after=True)
        page.locator("#b").click(no_wait_after=True)
        page.wait_for_timeout(2500)
        assert page.title() == "calm"
        assert page.url == f"{server.reports}planted.html"
        assert read == ["planted.html"]
        # A page of ours runs its script, without an origin.
        page.goto(f"{server.reports}ours.html")
        assert page.evaluate("self.origin") == "null"
        # Without policy and escapes the planted page does all of that.
        monkeypatch.setattr(files, "page", lambda folder, name: files.read(folder, name))
        monkeypatch.setattr(files, "policy", lambda: "default-src * 'unsafe-inline'")
        page.goto(f"{server.reports}planted.html")
        page.wait_for_url("**/other.html")
        browser.close()
    assert read.count("other.html") > 3


@pytest.mark.browser
@pytest.mark.timeout(300)
def test_no_page_connects_to_another_server(
    server: PagesServer,
    folder: Path,
    chromium: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chromium runs without playwright, whose flags keep the browser from connecting early."""
    integrity = _digest(html.asset("report.js")).strip("'")
    attacks = (
        "<link rel=preconnect href={0}>",
        '<iframe srcdoc="&lt;link rel=preconnect href={0}>"></iframe>',
        '<iframe srcdoc="&lt;meta http-equiv=refresh content=0;url={0}>"></iframe>',
        "<div><template shadowrootmode=open><link rel=preconnect href={0}></template></div>",
        '<svg><foreignObject><iframe srcdoc="&lt;link rel=preconnect href={0}>"></iframe></svg>',
        f'<script src="{{0}}/x.js" integrity="{integrity}" crossorigin></script>',
        "<table background={0}><td background={0}></table><input type=image src={0}>",
        '<style>@import "{0}"; p {{ background: url({0}); cursor: url({0}), auto }}</style><p>x',
        '<svg><rect width="9" height="9" fill="url({0}/#a)" filter="url({0}/#a)"/></svg>',
    )

    def connections(attack: str) -> int:
        """Show a page, and count the connections to a server that the page names."""
        with socket.create_server(("127.0.0.1", 0)) as ear:
            origin = f"http://127.0.0.1:{ear.getsockname()[1]}"
            (folder / "a.html").write_text(f"<title>calm</title>{attack.format(origin)}<p>last")
            flags = ("--headless", "--dump-dom", f"--user-data-dir={tmp_path / 'profile'}")
            command = [chromium, *FLAGS[:3], *flags, "--timeout=3000", f"{server.reports}a.html"]
            shown = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
            assert b"calm" in shown
            ear.settimeout(0.5)
            count = 0
            with contextlib.suppress(TimeoutError):
                while True:
                    ear.accept()[0].close()
                    count += 1
            return count

    assert connections("".join(attacks)) == 0
    monkeypatch.setattr(files, "page", lambda folder, name: files.read(folder, name))
    for attack in (attacks[1], attacks[5]):
        assert connections(attack) > 0, attack
