"""`curriculum serve` as a person uses it: one command, a form in a browser, Ctrl-C."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Request, expect, sync_playwright

from flows import serve, settings

SHOTS = Path(__file__).parents[2] / "test-output"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 600_000


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((settings.HOST, 0))
        return int(probe.getsockname()[1])


def _command(home: Path, port: int) -> list[str]:
    return [
        *(sys.executable, "-m", "flows.cli", "serve"),
        *("--home", str(home), "--port", str(port)),
    ]


def _wait_for(log: Path, words: str) -> None:
    deadline = time.monotonic() + 180
    while words not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A workspace, and the address at which it is served."""
    home = tmp_path_factory.mktemp("home")
    log, port = home / "serve.txt", _free_port()
    with log.open("w") as file:
        process = subprocess.Popen(_command(home, port), stdout=file, stderr=subprocess.STDOUT)
    try:
        _wait_for(log, "Ctrl-C ends all of it")
        yield home, f"http://{settings.HOST}:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, log.read_text()
    with socket.socket() as probe:
        assert probe.connect_ex((settings.HOST, port)) != 0, "the server outlived serve"
    assert not settings.address_file(home).exists()


@pytest.mark.browser
@pytest.mark.timeout(1200)
def test_a_run_is_started_from_the_form_and_completes(
    served: tuple[Path, str], chromium: str
) -> None:
    home, address = served
    SHOTS.mkdir(exist_ok=True)
    outside: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith((address, f"blob:{address}", "data:")):
            outside.append(request.url)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(60_000)
        page.on("requestfinished", note)
        _fill_form(page, address)
        page.screenshot(path=SHOTS / "form.png", full_page=True)
        page.get_by_role("button", name="Submit").click()
        _follow_run(page)
        browser.close()
    assert outside == [], "the pages talked to somebody else"
    assert list(home.glob("runs/specialist=templates/branch=demo/phase=syntax/*/*/report.json"))


def _fill_form(page: Page, address: str) -> None:
    page.goto(f"{address}/v2/deployments")
    page.get_by_role("link", name="run", exact=True).first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("menuitem", name=re.compile("Custom run")).click()
    page.get_by_role("button", name="Select Specialist").click()
    page.get_by_role("option", name="testing").wait_for()
    page.screenshot(path=SHOTS / "specialists.png")
    page.get_by_role("option", name="templates.demo", exact=True).click()
    page.get_by_role("button", name="Select Phase").click()
    page.get_by_role("option", name="syntax", exact=True).click()
    page.get_by_label("Token Budget (Optional)").fill("10K")


def _follow_run(page: Page) -> None:
    page.get_by_role("link", name="View run").first.click()
    ended = page.get_by_text(re.compile("^(Completed|Failed|Crashed|Cancelled)$")).first
    ended.wait_for(timeout=PATIENCE_MS)
    page.screenshot(path=SHOTS / "run.png", full_page=True)
    assert ended.inner_text() == "Completed"
    page.get_by_role("tab", name="Artifacts").click()
    expect(page.get_by_text("val-bpb-syntax").first).to_be_visible()
    page.screenshot(path=SHOTS / "artifacts.png", full_page=True)
    page.get_by_text("mixture-syntax").first.click()
    page.get_by_role("link", name=re.compile("^[0-9a-f]{8}$")).click()
    expect(page.get_by_role("columnheader", name="realised")).to_be_visible()
    page.screenshot(path=SHOTS / "mixture.png", full_page=True)


def test_a_second_serve_of_one_workspace_names_the_first(served: tuple[Path, str]) -> None:
    home, address = served
    answer = subprocess.run(
        _command(home, _free_port()), capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 2
    assert "is served already" in answer.stderr
    assert address in answer.stderr
    assert "Traceback" not in answer.stderr
    assert settings.served_at(home) == address
    assert settings.known_api(home) == f"{address}/api", "a run would not be seen in its pages"


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind((settings.HOST, 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(serve.ServeError, match=f"{port}.*in use"):
            serve.serve(tmp_path, port, lambda _: None)
    assert not settings.address_file(tmp_path).exists()


def test_nobody_serves_a_fresh_workspace(tmp_path: Path) -> None:
    assert settings.served_at(tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_a_teams_server_goes_before_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    assert settings.known_api(tmp_path) == "http://127.0.0.1:9/api"
    assert settings.attached(tmp_path, "there")["PREFECT_API_URL"] == "there"
