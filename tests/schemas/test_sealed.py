"""JSON files that carry a digest of themselves, and versions: any minor of one's own major is read."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from curriculum.store import Recipe, StagingDirectory, Store
from schemas.document import SCHEMA_VERSION
from schemas.errors import CurriculumError
from schemas.job import RunState
from schemas.json_text import now

NEWER = f"{SCHEMA_VERSION.partition('.')[0]}.99"


def sealed(content: dict[str, Any]) -> str:
    """JSON with a digest of the rest."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(rest | {"digest": hashlib.sha256(text.encode()).hexdigest()})


def produced(home: Path) -> Path:
    """The manifest of an artefact."""

    def write(drafts: Sequence[StagingDirectory]) -> None:
        (drafts[0].path / "part-00000.parquet").write_text("x")
        drafts[0].report["documents"] = 17

    (made,) = Store(home).produce([Recipe(stage="documents", labels=(), revision=1)], write)
    return made.path / "manifest.json"


def test_a_manifest_of_a_newer_minor_version_with_more_fields_is_read(tmp_path: Path) -> None:
    manifest = produced(tmp_path)
    content = json.loads(manifest.read_text()) | {"schema_version": NEWER, "colour": "red"}
    content["files"][0]["colour"] = "blue"
    manifest.write_text(sealed(content))
    read = Store(tmp_path).load(manifest.parent)
    assert read.manifest.report["documents"] == 17


def test_the_state_of_a_run_of_a_newer_minor_version_is_read() -> None:
    state = RunState(host="a", pid=1, at=now())
    content = json.loads(state.model_dump_json()) | {"schema_version": NEWER, "colour": "red"}
    assert RunState.model_validate_json(sealed(content)).pid == 1


@pytest.mark.parametrize("field", ["report", "labels", "created"])
def test_a_manifest_with_a_changed_field_is_refused_by_name(tmp_path: Path, field: str) -> None:
    manifest = produced(tmp_path)
    content = json.loads(manifest.read_text())
    content[field] = "2001-01-01" if field == "created" else {"documents": "18"}
    manifest.write_text(json.dumps(content))
    with pytest.raises(CurriculumError, match=str(manifest)):
        Store(tmp_path).load(manifest.parent)


def test_the_digest_of_a_manifest_covers_fields_of_newer_versions(tmp_path: Path) -> None:
    manifest = produced(tmp_path)
    content = json.loads(manifest.read_text()) | {"schema_version": NEWER, "colour": "red"}
    manifest.write_text(sealed(content))
    Store(tmp_path).load(manifest.parent)
    manifest.write_text(manifest.read_text().replace('"red"', '"rad"'))
    with pytest.raises(CurriculumError, match=str(manifest)):
        Store(tmp_path).load(manifest.parent)
