"""Only the user can write training output, except in a workspace that $CURRICULUM_TRUST shares."""

import os
import sys
from pathlib import Path

import pytest

from curriculum.train import __main__ as program


@pytest.mark.parametrize(
    ("trusted", "mask"),
    [(None, 0o022), ("", 0o022), ("elsewhere", 0o022), ("shared", 0o000), (".", 0o000)],
)
def test_others_may_write_only_in_a_workspace_that_the_environment_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str | None, mask: int
) -> None:
    seen = []

    def train(*_: object) -> int:
        seen.append(os.umask(0o077))
        return 0

    monkeypatch.delenv("CURRICULUM_TRUST", raising=False)
    if trusted is not None:
        monkeypatch.setenv("CURRICULUM_TRUST", str(tmp_path / trusted) if trusted else "")
    monkeypatch.setattr(sys, "argv", ["train", str(tmp_path / "shared" / "runs" / "job.json")])
    monkeypatch.setattr(program, "_train", train)
    monkeypatch.setattr(program, "_listen", list)
    before = os.umask(0)
    try:
        assert program.main() == 0
    finally:
        os.umask(before)
    assert seen == [mask]
