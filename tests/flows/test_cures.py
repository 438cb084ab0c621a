"""The cure that an error prints is done as it says, and the command that refused works again."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from flows.cli.app import CLOSED
from flows.settings.trust import RECORD
from tests.curriculum.pipeline.tiny_diet import edit, write_tiny_diet
from tests.flows.cli_runner import curriculum

pytestmark = pytest.mark.system
ONE = ("--workers", "1")
TRAIN = ("train", "tiny", "--phase", "syntax", *ONE)
BUILD = ("build", "tiny", "--phase", "syntax", *ONE)
CONTINUED = {
    "train the phase again": TRAIN,
    "build again": BUILD,
    "approve again": ("approve", "tiny", "syntax"),
    "trust your workspaces again": ("trust",),
    "start its run again": TRAIN,
}
"""Commands that a cure names in words."""
WORKED = (0, CLOSED)
"""Codes of commands that did what they were told; a run may wait for an approval then."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A file that is cut in half, and a command that refuses it then."""

    pattern: str
    refused: tuple[str, ...] = ("status",)


DAMAGES = (
    *(
        Damage(pattern=pattern)
        for pattern in (
            "runs/**/attempt=1/job.json",
            "runs/**/attempt=1/manifest.json",
            "runs/**/attempt=1/leakcheck.json",
            "runs/**/state.json",
            "mixtures/**/manifest.json",
            "rows/**/manifest.json",
            "rows/**/held_out.json",
            "tokens/**/manifest.json",
            "selections/**/manifest.json",
            "documents/**/manifest.json",
            "tokenizers/*/tokenizer.json",
            "approvals/*.json",
        )
    ),
    Damage(pattern="workspace.json", refused=("report", "tiny")),
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a trained phase that was proven and approved; about 20 s of a core."""
    home = tmp_path_factory.mktemp("cures") / "home"
    write_tiny_diet(home)
    asked = "    max_repetition: 100\n  - phase: file_graph"
    require = "    require: [approval, leakcheck]\n"
    edit(home, "diets/tiny.yaml", asked, asked.replace("  - phase", f"{require}  - phase"))
    for words in (TRAIN, CONTINUED["approve again"]):
        done = curriculum(*words, home=home)
        assert done.returncode in WORKED, done.stdout + done.stderr
    return home


@pytest.fixture
def home(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, to damage."""
    monkeypatch.setenv("CURRICULUM_STATE", str(tmp_path / "state"))
    return Path(shutil.copytree(trained, tmp_path / "home"))


def cut(file: Path) -> None:
    """Lose the second half of a file."""
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def done_as_told(refused: CompletedProcess[str], home: Path, aside: Path) -> None:
    """Do by hand what an error tells, and call the commands that it names."""
    said = refused.stderr
    assert refused.returncode == 2, said
    if lost := re.search(r"Rename it to (\S+\.lost)", said):
        Path(lost[1].removesuffix(".lost")).rename(lost[1])
    elif moved := re.search(r"[Mm]ove (\S+) out of the workspace", said):
        shutil.move(moved[1], aside)
    else:
        assert re.search(r"[Dd]elete (it|the file)", said), said
        Path(re.findall(r"(/\S+\.json): ", said)[-1]).unlink()
    for words, command in CONTINUED.items():
        if words in said:
            done = curriculum(*command, home=home)
            assert done.returncode in WORKED, done.stderr


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.pattern)
def test_a_command_works_again_when_its_cure_was_done(
    home: Path, tmp_path: Path, damage: Damage
) -> None:
    cut(next(home.glob(damage.pattern)))
    done_as_told(curriculum(*damage.refused, home=home), home, tmp_path / "aside")
    again = curriculum(*damage.refused, home=home)
    assert again.returncode in WORKED, again.stderr
    for words in (("status",), ("check", str(home / "runs")), ("report", "tiny")):
        done = curriculum(*words, home=home)
        assert done.returncode == 0, (words, done.stderr)


def test_a_damaged_lease_is_deleted_and_nothing_else(home: Path, tmp_path: Path) -> None:
    lease = home / "leases" / "left.json"
    lease.parent.mkdir(exist_ok=True)
    lease.write_text('{"host": "els')
    for words in (("gc",), BUILD):
        refused = curriculum(*words, home=home)
        if refused.returncode:
            break
    done_as_told(refused, home, tmp_path / "aside")
    assert not lease.exists()
    for words in (("gc",), BUILD, ("status",)):
        assert curriculum(*words, home=home).returncode == 0


def test_a_damaged_proof_is_deleted_and_proven_again(home: Path, tmp_path: Path) -> None:
    """A phase that is trained again reads the proofs of its model."""
    shutil.rmtree(next((home / "runs").rglob("attempt=1")))
    proofs = list(home.glob("leakchecks/*/*.json"))
    for proof in proofs:
        cut(proof)
    for _ in proofs:
        done_as_told(curriculum(*TRAIN, home=home), home, tmp_path / "aside")
    assert curriculum(*TRAIN, home=home).returncode in WORKED
    assert all(json.loads(proof.read_text()) for proof in proofs)


def test_a_damaged_record_of_trust_is_deleted_and_written_anew(home: Path, tmp_path: Path) -> None:
    assert curriculum("trust", str(home), home=home).returncode == 0
    cut(tmp_path / "state" / RECORD)
    done_as_told(curriculum("trust", "--list", home=home), home, tmp_path / "aside")
    listed = curriculum("trust", "--list", home=home)
    assert listed.returncode == 0
    assert str(home) in listed.stdout


def test_a_damaged_snapshot_of_a_config_is_deleted_and_another_one_taken(
    home: Path, tmp_path: Path
) -> None:
    """It is read where no run has begun."""
    shutil.rmtree(home / "runs")
    (snapshot,) = (home / "configs").glob("*.json")
    cut(snapshot)
    done_as_told(curriculum("report", "tiny", home=home), home, tmp_path / "aside")
    assert curriculum("report", "tiny", home=home).returncode == 0


def test_a_run_that_was_moved_away_is_named_and_trained_again(home: Path, tmp_path: Path) -> None:
    (run,) = (file.parent for file in (home / "runs").rglob("job.json"))
    shutil.move(run, tmp_path / "aside")
    for words in (("status",), ("mix", "tiny", *ONE), TRAIN, ("report", "tiny")):
        done = curriculum(*words, home=home)
        assert done.returncode in WORKED, (words, done.stderr)
