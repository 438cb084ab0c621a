"""What all tests share: a quiet, repeatable setting, and one demo that many of them look at."""

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from curriculum.corpus.sample import unpack_samples

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

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def pytest_addoption(parser: pytest.Parser) -> None:
    """One flag for whatever is generated and then reviewed."""
    parser.addoption("--rewrite", action="store_true", help="write generated parts anew")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Skip, with the reason, what this machine can't run; share the rest out among processes."""
    # Before xdist, which reads the groups, has its turn.
    _share_out(items)
    _skip_what_lacks(items)
    yield


def _skip_what_lacks(items: list[pytest.Item]) -> None:
    for item in items:
        if "demo" in getattr(item, "fixturenames", ()):
            # Whichever test comes first waits for the demo: minutes where the cores are shared.
            item.add_marker(pytest.mark.timeout(1200))
        if item.get_closest_marker("browser") and not CHROMIUM:
            item.add_marker(pytest.mark.skip(reason="needs chromium on the PATH"))
        if item.get_closest_marker("gpu") and not Path("/dev/nvidia0").exists():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def _share_out(items: list[pytest.Item]) -> None:
    """A file stays with one process, and all files that look at the demo with one, which begins first."""
    waits = {each.path for each in items if "demo" in getattr(each, "fixturenames", ())}
    items.sort(key=lambda each: each.path not in waits)
    for each in items:
        group = "demo" if each.path in waits else str(each.path)
        each.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser that browser tests drive."""
    assert CHROMIUM
    return CHROMIUM


@pytest.fixture(scope="session")
def curriculum() -> str:
    """The command as it is installed beside this Python."""
    return str(Path(sys.executable).parent / "curriculum")


@pytest.fixture(scope="session")
def demo(curriculum: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A workspace in which the demo ran, and what it printed."""
    home = tmp_path_factory.mktemp("demo") / "workspace"
    done = subprocess.run(
        [curriculum, "demo", "--home", str(home)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return home, done.stdout


@pytest.fixture(scope="session")
def demo_home(demo: tuple[Path, str]) -> Path:
    """The workspace of the demo."""
    return demo[0]


@pytest.fixture(scope="session")
def sample_clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree of one of the sample repositories."""
    return unpack_samples(tmp_path_factory.mktemp("samples"))[0]
