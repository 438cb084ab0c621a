import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from curriculum.corpus.load import load_corpus
from curriculum.mixing.diet_files import load_diet, load_phases
from curriculum.mixing.resolve import resolve
from curriculum.starter import write_starter
from schemas.errors import CurriculumError


@pytest.mark.parametrize("name", ["mine", "on", "17", "a.b-c_d"])
def test_the_files_load_by_name_and_name_what_is_there(tmp_path: Path, name: str) -> None:
    home = tmp_path / "a folder" / "with: signs #"
    write_starter(home, name)
    diet, corpus = load_diet(name, home=home), load_corpus(name, home)
    assert (diet.specialist, diet.corpus, corpus.name) == (name, name, name)
    assert len(corpus.repositories) == 3
    for each in corpus.repositories:
        assert each.path
        assert each.compile_commands
        assert Path(each.path).is_file()
        assert Path(each.compile_commands).is_file()
    assert resolve(diet, load_phases(diet.phases_file))


def test_an_editor_finds_the_schemas_beside_the_files_and_accepts_them(tmp_path: Path) -> None:
    for file in write_starter(tmp_path, "mine"):
        first, _, text = file.read_text().partition("\n")
        named = first.partition("$schema=")[2]
        assert named.startswith(".schemas/")
        schema = json.loads((file.parent / named).read_text())
        jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(text))


def test_the_files_stay_whole_where_their_workspace_is_moved_to(tmp_path: Path) -> None:
    write_starter(tmp_path / "first", "mine")
    shutil.move(tmp_path / "first", tmp_path / "second")
    diet = load_diet("mine", home=tmp_path / "second")
    assert load_corpus(diet.corpus, tmp_path / "second").name == "mine"


@pytest.mark.parametrize("folder", ["diets", "corpora"])
def test_nothing_is_overwritten(tmp_path: Path, folder: str) -> None:
    taken = tmp_path / folder / "mine.yaml"
    taken.parent.mkdir()
    taken.write_text("mine")
    with pytest.raises(CurriculumError, match="overwritten"):
        write_starter(tmp_path, "mine")
    assert [each.name for each in tmp_path.iterdir()] == [folder]
    assert taken.read_text() == "mine"


def test_a_workspace_that_is_a_file_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CurriculumError, match="written"):
        write_starter(tmp_path / "taken", "mine")
