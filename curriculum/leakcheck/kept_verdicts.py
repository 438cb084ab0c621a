"""Cached verdicts that apply to several jobs, stored in the workspace.

    leakchecks/CODE/SETTING.json

CODE is the digest of our sources and of the versions of Python and torch. SETTING is the digest of the
layers, the row length and the device. Only passed proofs are cached. Writing a verdict removes all
verdicts under another CODE.
"""

import dataclasses
import hashlib
import json
import platform
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

import curriculum
import schemas
from curriculum.leakcheck.repacked import ProofSetting
from curriculum.leakcheck.subject import dtype_name
from curriculum.store.artefact import KEY_DIGITS
from curriculum.whole_files import write_whole
from schemas.errors import JobError
from schemas.json_text import Sealed, read_json
from schemas.leak import Finding, LeakReport

FOLDER = "leakchecks"
_CODE = re.compile(rf"[0-9a-f]{{{KEY_DIGITS}}}")


class KeptVerdict(Sealed):
    """Report of a passed proof, and the setting that it applies to."""

    setting: str
    report: LeakReport


def proven_once(
    workspace: Path,
    what: str,
    setting: ProofSetting,
    prove: Callable[[], tuple[Finding, ...]],
    *,
    anew: bool = False,
) -> tuple[Finding, ...]:
    """Return the cached findings of a proof, or run `prove` and cache its findings.

    Cached findings are valid for the same claims (`what`), setting, code and versions. `anew` ignores the
    cache.

    Raises:
        JobError: if the cached file was changed.
    """
    described = f"{what} {_described(setting)}"
    folder = workspace / FOLDER / code_digest()
    file = folder / f"{_digest(described.encode())}.json"
    if file.is_file() and not anew:
        kept = read_json(
            KeptVerdict,
            file,
            error=JobError,
            cause="another program than this one wrote it, or its disk is damaged",
            cure="Delete the file; the verdict is then proven again",
        )
        if kept.setting == described and kept.report.passed:
            return kept.report.findings
    report = LeakReport(findings=prove())
    if report.passed:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(file, KeptVerdict(setting=described, report=report).model_dump_json(indent=1))
        for other in folder.parent.iterdir():
            if _CODE.fullmatch(other.name) and other != folder:
                shutil.rmtree(other, ignore_errors=True)
    return report.findings


def _described(setting: ProofSetting) -> str:
    fields = {field.name: getattr(setting, field.name) for field in dataclasses.fields(setting)}
    words = {
        "model": setting.model.model_dump(mode="json"),
        "optimizer": setting.optimizer.model_dump(mode="json"),
        "dtype": dtype_name(setting.dtype),
        "device": device_words(setting.device),
        "start": str(setting.start or ""),
        "threads": torch.get_num_threads(),
    }
    return json.dumps(fields | words, sort_keys=True)


def device_words(device: torch.device) -> str:
    """Return the type and the name of a device."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return f"{device.type}, {name}"


@cache
def code_digest() -> str:
    """Return a digest of our packages' sources and of the versions of Python and torch."""
    found = hashlib.sha256(f"{platform.python_version()} {torch.__version__}".encode())
    for package in (curriculum, schemas):
        root = Path(package.__path__[0])
        for file in sorted(root.rglob("*.py")):
            found.update(f"{file.relative_to(root)} {_digest(file.read_bytes())}".encode())
    return found.hexdigest()[:KEY_DIGITS]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:KEY_DIGITS]
