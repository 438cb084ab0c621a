"""Checks of foreign artefacts in a sandbox: their contents must match the contract of their stage.

A build can't necessarily read every file that can be decoded (see `foreign_decoding`).
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from curriculum.sandbox import Sandbox, code_paths
from curriculum.sandboxed_process import (
    SandboxedProcess,
    answer,
    enter_sandbox,
    fault_of,
    stored_bytes,
    usual_memory,
    usual_seconds,
)
from schemas.errors import StoreError

if TYPE_CHECKING:
    from curriculum.store import Artefact

_RATIO = 100
"""Maximum bytes of temporary files per byte of an artefact. Text ranges are sorted on disk."""
_MIN_FILE_BYTES = 1 << 20
_MAX_FAULT = 500
"""Maximum number of characters to show of a fault."""


def check_foreign(artefact: "Artefact", made_of: Mapping[str, Path], *, name: str) -> None:
    """Check a foreign artefact in a sandbox, and raise unless it matches the contract of its stage.

    Args:
        artefact: a draft whose files are those of its manifest.
        made_of: folders of the artefacts that tokens were made of, by stage.
        name: the path that errors name.

    Raises:
        StoreError: for contents that no build writes, a check that takes too much memory or processor time,
        and a kernel without sandbox.
    """
    folders = [artefact.path, *made_of.values()]
    files = (file for folder in folders for file in folder.rglob("*") if file.is_file())
    size = stored_bytes(files)
    with tempfile.TemporaryDirectory(prefix="contract-") as scratch:
        sandbox = Sandbox(
            read=(*(str(folder.absolute()) for folder in folders), *code_paths()),
            scratch=scratch,
            file_bytes=max(_MIN_FILE_BYTES, _RATIO * size),
            memory=usual_memory(size),
            cpu_seconds=usual_seconds(size),
        )
        request = {
            "folder": str(artefact.path.absolute()),
            "manifest": artefact.manifest.model_dump_json(),
            "made_of": {stage: str(folder.absolute()) for stage, folder in made_of.items()},
            "scratch": scratch,
        }
        with SandboxedProcess(__name__, sandbox, request) as process:
            found = process.next_answer()
            fault = process.end_reason() if found is None else found.get("fault")
    if fault is not None:
        raise StoreError(
            name,
            str(fault)[:_MAX_FAULT],
            cause=f"it doesn't match what the stage {artefact.manifest.stage} of this version writes",
            cure="Ask its sender for another copy, or move it out of the workspace",
        )


def _serve() -> None:
    """Check the artefact of a request, and answer with its first fault."""
    request = enter_sandbox()
    tempfile.tempdir = request["scratch"]

    from curriculum.stage_contracts import require_contract
    from curriculum.store import Artefact
    from schemas.manifest import Manifest

    try:
        manifest = Manifest.model_validate_json(request["manifest"])
        made_of = {stage: Path(folder) for stage, folder in request["made_of"].items()}
        require_contract(Artefact(path=Path(request["folder"]), manifest=manifest), made_of)
        fault = None
    except Exception as broken:
        fault = fault_of(broken)
    answer({"fault": fault})


if __name__ == "__main__":
    _serve()
