"""The product's surface: commands, environment variables, deployments and YAML fields.

tests/golden/surface.txt holds what tests/surface.py prints; the first line names the commit. After a change
that is meant: `pytest tests/test_surface.py --rewrite`; the commit message lists what moved.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.identity import commit

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden" / "surface.txt"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines, with a workspace that has no diets of its own."""
    given = {"CURRICULUM_HOME": str(tmp_path_factory.mktemp("empty"))}
    done = subprocess.run(
        [sys.executable, "-P", str(TESTS / "surface.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **given},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_surface_is_that_of_the_first_house(
    found: list[str], request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--rewrite"):
        stands = (
            GOLDEN.read_text().splitlines() if GOLDEN.exists() else [f"first house: {commit()}"]
        )
        GOLDEN.write_text("".join(f"{line}\n" for line in [stands[0], *found]), newline="\n")
    head, *golden = GOLDEN.read_text().splitlines()
    assert head.startswith("first house: ")
    assert found == golden


@pytest.mark.parametrize(
    "line",
    [
        "command curriculum diet check",
        "argument curriculum run specialist: str required",
        "environment CURRICULUM_GPU_PRICE: flows",
        "environment RANK: curriculum",
        "parameter run specialist!: ",
        "parameter train changes.token_budget: string",
        "yaml phases *.row_length!: ",
        "yaml diet phases[].servings[].share!: ",
    ],
)
def test_each_kind_of_line_is_found(found: list[str], line: str) -> None:
    assert [each for each in found if each.startswith(line)]
