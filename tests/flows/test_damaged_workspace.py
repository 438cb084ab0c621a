"""Commands over a workspace that lacks something, holds damage or can't be written say what they can."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from curriculum.catalog import SCRIPT_NAME
from curriculum.store.artefact import KEY_DIGITS
from schemas.manifest import read_manifest
from tests.curriculum.pipeline.tiny_diet import write_tiny_diet
from tests.flows.cli_runner import curriculum

pytestmark = pytest.mark.system
MOUNT = ["unshare", "--mount", "sh", "-c"]
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def can_mount() -> bool:
    """Return True where this user may mount folders for a process."""
    if shutil.which(MOUNT[0]) is None:
        return False
    tried = [*MOUNT, READ_ONLY, "sh", str(Path(__file__).parent), "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose first phase is trained; about 15 s of a core."""
    home = tmp_path_factory.mktemp("damage") / "home"
    write_tiny_diet(home)
    done = curriculum("train", "tiny", "--phase", "syntax", "--workers", "1", home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    return home


@pytest.fixture
def home(trained: Path, tmp_path: Path) -> Path:
    """A copy of it, to damage."""
    return Path(shutil.copytree(trained, tmp_path / "home"))


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a folder")
def test_status_and_report_work_on_a_read_only_mount(home: Path, tmp_path: Path) -> None:
    shutil.rmtree(home / "reports", ignore_errors=True)
    shutil.rmtree(home / "slots", ignore_errors=True)
    before = {path.relative_to(home) for path in home.rglob("*")}
    said = {}
    for command in ("status", "report"):
        words = [sys.executable, "-m", "flows.cli", command, "--home", str(home)]
        done = subprocess.run(
            [*MOUNT, READ_ONLY, "sh", str(home), *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CURRICULUM_STATE": str(tmp_path / "state")},
        )
        assert done.returncode == 0, done.stderr
        said[command] = done.stdout
    assert "syntax" in said["status"]
    file = Path(said["report"].strip())
    assert file.is_relative_to(tmp_path / "state")
    assert "syntax" in file.read_text()
    assert {path.relative_to(home) for path in home.rglob("*")} == before


def test_a_script_with_a_damaged_byte_is_written_anew(home: Path) -> None:
    script = home / SCRIPT_NAME
    sound = script.read_bytes()
    script.write_bytes(sound[:200] + b"\xff" + sound[200:])
    assert curriculum("status", home=home).returncode == 0
    assert curriculum("query", "SELECT count(*) FROM runs", home=home).returncode == 0
    script.write_bytes(b"\xff")
    assert curriculum("status", home=home).returncode == 0
    assert script.read_bytes().decode().startswith("--")


def test_check_says_that_documents_are_gone_and_verifies_the_rest(home: Path) -> None:
    rows = read_manifest(next((home / "rows").rglob("manifest.json")))
    used = next(each for each in rows.inputs if each.name.startswith("documents "))
    (gone,) = (home / "documents").rglob(used.key[:KEY_DIGITS])
    shutil.rmtree(gone)
    done = curriculum("check", str(home / "rows"), home=home)
    assert done.returncode == 0, done.stderr
    assert gone.name in done.stderr
    assert "keep the contract" in done.stdout
