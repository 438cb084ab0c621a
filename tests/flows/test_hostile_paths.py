"""Commands work in folders whose names are patterns, and touch nothing that the patterns match."""

import shutil
import subprocess
from pathlib import Path

from tests.flows.cli_runner import curriculum

NAME, NEIGHBOUR = "w[ab]s* {x,y}?", "was {x,y}z"
CODE = """\
// A function that adds {0} to each number of a list, and returns their sum.
#include <vector>

int add_{0}(const std::vector<int>& list)
{{
    int total = 0;
    for (int each : list)
        total += each + {0};
    return total;
}}
"""
DIET = """\
specialist: tiny
why: the rows of a small repository
phases_file: phases.demo
corpus: sample
tokenizer: corpus
vocab_size: 4096
model: tiny
token_budget: 512
tokens_per_step: 512
phases:
  - phase: syntax
    portion: 1.0
    why: files as they are
    servings: [{family: v2_doxygen, share: 1.0}]
    on_shortage: renormalise
"""


def _repository(folder: Path, number: int) -> Path:
    """A repository of so many commits, a file each."""
    folder.mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", "."], cwd=folder, check=True)
    for each in range(number):
        (folder / f"f{each}.cpp").write_text(CODE.format(each))
        subprocess.run([*git, "add", "-A"], cwd=folder, check=True)
        subprocess.run([*git, "commit", "-qm", f"Add f{each}"], cwd=folder, check=True)
    return folder


def test_a_workspace_whose_name_is_a_pattern_is_built_mixed_asked_and_checked(
    tmp_path: Path,
) -> None:
    home = tmp_path / NAME / "home"
    corpus = _repository(tmp_path / NAME / "src", 6)
    shutil.copytree(corpus, tmp_path / NEIGHBOUR / "src")
    diet = tmp_path / NAME / "tiny.yaml"
    diet.write_text(DIET)
    repository = ("--phase", "syntax", "--repo", str(corpus))
    for words in (
        ("build", str(diet), *repository),
        ("mix", str(diet), *repository),
        ("check", str(home / "rows"), str(home / "mixtures")),
        ("query", "SELECT count(*) AS n FROM mixture_rows WHERE specialist = 'tiny'", "--json"),
    ):
        done = curriculum(*words, home=home, variables={"COLUMNS": "200"})
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        assert words[0] != "check" or f"{home}/rows:" in done.stdout
    assert done.stdout.strip() != '[{"n": 0}]'
