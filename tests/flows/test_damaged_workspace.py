"""Commands over a workspace that lacks something, holds damage or can't be written say what they can."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from curriculum.catalog import SCRIPT_NAME
from curriculum.pipeline.references import checkpoint_of
from curriculum.store.artefact import KEY_DIGITS
from schemas.manifest import read_manifest
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


@pytest.fixture
def home(trained_tiny: Path, tmp_path: Path) -> Path:
    """A copy of the trained workspace, to damage."""
    return Path(shutil.copytree(trained_tiny, tmp_path / "home"))


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
    used = next(used for used in rows.inputs if used.name.startswith("documents "))
    (gone,) = (home / "documents").rglob(used.key[:KEY_DIGITS])
    shutil.rmtree(gone)
    done = curriculum("check", str(home / "rows"), home=home)
    assert done.returncode == 0, done.stderr
    assert gone.name in done.stderr
    assert "contract verified" in done.stdout


@pytest.mark.parametrize("stage", ["rows", "documents", "mixtures", "runs"])
def test_a_report_shows_what_is_left_and_names_what_is_gone(home: Path, stage: str) -> None:
    gone = next((home / stage).rglob("manifest.json")).parent
    if stage == "runs":
        gone = run_in(home)
    shutil.rmtree(gone)
    done = curriculum("report", "tiny", home=home)
    assert done.returncode == 0, done.stderr
    name = str(gone.relative_to(home))
    assert name in done.stderr
    page = (home / "reports" / "tiny.html").read_text()
    assert f"Not in this report: {name}" in page
    assert 'data-phase="syntax"' in page


@pytest.mark.parametrize("stage", ["rows", "tokens"])
def test_what_cannot_be_shown_without_its_tokenizer_names_the_tokenizer(
    home: Path, stage: str
) -> None:
    (gone,) = (file.parent for file in (home / "tokenizers").rglob("manifest.json"))
    shutil.rmtree(gone)
    shown = next((home / stage).rglob("manifest.json")).parent
    done = curriculum("inspect", str(shown), home=home)
    assert done.returncode == 2
    assert f"error: {gone}: " in done.stderr
    assert str(shown.relative_to(home)) in done.stderr
    assert curriculum("build", "tiny", "--workers", "1", home=home).returncode == 0
    assert curriculum("inspect", str(shown), home=home).returncode == 0


def flip(file: Path) -> None:
    """Change a bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def apply_cure(said: str, aside: Path) -> Path:
    """Do what an error tells to do by hand; the path that was renamed, made or moved."""
    if renamed := re.search(r"Rename it to (\S+\.lost): only this file is then lost", said):
        lost = Path(renamed[1])
        return lost.with_name(lost.name.removesuffix(".lost")).rename(lost)
    if empty := re.search(r"Create an empty file (\S+\.lost): only this file is then lost", said):
        Path(empty[1]).touch()
        return Path(empty[1])
    moved = re.search(r"[Mm]ove (\S+) out of the workspace", said)
    assert moved is not None, said
    return Path(shutil.move(moved[1], aside))


def run_in(home: Path) -> Path:
    (run,) = (home / "runs").rglob("attempt=1")
    return run


@pytest.mark.parametrize("how", ["flip", "delete"])
@pytest.mark.parametrize("pattern", ["train.log", "report.json", "metrics/*.parquet"])
def test_the_cure_of_a_runs_file_keeps_its_weights_and_all_commands_work(
    home: Path, tmp_path: Path, pattern: str, how: str
) -> None:
    file = next(run_in(home).glob(pattern))
    weights = {path: path.read_bytes() for path in run_in(home).rglob("*.safetensors")}
    if how == "flip":
        flip(file)
    else:
        file.unlink()
    found = curriculum("check", str(home / "runs"), home=home)
    assert found.returncode == 2
    assert str(file) in found.stderr
    assert apply_cure(found.stderr, tmp_path / "aside") == Path(f"{file}.lost")
    for words in (
        ["check", str(home / "runs")],
        ["status"],
        ["query", "SELECT count(*) FROM metrics"],
        ["query", "SELECT phase_bpb_after FROM runs"],
        ["report", "tiny"],
    ):
        done = curriculum(*words, home=home)
        assert done.returncode == 0, (words, done.stderr)
    trained = curriculum("train", "tiny", "--phase", "syntax", "--workers", "1", home=home)
    assert trained.returncode == 0, trained.stderr
    assert {path: path.read_bytes() for path in (home / "runs").rglob("*.safetensors")} == weights


