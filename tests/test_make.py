"""Each target of the Makefile installs what it needs and no more, at locked versions."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = "/usr/bin/uv"
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make isn't installed")


def planned(target: str, uv: str = "") -> list[str]:
    """The commands of a target in a folder where nothing is installed."""
    made = subprocess.run(
        ["make", "--dry-run", target, f"UV={uv}", "VENV=nowhere"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return made.stdout.splitlines()


@pytest.mark.parametrize(
    ("target", "extras"),
    [
        ("demo", "train,clang"),
        ("serve", "train,clang,dashboards"),
        ("test", "train,clang,dashboards,dev"),
    ],
)
def test_a_target_installs_its_extras_within_the_lock(target: str, extras: str) -> None:
    (install,) = [line for line in planned(target) if " install " in line]
    assert "-m pip install" in install
    assert install.endswith(f'-c requirements.lock -e ".[{extras}]"')


def test_uv_is_used_where_it_is_found_and_takes_the_torch_of_the_machine() -> None:
    lines = planned("demo", UV)
    assert not any("pip install" in line and UV not in line for line in lines)
    assert any(
        line.startswith(f"{UV} pip install") and "--torch-backend=auto" in line for line in lines
    )
    assert f"{UV} venv --quiet --allow-existing --python python3 nowhere" in lines
