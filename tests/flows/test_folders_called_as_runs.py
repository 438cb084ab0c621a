"""A folder of the current directory that is called as a specialist doesn't stand in for it."""

from pathlib import Path

import pytest

from curriculum.pipeline.references import checkpoint_of, find, folders_of, run_of, store_of
from curriculum.store import Store
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import TinyWorkspace, figure, job, run


@pytest.fixture(params=["beside", "within", "itself"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a run of `fmt`, where a folder `fmt` lies beside it, in it, or is it."""
    home = tmp_path / ("fmt" if request.param == "itself" else "workspace")
    larder = TinyWorkspace(home)
    run(home, job(larder.syntax, home, run_key="1" * 64), [figure(2.0, 0.1)])
    here = home if request.param == "within" else tmp_path
    (here / "fmt" / "notes").mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(here)
    return home


def test_a_specialist_is_found_beside_a_folder_of_its_name(home: Path) -> None:
    store = store_of(home, "fmt")
    assert store.root == home
    meant = run_of(store, "fmt/syntax", name="it").path
    assert run_of(store, "fmt", name="it").path == meant
    assert checkpoint_of(home, "fmt").parents[1] == meant
    assert meant in folders_of(store, "fmt")
    assert [artefact.path for artefact in find(store, "fmt").artefacts] == [meant]


def test_commands_take_the_specialist_beside_a_folder_of_its_name(home: Path) -> None:
    checked = curriculum("check", "fmt", "--home", str(home))
    assert f"{home}/runs/specialist-fmt" in checked.stdout
    shown = curriculum("inspect", "fmt", "--home", str(home))
    assert (shown.returncode, "fmt/syntax" in shown.stdout) == (0, True)
    # The model is a stand-in; it is found all the same.
    for words in (("export", "fmt", "--to", "out"), ("generate", "fmt", "--prompt", "int")):
        assert "is a workspace" not in curriculum(*words, "--home", str(home)).stderr


def test_a_path_means_the_workspace_that_it_lies_in(home: Path, tmp_path: Path) -> None:
    assert store_of(tmp_path, str(home / "runs")).root == home
    assert folders_of(Store(home, dry=True), str(home)) == (home,)
