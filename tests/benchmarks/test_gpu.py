"""benchmarks/gpu.py as a command, with the five packages that a device machine has and no others."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement

from benchmarks import gpu

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
FIVE = ("torch", "numpy", "pyarrow", "pydantic", "pyyaml")
OTHERS = (
    "prefect",
    "duckdb",
    "polars",
    "tree_sitter",
    "tokenizers",
    "psutil",
    "typer",
    "safetensors",
)
SECTIONS = {"backends", "masking", "leakcheck", "block mask", "memory", "loader", "agreement"}
TINY = ("--device", "cpu", "--tiny", "--out")


def closure(names: Iterable[str]) -> dict[str, metadata.Distribution]:
    """The installed distributions of these names, and all that they require here."""
    found: dict[str, metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = metadata.distribution(name)
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed.name)
    return found


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of links to the files of the five packages and of what they require."""
    folder = tmp_path_factory.mktemp("packages")
    for distribution in closure(FIVE).values():
        tops = {file.parts[0] for file in distribution.files or ()}
        for top in tops - {"..", "__pycache__"}:
            link = folder / top
            if not link.exists():
                link.symlink_to(Path(str(distribution.locate_file(top))))
    return folder


def environment(packages: Path) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "TMPDIR")},
        "PYTHONPATH": str(packages),
        "OMP_WAIT_POLICY": "passive",
    }


def python(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with these packages alone: without `site`, the virtual environment's are not found."""
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=ROOT,
        env=environment(packages),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def ran(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder and the output of a whole tiny run."""
    out = tmp_path_factory.mktemp("out")
    done = python(packages, "benchmarks/gpu.py", *TINY, str(out))
    assert done.returncode == 0, done.stderr
    return out, done.stdout


@pytest.fixture(scope="module")
def content(ran: tuple[Path, str]) -> Any:
    return json.loads((ran[0] / "gpu.json").read_text())


def test_only_the_five_packages_and_what_they_require_can_be_imported(packages: Path) -> None:
    code = (
        "import sys; from importlib.util import find_spec; "
        "print([name for name in sys.argv[1:] if find_spec(name)])"
    )
    five = ("torch", "numpy", "pyarrow", "pydantic", "yaml")
    assert python(packages, "-c", code, *five, *OTHERS).stdout.strip() == str([*five])
    # They are there without the test's measures.
    done = subprocess.run(
        [sys.executable, "-c", code, *OTHERS], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str([*OTHERS])


def test_every_section_gives_a_line_with_figures(content: Any) -> None:
    assert {line["section"] for line in content["lines"] if line["figures"]} == SECTIONS
    assert content["status"] == "complete"
    assert content["skipped"] == []


def test_a_line_without_figures_gives_its_reason(content: Any) -> None:
    reasons = [line["note"] for line in content["lines"] if not line["figures"]]
    assert [reason.partition(";")[0] for reason in reasons] == ["refused: backend: varlen on cpu"]


def test_masks_are_measured_for_whole_models_and_each_family_packed_and_padded(
    content: Any,
) -> None:
    lines = [line for line in content["lines"] if line["section"] == "masking"]
    names = {line["subject"] for line in lines}
    assert {"attention-tiny", "tiny", "A attention", "M Mamba-2", "mHC around F"} < names
    for line in lines:
        figures = line["figures"]
        assert figures["masked tokens/s"] > 0 < figures["unmasked tokens/s"]
        is_alone = line["documents"] == "one per row"
        assert is_alone == ("padded tokens/s" not in figures) == (figures["density"] == 1)


def test_the_proof_and_the_builders_agree_on_this_device(content: Any) -> None:
    proofs = [line for line in content["lines"] if line["section"] == "leakcheck"]
    names = {"documents, bfloat16", "documents, float32", "documents, float32, training"}
    assert {line["subject"] for line in proofs} >= names
    assert all(line["figures"]["claims passed"] >= 4 for line in proofs)
    assert all(line["figures"]["claims failed"] == 0 for line in proofs)
    notes = [line["note"] for line in content["lines"] if "create_block_mask" in line["subject"]]
    assert notes == ["the same blocks as block_mask"]


def test_twenty_steps_agree_with_those_of_the_cpu(content: Any) -> None:
    (figures,) = (line["figures"] for line in content["lines"] if line["section"] == "agreement")
    assert 0 < figures["max loss difference"] < 1e-4
    assert 0 < figures["weight difference ÷ change by training"] < 0.05
    assert figures["steps"] == 20


def test_the_head_names_device_versions_and_an_unknown_peak(content: Any) -> None:
    known = content["environment"]
    assert known["device"].startswith("cpu")
    assert {"torch", "python", "numpy", "pyarrow", "work", "command"} <= set(known)
    assert known["peak"] == "unknown, so no MFU"
    assert not [name for line in content["lines"] for name in line["figures"] if "MFU" in name]


def test_markdown_json_and_output_hold_the_same_lines(ran: tuple[Path, str], content: Any) -> None:
    out, printed = ran
    markdown = (out / "gpu.md").read_text()
    drawn = [line for line in markdown.splitlines() if line.startswith("| ")][1:]
    assert len(drawn) == len(content["lines"])
    assert set(drawn) <= set(printed.splitlines())
    assert sorted(each.name for each in out.iterdir()) == ["gpu.json", "gpu.md"]


def test_a_stop_keeps_every_line_that_was_printed(packages: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-S", "benchmarks/gpu.py", *TINY, str(out)]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(packages), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGTERM)
        printed += process.stdout.read().splitlines()
    assert process.returncode == 128 + signal.SIGTERM
    content = json.loads((out / "gpu.json").read_text())
    assert content["status"] == "stopped by SIGTERM"
    lines = [line for line in printed if line.startswith("| ")][2:]
    assert 1 <= len(lines) == len(content["lines"]) < 10
    assert sorted(each.name for each in out.iterdir()) == ["gpu.json", "gpu.md"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--device", "cuda"), "device: cuda; this machine has no usable GPU"),
        (("--lengths", "1000"), "1000 is not a multiple of 128"),
        (("--out", "README.md"), "README.md is a file"),
    ],
)
def test_wrong_arguments_end_in_one_line_and_write_nothing(
    arguments: tuple[str, ...],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path / "out"), *arguments])
    with pytest.raises(SystemExit) as ended:
        sys.exit(gpu.main())
    assert ended.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
