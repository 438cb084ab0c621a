"""The product's surface: commands, environment variables, deployments and YAML fields.

tests/golden/surface.txt contains the output of tests/surface.py; its first line names the first commit. After
an intended change, run `pytest tests/test_surface.py --rewrite`, and list the changes in the commit message.
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
    """Return the lines for a workspace without diets."""
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


def test_the_surface_is_the_same_as_in_the_golden_file(
    found: list[str], request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--rewrite"):
        before = GOLDEN.read_text().splitlines() if GOLDEN.exists() else [f"commit: {commit()}"]
        GOLDEN.write_text("".join(f"{line}\n" for line in [before[0], *found]), newline="\n")
    head, *golden = GOLDEN.read_text().splitlines()
    assert head.startswith("commit: ")
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
