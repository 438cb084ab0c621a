"""Fixtures of all tests: quiet, repeatable settings and one demo workspace for many tests."""

import asyncio
import atexit
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

from curriculum.corpus.load import unpack_samples

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")

os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"
# Fixtures lay workspaces down file by file; tests about trust say otherwise.
os.environ["CURRICULUM_TRUST"] = "/"
# Hundreds of processes import the same modules: they are compiled once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if "PYTEST_XDIST_WORKER" not in os.environ:
    # No test writes into the home of whoever runs it; all processes of a run share one folder.
    os.environ["CURRICULUM_STATE"] = tempfile.mkdtemp(prefix="curriculum-state-")
    atexit.register(shutil.rmtree, os.environ["CURRICULUM_STATE"], ignore_errors=True)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell that starts the suite in the background ignores it, and so would every command under test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Threads that wait by spinning slow all work on shared cores; OpenMP reads this when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
if "PYTEST_XDIST_WORKER" in os.environ:
    # It searches all loaded modules for each operator that it registers: fast while there are few.
    importlib.import_module("torch.nn.attention.varlen")

TESTS = Path(__file__).parent
TOGETHER = ("tests/dashboards/test_",)
"""Files that share a server and are taken by one process, by how their paths begin."""
APART = ("tests/test_blocks.py",)
"""Files whose tests share nothing but the demo, and would be one process's work to the end."""
LONG = ("stages", "train")
"""Folders of tests/curriculum whose files take up to a minute: none of them is begun last."""
PACKAGE = TESTS.parent / "curriculum"
WHOLE = {"demo", "prefect_server", "chromium", "address", "cluster", "snapshots"}
"""Fixtures that train all phases, index all samples, or start servers and browsers: of system tests."""
DEMO_COMMITS = {"lattice": 10, "arena": 26, "ringlog": 10}
"""Newest commits that the tests' demo reads: those of arena rename a file."""
DEMO_BUDGET = "token_budget: 112K\ntokens_per_step: 2048"
DEMO_MIN_TOKENS = "min_tokens: 20K"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
BROWSER_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
]
PATIENCE_MS = 120_000
"""For a browser: by itself it waits for five seconds, or thirty."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag for whatever is generated and then reviewed."""
    parser.addoption("--rewrite", action="store_true", help="write generated parts anew")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark system tests; skip, with the reason, what this machine can't run; order files for processes."""
    if hasattr(config, "workerinput"):
        _order(items)
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if WHOLE & fixtures:
            item.add_marker(pytest.mark.system)
        if {"demo", "prefect_server"} & fixtures:
            # Whichever test comes first waits for the demo, or a server: minutes where cores are shared.
            item.add_marker(pytest.mark.timeout(1200))
        if item.get_closest_marker("browser") and not CHROMIUM:
            item.add_marker(pytest.mark.skip(reason="needs chromium on the PATH"))
        if item.get_closest_marker("gpu") and not Path("/dev/nvidia0").exists():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Processes take whole files, for the sake of what a file's tests share, as the items are ordered."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file in APART:
                return nodeid
            return next((group for group in TOGETHER if file.startswith(group)), file)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def _order(items: list[pytest.Item]) -> None:
    """One file that needs the demo makes it; meanwhile servers; then who looks at it; what is quick last."""
    waits = [each.path for each in items if "demo" in getattr(each, "fixturenames", ())]

    def turn(item: pytest.Item) -> int:
        if item.path in waits:
            return 0 if item.path == waits[0] else 2
        part, *below = item.path.relative_to(TESTS).parts
        if part != "curriculum":
            return 1
        return 3 if below[0] in LONG else 4

    items.sort(key=turn)


@pytest.fixture(scope="module", autouse=True)
def _no_event_loop_outlives_a_file() -> Iterator[None]:
    """A browser that stays open for the session would make the next file's flows and browsers fail."""
    yield
    with suppress(RuntimeError):
        pytest.fail(f"still running: {asyncio.get_running_loop()}; close what opened it")


