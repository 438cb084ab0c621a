"""A serving names repositories by patterns; what is built and keyed has their names."""

import subprocess
from pathlib import Path

import pytest

from curriculum.mixing.diet_files import DIETS
from curriculum.pipeline.plan import RunPlan, resolve_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.pipeline.wanted_rows import wanted_of
from schemas.errors import DietError


def repository(folder: Path) -> str:
    """The path of a repository of one commit."""
    folder.mkdir()
    (folder / "pass.cpp").write_text("int run() { return 0; }\n")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "Add a pass"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return str(folder)


def planned(folder: Path, repositories: str) -> RunPlan:
    """The demo's course over the sample, with graphs of some repositories only."""
    text = (DIETS / "templates.demo.yaml").read_text()
    line = "- {family: v4_context_graph, share: 0.8}"
    assert line in text
    narrowed = line.replace("share", f"repositories: [{repositories}], share")
    file = folder / "diet.yaml"
    file.write_text(text.replace(line, narrowed))
    return resolve_plan(RunConfig.of(specialist=str(file), workspace=folder / "home"), dry=True)


def test_a_serving_names_repositories_by_patterns_and_is_keyed_by_their_names(
    tmp_path: Path,
) -> None:
    matched, named = (
        planned(tmp_path, each).phase("file_graph") for each in ('"*a*"', "lattice, arena")
    )
    assert matched == named
    assert [each.repositories for each in wanted_of(matched)[0]] == [("arena", "lattice")]


def test_a_pattern_that_matches_no_repository_is_refused_with_those_there_are(
    tmp_path: Path,
) -> None:
    with pytest.raises(DietError) as refused:
        planned(tmp_path, '"llvm*"')
    for said in ("llvm*", "matches no repository", "lattice, arena, ringlog"):
        assert said in str(refused.value)


def test_compilers_takes_its_graphs_from_llvm_where_the_corpus_has_it(tmp_path: Path) -> None:
    given = tuple(repository(tmp_path / name) for name in ("llvm-project", "json"))
    order = RunConfig.of(specialist="compilers", workspace=tmp_path / "home", repositories=given)
    plan = resolve_plan(order, dry=True)
    for phase in ("file_graph", "repository_graph"):
        of_some = [each.repositories for each in plan.phase(phase).servings if each.repositories]
        assert set(of_some) == {("llvm-project",)}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ('"[ar]*"', ("arena", "ringlog")),
        ('"llvm*|lattice"', ("lattice",)),
        ('"ringlog|?rena"', ("arena", "ringlog")),
        ('arena, "a*"', ("arena",)),
        ('"*"', ("arena", "lattice", "ringlog")),
    ],
)
def test_a_pattern_is_the_names_that_it_matches(
    pattern: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    assert planned(tmp_path, pattern).phase("file_graph").servings[0].repositories == names


def test_two_servings_of_the_same_rows_are_refused_however_they_are_written(
    tmp_path: Path,
) -> None:
    line = "- {family: v4_context_graph, repositories: [%s], share: 0.4}"
    text = (DIETS / "templates.demo.yaml").read_text()
    twice = "\n      ".join(line % each for each in ("arena", '"ar*"'))
    file = tmp_path / "diet.yaml"
    file.write_text(text.replace("- {family: v4_context_graph, share: 0.8}", twice))
    with pytest.raises(DietError, match=r"repositories ar\*; .* arena"):
        resolve_plan(RunConfig.of(specialist=str(file), workspace=tmp_path / "home"), dry=True)


def test_a_repository_that_is_held_out_whole_is_no_supply(tmp_path: Path) -> None:
    (tmp_path / "corpus.yaml").write_text(
        "name: own\nrepositories:\n"
        f"  - {{name: seen, path: {repository(tmp_path / 'seen')}}}\n"
        f"  - {{name: strange, path: {repository(tmp_path / 'strange')}, unseen: true}}\n"
    )
    diet = (
        (DIETS / "templates.demo.yaml")
        .read_text()
        .replace("corpus: sample", "corpus: ./corpus.yaml")
    )
    line = "- {family: v4_context_graph, share: 0.8}"
    file = tmp_path / "diet.yaml"
    for name, is_refused in (("strange", True), ('"*"', False)):
        file.write_text(diet.replace(line, line.replace("share", f"repositories: [{name}], share")))
        config = RunConfig.of(specialist=str(file), workspace=tmp_path / "home")
        if is_refused:
            with pytest.raises(DietError) as refused:
                resolve_plan(config, dry=True)
            assert refused.value.value == "repositories 'strange'"
        else:
            serving = resolve_plan(config, dry=True).phase("file_graph").servings[0]
            assert serving.repositories == ("seen",)
