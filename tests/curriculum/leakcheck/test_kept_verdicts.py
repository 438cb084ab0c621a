import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import schemas
from curriculum.leakcheck import kept_verdicts
from curriculum.leakcheck.kept_verdicts import FOLDER, proven_once
from curriculum.leakcheck.packings import packings
from curriculum.leakcheck.proof import repacked_findings
from curriculum.leakcheck.proof_documents import proof_documents
from curriculum.leakcheck.repacked import RATE, ProofSetting
from curriculum.model.presets import model_spec
from schemas.errors import JobError
from schemas.leak import Finding

MODEL = model_spec("tiny", 97).model_copy(update={"blocks": "F", "width": 16, "mlp_width": 16})
SETTING = ProofSetting(
    model=MODEL,
    backend="documents",
    recompute=False,
    dtype=torch.float64,
    device=torch.device("cpu"),
)
OTHERS: dict[str, Any] = {
    "model": MODEL.model_copy(update={"vocab_size": 98}),
    "backend": "sdpa",
    "recompute": True,
    "dtype": torch.bfloat16,
    "device": torch.device("meta"),
    "rope_base": 10_000.0,
    "optimizer": RATE.model_copy(update={"z_loss": 0.5}),
    "seed": 1,
    "start": Path("elsewhere"),
}
"""Another value of each field of a setting."""


def found(*, passed: bool = True) -> tuple[Finding, ...]:
    return (Finding(subject="step F", dtype="float32", claim="nothing is seen", passed=passed),)


def proofs(workspace: Path, *settings: ProofSetting, passed: bool = True) -> int:
    """Return how many of the settings were proven instead of read from the cache."""
    made: list[ProofSetting] = []
    for setting in settings:

        def prove(each: ProofSetting = setting) -> tuple[Finding, ...]:
            made.append(each)
            return found(passed=passed)

        assert proven_once(workspace, "steps", setting, prove) == found(passed=passed)
    return len(made)


def proven() -> tuple[Finding, ...]:
    steps = proof_documents(MODEL, longest=128)
    return repacked_findings(SETTING, steps, packings(steps, 128))


def test_a_kept_verdict_equals_proving_again(tmp_path: Path) -> None:
    first = proven_once(tmp_path, "steps", SETTING, proven)
    assert len(first) > 2
    assert all(finding.passed for finding in first)
    kept = proven_once(tmp_path, "steps", SETTING, found)
    again = proven()
    assert kept == first == again
    assert proven_once(tmp_path, "steps", SETTING, found, anew=True) == found()


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(ProofSetting)])
def test_another_setting_is_proven_by_itself(tmp_path: Path, name: str) -> None:
    other = dataclasses.replace(SETTING, **{name: OTHERS[name]})
    assert proofs(tmp_path, SETTING, other, SETTING, other) == 2


def test_other_claims_are_proven_by_themselves(tmp_path: Path) -> None:
    assert proofs(tmp_path, SETTING) == 1
    (other,) = proven_once(tmp_path, "decoder", SETTING, lambda: found(passed=False))
    assert not other.passed


def test_a_leak_is_never_remembered(tmp_path: Path) -> None:
    assert proofs(tmp_path, SETTING, SETTING, passed=False) == 2
    assert not (tmp_path / FOLDER).exists()


def test_other_code_proves_anew_and_removes_what_the_old_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proofs(tmp_path, SETTING, SETTING) == 1
    (old,) = (tmp_path / FOLDER).iterdir()
    assert old.name == kept_verdicts.code_digest()
    monkeypatch.setattr(kept_verdicts, "code_digest", lambda: "another")
    assert proofs(tmp_path, SETTING, SETTING) == 1
    assert [each.name for each in (tmp_path / FOLDER).iterdir()] == ["another"]


def test_what_is_no_verdict_stays_beside_verdicts(tmp_path: Path) -> None:
    for name in ("photos", "0123456789ab"):
        (tmp_path / "leakchecks" / name).mkdir(parents=True)
    proofs(tmp_path, SETTING)
    assert (tmp_path / "leakchecks" / "photos").is_dir()
    assert not (tmp_path / "leakchecks" / "0123456789ab").exists()


def test_the_code_is_all_of_our_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "below" / "module.py"
    file.parent.mkdir()
    digests = []
    monkeypatch.setattr(schemas, "__path__", [str(tmp_path)])
    for text in ("a = 1", "a = 2"):
        file.write_text(text)
        digests.append(kept_verdicts.code_digest.__wrapped__())
    file.rename(file.with_name("other.py"))
    digests.append(kept_verdicts.code_digest.__wrapped__())
    assert len(set(digests)) == 3


def test_a_changed_verdict_is_refused(tmp_path: Path) -> None:
    assert proofs(tmp_path, SETTING) == 1
    (file,) = (tmp_path / FOLDER).rglob("*.json")
    file.write_text(file.read_text().replace("nothing is seen", "nothing was seen"))
    with pytest.raises(JobError) as refused:
        proofs(tmp_path, SETTING)
    assert refused.value.name == str(file)
    file.unlink()
    assert proofs(tmp_path, SETTING) == 1
