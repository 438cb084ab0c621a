"""Committed results of ablations agree with their documents, and a new training agrees with them."""

import os
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.csv
import pytest
import yaml

from benchmarks.evidence import ARMS, CLAIMS, DOCUMENTS, RESULTS, committed
from curriculum.ablations.verdicts import difference_of, holm
from schemas.ablation import CONTROL, NULL, OWN_ARMS
from tests.curriculum.ablations.conftest import run
from tests.curriculum.ablations.set_means import set_means

ABLATIONS = Path(__file__).parents[2] / "benchmarks" / "ablations"
FOLDERS = committed()
CLONES = "CURRICULUM_TEST_CLONES"
"""Variable with a folder of clones by name, for machines without a network."""


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_documents_give_the_committed_figures(folder: Path) -> None:
    arms = pyarrow.csv.read_csv(folder / ARMS).to_pylist()
    figures = {(row["arm"], row["seed"], row["set"], row["view"]): row["val_bpb"] for row in arms}
    assert set_means(folder / DOCUMENTS) == pytest.approx(figures, rel=1e-9)


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_arms_give_the_committed_differences(folder: Path) -> None:
    figures: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for row in pyarrow.csv.read_csv(folder / ARMS).to_pylist():
        figures[row["arm"], row["set"], row["view"]][row["seed"]] = row["val_bpb"]
    claims = pyarrow.csv.read_csv(folder / CLAIMS).to_pylist()
    found = []
    for claim in claims:
        arm, against = (
            figures[claim[name], claim["set"], claim["view"]] for name in ("arm", "against")
        )
        found.append(difference_of([arm[seed] - against[seed] for seed in arm], claim["delta"]))
    for claim, difference in zip(claims, found, strict=True):
        names = ("difference", "low", "high", "p")
        wanted = (difference.mean, difference.low, difference.high, difference.p)
        assert tuple(claim[name] for name in names) == pytest.approx(wanted, rel=1e-6)
    judged = [
        (claim["holm_p"], difference.p)
        for claim, difference in zip(claims, found, strict=True)
        if claim["arm"] not in OWN_ARMS[1:]
    ]
    assert [p for p, _ in judged] == pytest.approx(holm([p for _, p in judged]), rel=1e-6)


def with_clones(folder: Path) -> Path:
    """Copy the ablations; clones of this machine replace addresses if the variable names them."""
    shutil.copytree(ABLATIONS, folder)
    clones = os.environ.get(CLONES)
    if clones is not None:
        file = folder / "corpus.yaml"
        corpus = yaml.safe_load(file.read_text())
        for repository in corpus["repositories"]:
            repository["path"] = f"{clones}/{repository['name']}"
            del repository["url"], repository["download_megabytes"]
        file.write_text(yaml.safe_dump(corpus))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_new_training_overlaps_the_committed_intervals(tmp_path: Path) -> None:
    outcome, _, _ = run(with_clones(tmp_path / "ablations") / "small.yaml", tmp_path / "ws")
    assert outcome.is_sound
    committed: dict[tuple[str, ...], dict[str, Any]] = {
        (row["arm"], row["against"], row["set"], row["view"]): row
        for row in pyarrow.csv.read_csv(RESULTS / "small" / CLAIMS).to_pylist()
    }
    assert len(outcome.judged) == len(committed)
    for judged in outcome.judged:
        claim = judged.claim
        row = committed[claim.arm, claim.against, claim.set, claim.view]
        assert judged.found.low <= row["high"]
        assert row["low"] <= judged.found.high
    verdicts = {row["arm"]: row["verdict"] for row in committed.values()}
    assert verdicts[CONTROL] == outcome.control.verdict == "confirmed"
    assert verdicts[NULL] != "confirmed"
