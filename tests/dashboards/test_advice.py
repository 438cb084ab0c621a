"""The overview advises what can be done: on the sample, beside flow runs, behind a run that goes on."""

import json
import re
import shlex
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from curriculum.mixing.diet_files import load_diet
from dashboards import overview_panels, workspace
from dashboards.apps import mixtures, overview, runs
from dashboards.questions import WorkspaceView
from flows import cli, settings
from tests.dashboards.conftest import said
from tests.factories import training
from tests.flows.tiny_workspace import TinyWorkspace, job, run

CALM = "Nothing needs attention."
TRAINABLE = 2_000_000
"""Tokens that the sample corpus can serve."""


def advised(page: str) -> list[list[str]]:
    """The words of each command that a page tells one to type."""
    return [shlex.split(each)[1:] for each in re.findall(r"<code>(curriculum [^<]*)</code>", page)]


def test_what_empty_pages_advise_is_a_diet_that_the_sample_can_serve(shown: Path) -> None:
    words = [each for app in (overview.app, mixtures.app, runs.app) for each in advised(said(app))]
    diets = {each[1] for each in words if each[0] in ("run", "mix", "train")}
    assert diets
    for name in diets:
        diet = load_diet(name)
        assert diet.corpus == "sample"
        assert diet.token_budget <= TRAINABLE, name


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_empty_pages_advise_passes_the_check_of_its_diet(shown: Path) -> None:
    words = advised(said(overview.app))
    for name in {each[1] for each in words if each[0] == "run"}:
        done = CliRunner().invoke(cli.app, ["diet", "check", name, "--home", str(shown)])
        assert done.exit_code == 0, done.output


def listed(home: Path) -> str:
    """Return the panel's text without its query."""
    return overview_panels.attention(WorkspaceView(home)).partition("<details")[0]


# Beside a run that goes on


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Two phases are mixed; the first is in training, by this process."""
    home = tmp_path / "workspace"
    larder = TinyWorkspace(home)
    folder = run(home, job(larder.syntax, home, run_key="1"), [], closed=False)
    shutil.rmtree(folder / "metrics")
    with training(folder):
        yield home


def test_a_phase_that_the_running_run_takes_next_needs_nobody(home: Path) -> None:
    panel = listed(home)
    assert "mixed, and not trained yet" not in panel
    assert CALM in panel


def test_a_phase_that_no_run_will_take_is_listed(tmp_path: Path) -> None:
    TinyWorkspace(tmp_path / "workspace")
    panel = listed(tmp_path / "workspace")
    assert "mixed, and not trained yet" in panel


# Beside flow runs of a server


class Api:
    """A stand-in for the server of `curriculum serve`: it answers with flow runs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.found: list[dict[str, Any]] = []

    def add(self, name: str, kind: str, phase: str = "all", **changes: str) -> None:
        """A flow run of the specialist fmt, later than those before."""
        when = f"2026-01-01T00:00:{len(self.found):02}+00:00"
        self.found.append(
            {
                "id": f"00000000-0000-0000-0000-{len(self.found):012}",
                "name": name,
                "state_type": kind,
                "state_name": kind.capitalize(),
                "state": {"type": kind, "name": kind.capitalize(), "message": f"words of {name}"},
                "parameters": {"specialist": "fmt", "phase": phase, "changes": changes},
                "expected_start_time": when,
                "start_time": when,
                "created": when,
            }
        )


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A workspace with two mixed phases that is served."""
    home = tmp_path / "workspace"
    TinyWorkspace(home)
    told = Api(home)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            text = json.dumps(told.found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer((settings.HOST, 0), Handler) as server, settings.serve_lock(home):
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        address = f"http://{settings.HOST}:{server.server_port}"
        settings.ServedAddresses(address=address, secret="", pages="", login="").write(home)
        workspace.show(home, lambda: settings.server_of(home))
        yield told
        server.shutdown()
        thread.join()


def test_a_flow_run_that_failed_needs_a_hand(api: Api) -> None:
    api.add("build fmt all", "FAILED")
    panel = listed(api.home)
    assert CALM not in panel
    assert "build fmt all" in panel
    assert "words of build fmt all" in panel


def test_a_flow_run_that_was_done_again_needs_nobody(api: Api) -> None:
    api.add("build fmt all", "CRASHED")
    api.add("build fmt all", "COMPLETED")
    api.add("run fmt all", "RUNNING")
    panel = listed(api.home)
    assert "words of" not in panel
    assert CALM in panel
    assert "run fmt all" in panel, "what goes on is named"


def test_a_phase_that_an_active_flow_run_takes_next_needs_nobody(api: Api) -> None:
    api.add("run fmt all", "PENDING")
    assert "mixed, and not trained yet" not in listed(api.home)


def test_an_active_flow_run_of_a_branch_takes_nothing_of_the_others(api: Api) -> None:
    api.add("run fmt all, branch=ux", "RUNNING", branch="ux")
    panel = listed(api.home)
    assert "mixed, and not trained yet" in panel
    assert "run fmt all, branch=ux" in panel