@pytest.fixture(scope="module", autouse=True)
def _no_server_outlives_a_file() -> Iterator[None]:
    """A variable that names a server which has ended would make the next file's commands join it."""
    before = _prefect_variables()
    yield
    left = {*_prefect_variables().items()} - {*before.items()}
    for name in _prefect_variables():
        del os.environ[name]
    os.environ.update(before)
    if left:
        pytest.fail(f"left in the environment: {sorted(name for name, _ in left)}; use cli_runner")


def _prefect_variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PREFECT_")}


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser that browser tests drive."""
    assert CHROMIUM
    return CHROMIUM


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator["Browser"]:
    """A browser for the tests of one file; an event loop runs in this process until it is closed."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, headless=True, args=BROWSER_FLAGS, timeout=PATIENCE_MS
        )
        yield browser
        browser.close()


@pytest.fixture
def browser_page(browser: "Browser") -> Iterator["Page"]:
    """A page in a context of its own that fails the test on any error and on any request but for a file."""
    wrong: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        opened = context.new_page()
        opened.set_default_timeout(PATIENCE_MS)
        opened.on("console", lambda message: wrong.append(message.text))
        opened.on("pageerror", lambda error: wrong.append(str(error)))
        opened.on("dialog", lambda dialog: wrong.append(dialog.message))
        opened.on(
            "request",
            lambda request: None if request.url.startswith("file:") else wrong.append(request.url),
        )
        yield opened
    assert wrong == []


@pytest.fixture(scope="session")
def shots() -> Path:
    """Return the folder of screenshots."""
    folder = TESTS.parent / "test-output"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def curriculum() -> str:
    """The command as it is installed beside this Python."""
    return str(Path(sys.executable).parent / "curriculum")


@pytest.fixture(scope="session")
def demo(curriculum: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A workspace in which the demo ran, and what it printed: made once for all processes, to look at.

    It holds a corpus and a diet of the demo's names with fewer commits and tokens, which take their place.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    home, said = shared / "demo" / "workspace", shared / "demo.txt"
    with FileLock(shared / "demo.lock"):
        if not said.exists():
            furnish_small_demo(home)
            for words in (["trust", str(home)], ["demo", "--home", str(home)]):
                command = [curriculum, *words]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            said.write_text(done.stdout + done.stderr * (done.returncode != 0))
    assert "Everything lies in" in said.read_text(), said.read_text()
    return home, said.read_text()


def furnish_small_demo(home: Path) -> None:
    """Write the demo's corpus and diet into a workspace, with the newest commits and fewer tokens alone."""
    corpus = (PACKAGE / "corpora" / "sample.yaml").read_text()
    corpus = corpus.replace(": sample/", f": {PACKAGE / 'corpora' / 'sample'}/")
    for repository, commits in DEMO_COMMITS.items():
        named = f"  - name: {repository}\n"
        assert named in corpus
        corpus = corpus.replace(named, f"{named}    max_commits: {commits}\n")
    diet = (PACKAGE / "diets" / "templates.demo.yaml").read_text()
    assert "token_budget: 400K" in diet
    diet = diet.replace("token_budget: 400K", DEMO_BUDGET)
    assert "min_tokens: 72K" in diet
    diet = diet.replace("min_tokens: 72K", DEMO_MIN_TOKENS)
    # The proof of a step takes longer than all steps here: that of the first phase is there to look at.
    first, proof, rest = diet.partition("    require: [leakcheck]\n")
    diet = first + proof + rest.replace(proof, "")
    for name, text in (("corpora/sample.yaml", corpus), ("diets/templates.demo.yaml", diet)):
        file = home / name
        file.parent.mkdir(parents=True)
        file.write_text(text)


@pytest.fixture(scope="session")
def demo_home(demo: tuple[Path, str]) -> Path:
    """The workspace of the demo: who wants to write copies it."""
    return demo[0]


@pytest.fixture(scope="session")
def sample_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree of one of the sample repositories."""
    return unpack_samples(tmp_path_factory.mktemp("samples"))[0]
