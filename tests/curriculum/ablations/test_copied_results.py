"""Results copied from a workspace hold what the ablation was judged by."""

from pathlib import Path

import pyarrow.csv
import pytest

from benchmarks.evidence import ARMS, CLAIMS, DOCUMENTS, claims_table, setting_words, write_results
from curriculum.ablations.ablate import Outcome
from curriculum.store import Artefact, Store
from tests.curriculum.ablations.set_means import set_means

pytestmark = pytest.mark.system


def test_documents_give_the_figures_of_each_arm(
    first: tuple[Outcome, Artefact], home: Path, tmp_path: Path
) -> None:
    outcome, made = first
    write_results(Store(home / "ws"), made, tmp_path)
    means = set_means(tmp_path / DOCUMENTS)
    figures = {
        (arm.arm, arm.seed, name, view): arm.val_bpb(name, view)
        for arm in outcome.arms
        for name, view in arm.sets
    }
    assert means == pytest.approx(figures, rel=1e-9)
    arms = pyarrow.csv.read_csv(tmp_path / ARMS).to_pylist()
    written = {(row["arm"], row["seed"], row["set"], row["view"]): row["val_bpb"] for row in arms}
    assert written == figures


def test_a_page_shows_each_claim_and_the_scale(
    first: tuple[Outcome, Artefact], home: Path, tmp_path: Path
) -> None:
    outcome, made = first
    write_results(Store(home / "ws"), made, tmp_path)
    claims = pyarrow.csv.read_csv(tmp_path / CLAIMS)["claim"].to_pylist()
    assert claims == [judged.claim.claim for judged in outcome.judged]
    rows = claims_table(tmp_path).splitlines()[2:]
    assert [row.split(" (`")[0] for row in rows] == [f"| {claim}" for claim in claims]
    positions = f"{outcome.arms[0].positions:,}"
    assert positions in setting_words(tmp_path)
