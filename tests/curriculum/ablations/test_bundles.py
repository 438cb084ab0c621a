"""Bundles: trained elsewhere, in pieces, and judged as if they had been trained here."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from curriculum.ablations.ablate import ablate
from curriculum.ablations.arms import load_ablation, write_arms
from curriculum.ablations.bundles import bundled_runs, write_bundle
from curriculum.ablations.evidence import Trained
from curriculum.ablations.planned_arms import plan_arms, plan_of_arm, train_arm
from curriculum.pipeline.context import Context
from curriculum.pipeline.execute import run_in_process
from curriculum.store import Store
from curriculum.train.bundle import BUNDLE, read_runs
from schemas.errors import JobError, StoreError
from tests.curriculum.ablations.conftest import SHORT, UNMASKED, written_ablation

pytestmark = pytest.mark.system


def ablation(folder: Path, name: str = "masks") -> Path:
    sides = {"arm": "base", "against": "unmasked"}
    claims = [
        {"claim": "masks help", **sides},
        {"claim": "masks help middles", "view": "fim", **sides},
    ]
    return written_ablation(folder, name, claims, diet=SHORT, unmasked=UNMASKED)


def trainer(folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "curriculum.train.bundle", str(folder), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture(scope="module")
def bundled(place: Path) -> Path:
    """A bundle that isn't trained yet, moved away from where it was written."""
    file, begun = ablation(place), list[str]()
    written = write_bundle(
        load_ablation(file),
        file,
        place / "ws",
        place / "written",
        Context(),
        begun=lambda planned: begun.append(planned.arm.name),
    )
    assert len(begun) == len(written.arms) == 8
    assert not [*Store(place / "ws").artefacts("runs")]
    (place / "written").rename(place / "moved")
    return place / "moved"


@pytest.fixture(scope="module")
def trained(bundled: Path, place: Path) -> Path:
    with pytest.raises(JobError) as refused:
        bundled_runs(load_ablation(place / "masks.yaml"), bundled)
    assert "8 of 8" in str(refused.value.value)
    first = trainer(bundled)
    runs = bundled / "runs"
    while not [*runs.rglob("checkpoints/step=*")]:
        assert first.poll() is None, first.communicate()[0]
        time.sleep(0.1)
    os.kill(first.pid, signal.SIGTERM)
    said, _ = first.communicate(timeout=60)
    assert first.returncode == 75, said
    assert len(read_runs(bundled).runs) < 8
    second = trainer(bundled)
    said, _ = second.communicate(timeout=600)
    assert second.returncode == 0, said
    assert len(read_runs(bundled).runs) == 8
    return bundled


def test_an_arm_of_a_bundle_measures_what_it_would_have_measured_here(
    trained: Path, place: Path
) -> None:
    file = place / "masks.yaml"
    spec = load_ablation(file)
    runs = bundled_runs(spec, trained)
    outcome, made = ablate(spec, file, place / "ws", Context(), train=runs)
    assert not [*Store(place / "ws").artefacts("runs")], "nothing was trained here"
    assert made.path.is_relative_to(place / "ws")
    assert {(arm.arm, arm.seed) for arm in outcome.arms} == {
        (arm, seed) for arm in ("base", "null", "control", "unmasked") for seed in (1, 2)
    }
    arms = write_arms(spec, file, place / "ws")
    planned = plan_arms(arms, plan_of_arm, Context())[0]
    here_trained = train_arm(planned, run_in_process(Context()), Context())
    own, there = Trained.from_runs("base", 1, here_trained, {}, {}), outcome.arms[0]
    assert (there.arm, there.seed) == ("base", 1)
    assert [run.key for run in there.runs] == [run.key for run in own.runs]
    assert there.val_bpb("anchor") == own.val_bpb("anchor")
    assert there.sets == (("anchor", "file"), ("anchor", "fim"))


def test_a_bundle_holds_what_arms_share_once(trained: Path) -> None:
    keys = [artefact.key for artefact in Store(trained).artefacts() if artefact.path]
    assert len(keys) == len(set(keys))
    assert {artefact.manifest.stage for artefact in Store(trained).artefacts()} == {
        "mixtures", "rows", "runs", "tokenizers"
    }  # fmt: skip


def test_time_that_is_up_stops_what_is_trained(bundled: Path, tmp_path: Path) -> None:
    shutil.copytree(bundled, tmp_path / "bundle", ignore=shutil.ignore_patterns("runs*"))
    ended = trainer(tmp_path / "bundle", "--seconds", "11")
    said, _ = ended.communicate(timeout=120)
    assert ended.returncode == 75, said
    assert not read_runs(tmp_path / "bundle").runs


def test_the_bundle_of_another_ablation_is_refused(trained: Path, place: Path) -> None:
    other = load_ablation(ablation(place, "other"))
    with pytest.raises(JobError) as refused:
        bundled_runs(other, trained)
    assert refused.value.value == "ablation masks"


def test_a_changed_bundle_is_refused(trained: Path, tmp_path: Path) -> None:
    text = (trained / BUNDLE).read_text()
    (tmp_path / BUNDLE).write_text(text.replace('"seed": 1', '"seed": 7', 1))
    ended = trainer(tmp_path)
    said, _ = ended.communicate(timeout=60)
    assert ended.returncode == 1
    assert "JobError" in said
    assert "Traceback" not in said


def test_a_folder_that_holds_something_is_no_place_for_a_bundle(place: Path) -> None:
    file = ablation(place)
    with pytest.raises(StoreError) as refused:
        write_bundle(
            load_ablation(file), file, place / "ws", place, Context(), begun=lambda _: None
        )
    assert refused.value.name == "--bundle"
