"""A serving names repositories by patterns; what is built and keyed has their names."""

import subprocess
from pathlib import Path

import pytest

from curriculum.diets.load import DIETS
from flows.course import Course, Order, course
from schemas.errors import DietError


def repository(folder: Path) -> str:
    """The path of a repository of one commit."""
    folder.mkdir()
    (folder / "pass.cpp").write_text("int run() { return 0; }\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "Add a pass"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return str(folder)


def planned(folder: Path, repositories: str) -> Course:
    """The demo's course over the sample, with graphs of some repositories only."""
    text = (DIETS / "templates.demo.yaml").read_text()
    line = "- {family: v4_context_graph, share: 0.8}"
    assert line in text
    narrowed = line.replace("share", f"repositories: [{repositories}], share")
    file = folder / "diet.yaml"
    file.write_text(text.replace(line, narrowed))
    return course(Order(specialist=str(file), home=folder / "home"), dry=True)


@pytest.mark.xfail(strict=True, reason="a serving takes whole names only", raises=DietError)
def test_a_serving_names_repositories_by_patterns_and_is_keyed_by_their_names(
    tmp_path: Path,
) -> None:
    served = planned(tmp_path, '"*a*"').phase("file_graph").servings[0]
    assert served.repositories == ("arena", "lattice")
    named = planned(tmp_path, "lattice, arena").phase("file_graph").servings[0]
    assert served == named


@pytest.mark.xfail(strict=True, reason="a pattern is refused as a name, whatever it matches")
def test_a_pattern_that_matches_no_repository_is_refused_with_those_there_are(
    tmp_path: Path,
) -> None:
    with pytest.raises(DietError) as refused:
        planned(tmp_path, '"llvm*"')
    for said in ("llvm*", "matches no repository", "lattice, arena, ringlog"):
        assert said in str(refused.value)


@pytest.mark.xfail(
    strict=True, reason="compilers names a repository of the sample", raises=DietError
)
def test_compilers_takes_its_graphs_from_llvm_where_the_corpus_has_it(tmp_path: Path) -> None:
    given = tuple(repository(tmp_path / name) for name in ("llvm-project", "json"))
    order = Order(specialist="compilers", home=tmp_path / "home", repositories=given)
    plan = course(order, dry=True)
    for phase in ("file_graph", "repository_graph"):
        of_some = [each.repositories for each in plan.phase(phase).servings if each.repositories]
        assert set(of_some) == {("llvm-project",)}
