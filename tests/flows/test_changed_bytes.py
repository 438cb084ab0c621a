"""No command shows a changed byte of a published artefact without an error or a notice."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

STEP = "checkpoints/step=1"
SHOWN: dict[tuple[str, ...], tuple[str, ...]] = {
    ("inspect", "documents", "--full"): ("documents/**/part-*.parquet",),
    ("inspect", "documents", "--path", "*.c*"): ("documents/**/part-*.parquet",),
    ("inspect", "documents", "--where", "num_bytes > 0"): ("documents/**/part-*.parquet",),
    ("inspect", "rows", "--rows", "9", "--json"): (
        "rows/**/part-*.parquet",
        "documents/**/part-*.parquet",
    ),
    ("inspect", "rows", "--where", "num_docs > 0", "--json"): ("rows/**/part-*.parquet",),
    ("inspect", "rows", "--licence", "MIT", "--json"): ("rows/**/part-*.parquet",),
    ("inspect", "mixtures", "--step", "1"): ("mixtures/**/plan.parquet",),
    ("inspect", "fmt/syntax"): ("runs/**/job.json",),
    ("inspect", "fmt/syntax", "--step", "1"): ("runs/**/metrics/*.parquet",),
    ("inspect", "STEP"): (f"runs/**/{STEP}/model.safetensors", f"runs/**/{STEP}/state.json"),
    ("compare", "fmt/syntax", "fmt/file_graph"): ("runs/**/evaluations/*/documents.parquet",),
    ("diff", "fmt/syntax", "fmt/file_graph"): ("mixtures/**/plan.parquet",),
    ("lineage", "fmt/syntax", "--step", "1"): ("mixtures/**/plan.parquet", "rows/**/part-*"),
    ("query", "FROM runs"): ("runs/**/report.json", "runs/**/job.json"),
    ("query", "FROM metrics"): ("runs/**/metrics/*.parquet",),
    ("query", "FROM evaluations"): ("runs/**/evaluations/*/documents.parquet",),
    ("query", "FROM documents"): ("documents/**/part-*.parquet",),
}
"""Commands, and the files that each shows something of."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two finished runs."""
    home = tmp_path_factory.mktemp("changed") / "home"
    larder = TinyWorkspace(home)
    for number, plan in enumerate((larder.syntax, larder.file_graph)):
        documents = {"a" * 32: (9.0 + number, 9), "b" * 32: (8.0, 9)}
        ordered = job(plan, home, run_key=str(number))
        run(home, ordered, [figure(2.0 - number, 0.1)], documents=documents)
    return home


def flipped(file: Path) -> Iterator[int]:
    """Change one bit of a file at a time, at its places one after another; whole again behind the last."""
    sound = file.read_bytes()
    try:
        for at in sorted({len(sound) // 3, len(sound) // 2, len(sound) - 12}):
            content = bytearray(sound)
            content[at] ^= 1 << at % 8
            file.write_bytes(content)
            yield at
    finally:
        file.write_bytes(sound)


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_a_command_shows_no_changed_byte(
    home: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    checkpoint = next(home.glob(f"runs/**/{STEP}"))
    places = {"STEP": str(checkpoint), "OUT": str(tmp_path / "out")}
    given = [places.get(word, word) for word in words]
    sound = curriculum(*given, home=home)
    assert sound.returncode == 0, sound.stderr
    for pattern in SHOWN[words]:
        noticed = 0
        for file in sorted(home.glob(pattern)):
            for at in flipped(file):
                shutil.rmtree(tmp_path / "out", ignore_errors=True)
                done = curriculum(*given, home=home)
                said = done.stdout + done.stderr
                assert "Traceback" not in said
                is_named = file.name in said.replace("\n", "") and done.stderr != sound.stderr
                assert is_named or done.stdout == sound.stdout, (file, at, done.stderr)
                noticed += is_named
        assert noticed, pattern
    assert curriculum(*given, home=home).returncode == 0 or "OUT" in words
