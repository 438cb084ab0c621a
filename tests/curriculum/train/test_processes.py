"""The environment of a job: no secret of the Prefect server, and its modules by its own rule."""

import subprocess
import sys

import pytest

from curriculum.train.processes import job_environment


def test_a_job_gets_neither_prefects_secret_nor_our_rule_for_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "curriculum:secret")
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    monkeypatch.setenv("WANDB_MODE", "offline")
    code = "import os, sys; print(os.environ.get('WANDB_MODE'), sys.flags.safe_path, *os.environ)"
    own, inherited = (
        subprocess.run(
            [sys.executable, "-c", code], env=given, capture_output=True, text=True, check=True
        ).stdout.split()
        for given in (job_environment(), None)
    )
    assert own[:2] == ["offline", "False"]
    assert [name for name in own if name.startswith("PREFECT_")] == []
    assert "PREFECT_API_AUTH_STRING" in inherited
