"""A branch that no diet file names, made by an option or in a form: it is used again like any other."""

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from curriculum.pipeline.context import Context
from curriculum.pipeline.recorded_config import first_plan
from curriculum.pipeline.run_config import RunConfig
from curriculum.store import Store
from dashboards import overview_panels
from dashboards.questions import WorkspaceView
from flows import cli

pytestmark = pytest.mark.system

ORDER = RunConfig.of(
    specialist="templates.demo",
    workspace=Path(),
    branch="ux",
    token_budget="40K",
    max_repetition=100.0,
    seed=5,
    workers=1,
)
FLOW_RUN = "5b0c7a52-0000-0000-0000-00000000000b"
COMMAND = re.compile(r"curriculum (?:run|mix|train|build|approve|diet check)(?: [^\s;,:`]+)+")


def curriculum(home: Path, *words: str) -> Result:
    return CliRunner().invoke(cli.app, [*words, "--home", str(home)])


def _copy(demo_home: Path, to: Path) -> Path:
    ignored = shutil.ignore_patterns("prefect", ".locks", "slots", "reports")
    shutil.copytree(demo_home, to, ignore=ignored, copy_function=os.link)
    for file in (to / "current").glob("*.txt"):
        text = file.read_text()
        file.unlink()
        file.write_text(text)
    return to


@pytest.fixture(scope="module")
def mixed(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's workspace, in which a form has mixed the first phase of a branch."""
    from curriculum.pipeline.context import Context
    from curriculum.pipeline.steps import build_phase, mix_phase

    home = _copy(demo_home, tmp_path_factory.mktemp("mixed") / "workspace")
    plan = first_plan(ORDER.model_copy(update={"workspace": home}), FLOW_RUN)
    mix_phase(plan, "syntax", build_phase(plan, "syntax", Context()), Context())
    return home


@pytest.fixture(scope="module")
def trained(mixed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, where the phase is trained too."""
    home = tmp_path_factory.mktemp("trained") / "workspace"
    shutil.copytree(mixed, home)
    words = ["train", "templates.demo", "--branch", "ux", "--token-budget", "40K", "--seed", "5"]
    words += ["--max-repetition", "100", "--phase", "syntax", "--workers", "1"]
    done = curriculum(home, *words)
    assert done.exit_code == 0, done.output
    return home


@pytest.fixture(params=["mixed", "trained"])
def home(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def phases(home: Path) -> list[dict[str, str]]:
    done = curriculum(home, "status", "--json")
    assert done.exit_code == 0, done.output
    return [
        phase
        for phase in json.loads(done.stdout)["phases"]
        if phase["specialist"] == "templates/ux"
    ]


def test_status_holds_a_branch_against_the_diet_that_it_was_ordered_with(home: Path) -> None:
    found = phases(home)
    assert [each["phase"] for each in found] == [
        *("syntax", "file_graph", "repository_graph", "structure", "anneal")
    ]
    assert not any("can't be compared" in each["why"] for each in found)
    is_trained = "trained" in str(home)
    assert found[0]["state"] == ("done" if is_trained else "missing")
    assert "comes next" in found[is_trained]["why"]


def test_a_branch_that_a_command_has_only_mixed_is_held_against_that_commands_diet(
    mixed: Path, tmp_path: Path
) -> None:
    home = tmp_path / "workspace"
    shutil.copytree(mixed, home)
    words = ["--branch", "uw", "--token-budget", "40K", "--max-repetition", "100", "--seed", "7"]
    done = curriculum(home, "mix", "templates.demo", "--phase", "syntax", "--workers", "1", *words)
    assert done.exit_code == 0, done.output
    listed = json.loads(curriculum(home, "status", "--json").stdout)["phases"]
    found = [phase for phase in listed if phase["specialist"] == "templates/uw"]
    assert len(found) == 5
    assert "curriculum run templates.demo --" in found[0]["why"]
    assert "--branch uw" in found[0]["why"]
    done = curriculum(home, "mix", "templates.uw", "--phase", "syntax", "--explain")
    assert "Nothing to do" in done.output


def _commands(home: Path) -> Iterator[str]:
    """Yield the commands that status and the overview recommend."""
    for each in phases(home):
        yield from COMMAND.findall(each["why"])
    shown = re.sub(
        r"<details.*?</details>",
        "",
        overview_panels.attention(WorkspaceView(home)),
        flags=re.DOTALL,
    )
    yield from re.findall(r"<code>(curriculum [^<]*)</code>", shown)


def test_whatever_status_and_overview_recommend_is_accepted_as_printed(home: Path) -> None:
    found = set(_commands(home))
    assert any(each.startswith("curriculum run ") for each in found)
    for each in found:
        _, *words = shlex.split(each)
        if words[0] in ("run", "mix", "train", "build"):
            words.append("--explain")
        done = curriculum(home, *words)
        assert done.exit_code == 0, f"{each}\n{done.output}"
        assert "ux" in done.output or "templates" in each


def test_the_recommended_command_finds_what_the_branch_has_made(trained: Path) -> None:
    """With the same budget and seed the mixture and the run of its first phase are there."""
    runs = {each for each in _commands(trained) if each.startswith("curriculum run ")}
    assert runs
    for each in runs:
        _, *words = shlex.split(each)
        done = curriculum(trained, *words, "--phase", "syntax", "--explain")
        assert re.search(r"mixtures +0 to make +1 up to date", done.output), (
            f"{each}\n{done.output}"
        )


@pytest.mark.parametrize("name", ["templates/ux", "templates.ux", None])
def test_a_branch_has_a_report(home: Path, name: str | None) -> None:
    done = curriculum(home, "report", *([name] if name else []))
    assert done.exit_code == 0, done.output
    assert "has no report" not in done.output
    assert str(home / "reports" / "templates@ux.html") in done.stdout


def test_a_branch_whose_diet_is_gone_is_held_against_the_one_that_its_flow_run_froze(
    mixed: Path, tmp_path: Path
) -> None:
    from curriculum.mixing.diet_files import DIETS

    home = tmp_path / "workspace"
    shutil.copytree(mixed, home)
    (home / "diets").mkdir(exist_ok=True)
    own = home / "diets" / "mine.yaml"
    text = (DIETS / "templates.demo.yaml").read_text()
    own.write_text(text.replace("specialist: templates", "specialist: mine"))
    from curriculum.pipeline.steps import build_phase, mix_phase

    plan = first_plan(
        ORDER.changed(seed=6).model_copy(update={"specialist": "mine", "workspace": home}),
        FLOW_RUN[:-1] + "c",
    )
    mix_phase(plan, "syntax", build_phase(plan, "syntax", Context()), Context())
    own.unlink()
    done = curriculum(home, "status", "--json")
    found = [
        phase for phase in json.loads(done.stdout)["phases"] if phase["specialist"] == "mine/ux"
    ]
    assert len(found) == 5
    assert not any("can't be compared" in each["why"] for each in found)


def test_a_branch_of_the_workspace_is_named_wherever_a_diet_is(trained: Path) -> None:
    for name in ("templates.ux", "templates/ux"):
        done = curriculum(trained, "train", name, "--phase", "syntax", "--explain")
        assert done.exit_code == 0, done.output
        assert "Nothing to do" in done.output
    wrong = curriculum(trained, "train", "templates.uy", "--explain")
    assert wrong.exit_code == 2
    assert "templates.uy" in wrong.output
    assert Store(trained).root.is_dir()
