"""Names that are nearly right, of which errors name the likely one; and specialists by their names."""

import json
from pathlib import Path

import pytest

from curriculum.mixing.diet_files import load_diet
from schemas.errors import DietError
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run

DIET = """\
specialist: mine
corpus: sample
model: tiny
token_budget: 1M
phases:
  - {phase: syntax, portion: PORTION, servings: [{family: v2_simple, share: 1}]}
anneal: {portion: 0.4}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with a run of `fmt`, and mixtures of two of its phases."""
    home = tmp_path / "home"
    larder = TinyWorkspace(home)
    run(home, job(larder.syntax, home, run_key="1" * 64), [figure(2.0, 0.1)])
    return home


def refused(*words: str, home: Path | None = None) -> str:
    done = curriculum(*words, home=home)
    assert done.returncode == 2, done.stdout + done.stderr
    return " ".join(done.stderr.split())


def test_status_takes_a_specialist_and_a_phase(home: Path) -> None:
    every = json.loads(curriculum("status", "--json", home=home).stdout)["phases"]
    for name, wanted in (
        ("fmt", every),
        ("fmt/syntax", [phase for phase in every if phase["phase"] == "syntax"]),
    ):
        shown = json.loads(curriculum("status", name, "--json", home=home).stdout)
        assert shown["phases"] == wanted != []
        assert shown["stages"] == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("status", "ftm"), "fmt"),
        (("lineage", "fmt/sintax"), "fmt/syntax"),
        (("inspect", "row"), "rows"),
        (("inspect", "fmt/sytnax"), "fmt/syntax"),
        (("hlep",), "--help"),
        (("help",), "--help"),
        (("diet", "hepl"), "--help"),
        (("statsu",), "status"),
    ],
)
def test_a_name_that_is_nearly_right_is_suggested(
    words: tuple[str, ...], meant: str, home: Path
) -> None:
    assert f"Did you mean '{meant}'?" in refused(*words, home=home)


def test_a_specialist_that_is_not_trained_says_how_to_begin(home: Path) -> None:
    assert "curriculum run templates.demo" in refused("status", "templates.demo", home=home)
    assert "curriculum run templates.demo" in refused("lineage", "templates.demo", home=home)


@pytest.mark.parametrize(("portion", "cure"), [("60", "Write 0.6"), ("12.5", "Write 0.125")])
def test_a_share_in_percent_is_divided(portion: str, cure: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(DIET.replace("PORTION", portion))
    with pytest.raises(DietError) as wrong:
        load_diet(str(file))
    assert wrong.value.cure == cure


def test_a_share_beyond_percent_is_lowered(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(DIET.replace("PORTION", "600"))
    with pytest.raises(DietError) as wrong:
        load_diet(str(file))
    assert wrong.value.cure == "Lower it"


@pytest.mark.parametrize("domain", ["kernels", "parsing", "threads"])
def test_a_domain_that_no_name_is_near_lists_all_of_the_corpus(domain: str, tmp_path: Path) -> None:
    serving = "{family: v2_simple, share: 1, domains: {DOMAIN: 2}}".replace("DOMAIN", domain)
    file = tmp_path / "mine.yaml"
    file.write_text(
        DIET.replace("PORTION", "0.6").replace("{family: v2_simple, share: 1}", serving)
    )
    said = refused("run", str(file), "--dry-run", home=tmp_path / "home")
    assert "Available: build_toolchain, testing, algorithms" in said
    assert "Did you mean" not in said


def test_an_unknown_model_lists_all(home: Path) -> None:
    for name in ("tny", "llama"):
        said = refused("run", "templates.demo", "--model", name, "--dry-run", home=home)
        assert "Available: tiny, 60m, 300m, 1b, attention-tiny" in said


def test_a_tokenizer_of_a_hub_says_how_to_get_its_file(home: Path) -> None:
    for name in ("gpt2", "Qwen/Qwen3-0.6B"):
        said = refused("run", "templates.demo", "--tokenizer", name, "--dry-run", home=home)
        assert f"hf download {name} tokenizer.json" in said
        assert f"hf download {name}" in refused("supply", "sample", "--tokenizer", name, home=home)


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("ls",), ("query", "FROM runs"), ("report",), ("gc",), ("inspect", "rows"),
        ("lineage", "fmt"), ("check", "rows"), ("compare", "fmt", "fmt"),
        ("export", "fmt", "--to", "out"), ("generate", "fmt", "--prompt", "int"),
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_workspace_that_is_named_and_is_not_there_is_a_mistake(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    nowhere = tmp_path / "nowhere"
    assert f"--home: {nowhere}" in refused(*words, "--home", str(nowhere))
    assert not nowhere.exists()
