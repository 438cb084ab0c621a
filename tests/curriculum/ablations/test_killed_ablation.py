"""An ablation that is killed again and again ends in the tables of one that was left alone."""

import random
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from schemas.ablation import ARMS_NAME, CLAIMS_NAME
from tests.curriculum.ablations.conftest import SHORT, UNMASKED, written_ablation

pytestmark = [pytest.mark.slow, pytest.mark.system]
KILLS = 10


def ablate(file: Path, home: Path, *, seconds: float | None = None) -> int | None:
    """Run the command to its end and return its exit code; None where it was killed after some seconds."""
    with subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "ablate", str(file), "--home", str(home)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return None


def tables(home: Path) -> list[dict[str, object]]:
    (folder,) = home.glob("ablations/ablation-masks/*")
    found = [pq.read_table(folder / name).to_pylist() for name in (CLAIMS_NAME, ARMS_NAME)]
    return [line for lines in found for line in lines]


@pytest.mark.timeout(3600)
def test_an_ablation_that_is_killed_ten_times_ends_in_equal_tables(tmp_path: Path) -> None:
    file = written_ablation(tmp_path, "masks", diet=SHORT, unmasked=UNMASKED)
    assert ablate(file, tmp_path / "whole") == 3, "two seeds give no verdicts"
    chance, killed = random.Random(5), 0
    while killed < KILLS:
        ended = ablate(file, tmp_path / "killed", seconds=chance.uniform(5, 25))
        if ended is not None:
            break
        killed += 1
    assert killed > KILLS // 2
    assert ablate(file, tmp_path / "killed") == 3
    assert tables(tmp_path / "killed") == tables(tmp_path / "whole")