def test_the_cure_of_a_damaged_checkpoint_moves_the_run_and_trains_it_anew(
    home: Path, tmp_path: Path
) -> None:
    flip(checkpoint_of(home, "tiny/syntax") / "model.safetensors")
    found = curriculum("check", str(home / "runs"), home=home)
    assert found.returncode == 2
    moved = apply_cure(found.stderr, tmp_path / "aside")
    assert (moved / "train.log").is_file()
    trained = curriculum("train", "tiny", "--phase", "syntax", "--workers", "1", home=home)
    assert trained.returncode == 0, trained.stderr
    assert curriculum("check", str(home / "runs"), home=home).returncode == 0


def test_the_cure_of_damaged_rows_moves_them_and_builds_them_anew(
    home: Path, tmp_path: Path
) -> None:
    file = next((home / "rows").rglob("part-*.parquet"))
    flip(file)
    found = curriculum("check", str(home / "rows"), home=home)
    assert found.returncode == 2
    assert not apply_cure(found.stderr, tmp_path / "aside").is_relative_to(home)
    built = curriculum("build", "tiny", "--phase", "syntax", "--workers", "1", home=home)
    assert built.returncode == 0, built.stderr
    assert file.is_file()
    assert curriculum("check", str(home / "rows"), home=home).returncode == 0


SHOWN = {
    ("inspect", "tokens"): ("tokens/**/tokens.bin", "tokens/**/offsets.bin"),
    ("inspect", "tokenizers"): ("tokenizers/**/tokenizer.json",),
    ("inspect", "selections"): ("selections/**/selection.parquet",),
    ("inspect", "rows", "--full"): ("rows/**/part-*.parquet", "tokenizers/**/tokenizer.json"),
    ("generate", "tiny/syntax", "--prompt", "int", "--tokens", "1"): (
        "runs/**/model.safetensors",
        "tokenizers/**/tokenizer.json",
    ),
    ("export", "tiny/syntax", "--to", "out"): ("runs/**/model.safetensors",),
    ("export", "tiny/syntax", "--format", "megatron", "--to", "out"): (
        "rows/**/split-train/**/part-*.parquet",
        "mixtures/**/plan.parquet",
    ),
}


def flip_shown(file: Path) -> None:
    """Change a bit of a file; of packed rows, one of their tokens."""
    if not file.name.startswith("part-"):
        flip(file)
        return
    group = pq.read_metadata(file).row_group(0)
    chunks = map(group.column, range(group.num_columns))
    tokens = next(each for each in chunks if each.path_in_schema.startswith("input_ids"))
    start = tokens.dictionary_page_offset or tokens.data_page_offset
    content = bytearray(file.read_bytes())
    content[start + tokens.total_compressed_size - 1] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_commands_that_show_tokens_or_weights_refuse_a_changed_byte(
    home: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    sound = curriculum(*words, home=home, cwd=tmp_path)
    assert sound.returncode == 0, sound.stderr
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    for pattern in SHOWN[words]:
        files = {file: file.read_bytes() for file in sorted(home.glob(pattern))}
        assert files, pattern
        for file in files:
            flip_shown(file)
        done = curriculum(*words, home=home, cwd=tmp_path)
        assert done.returncode == 2, (pattern, done.stdout)
        assert any(file.name in done.stderr for file in files), done.stderr
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        for file, content in files.items():
            file.write_bytes(content)
