"""Source files with the largest shares of the tokens, before anything is built and after it."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.flows.cli_runner import curriculum

PHASES = "syntax: {row_length: 512, families: [v2_simple, v3_simple]}\n"
DIET = """\
specialist: testing
corpus: own
model: tiny
vocab_size: 400
tokens_per_step: 1024
token_budget: 8K
phases_file: short
phases:
  - phase: syntax
    portion: 1
    max_repetition: 100
    servings: [{family: v2_simple, share: 0.5}, {family: v3_simple, share: 0.5}]
"""
LARGE, FUNCTION = (
    "deps_of_us/one.hpp",
    "inline int {name}_{at}(int a) {{ return a * {at} + {at}; }}\n",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a diet of a repository of forty small files and a large header, edited three times."""
    folder = tmp_path_factory.mktemp("largest")
    home, repository = folder / "home", folder / "own"
    (repository / "deps_of_us").mkdir(parents=True)
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run([*git, "init", "-q"], cwd=repository, check=True)
    for version in range(3):
        for at in range(40):
            lines = (FUNCTION.format(name=f"f{at}", at=line) for line in range(3 + version))
            (repository / f"f{at}.cpp").write_text("".join(lines))
        lines = (FUNCTION.format(name="large", at=line) for line in range(200 + version))
        (repository / LARGE).write_text("".join(lines))
        subprocess.run([*git, "add", "."], cwd=repository, check=True)
        subprocess.run(
            [*git, "commit", "-q", "-m", f"Version {version}"], cwd=repository, check=True
        )
    for name, text in {
        "corpora/own": f"name: own\nrepositories: [{{name: own, path: {repository}}}]\nval_fraction: 0.1\n"
        "full_file: all\nchanges: all\n",
        "diets/ours": DIET,
        "phases/short": PHASES,
    }.items():
        file = home / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return home


def test_supply_prints_the_largest_files_of_each_family(home: Path) -> None:
    words = ("supply", "ours", "--home", str(home))
    found = json.loads(curriculum(*words, "--json").stdout)["largest_files"]
    first = {each["family"]: each for each in reversed(found)}
    assert first.keys() == {"v2_simple", "v3_simple"}
    for each in first.values():
        assert each["lineage"] == f"own:{LARGE}"
        assert 0.3 < each["share"] < 0.9
    shown = curriculum(*words)
    line = next(line for line in shown.stdout.splitlines() if LARGE in line)
    assert line.count("%") == 2


def test_a_check_names_the_largest_files_and_warns_of_one_that_is_much_of_a_phase(
    home: Path,
) -> None:
    words = ("diet", "check", "ours", "--home", str(home))
    estimated = curriculum(*words)
    assert curriculum("build", "ours", "--home", str(home)).returncode == 0
    for checked in (estimated, curriculum(*words)):
        assert f" own:{LARGE} " in checked.stdout
        assert f'exclude: ["{LARGE}"]' in checked.stderr
        assert re.search(r"\d% .* own:", checked.stderr)
