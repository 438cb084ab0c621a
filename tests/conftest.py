"""What all tests share: a quiet, repeatable setting."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what this machine can't run."""
    for item in items:
        if item.get_closest_marker("browser") and not CHROMIUM:
            item.add_marker(pytest.mark.skip(reason="needs chromium on the PATH"))
        if item.get_closest_marker("gpu") and not Path("/dev/nvidia0").exists():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser that browser tests drive."""
    assert CHROMIUM
    return CHROMIUM
