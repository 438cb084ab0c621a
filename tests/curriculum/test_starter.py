import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from curriculum.corpus.load import load_corpus
from curriculum.mixing.load import load_diet, load_phases
from curriculum.mixing.resolve import resolve
from curriculum.starter import write_starter
from schemas.errors import CurriculumError


def test_the_files_load_and_name_what_is_there(tmp_path: Path) -> None:
    diet_file, corpus_file = write_starter(tmp_path / "a folder" / "with: signs #")
    diet, corpus = load_diet(str(diet_file)), load_corpus(str(corpus_file))
    assert Path(diet.corpus) == corpus_file
    assert load_corpus(diet.corpus) == corpus
    assert len(corpus.repositories) == 3
    for each in corpus.repositories:
        assert each.path
        assert each.compile_commands
        assert Path(each.path).is_file()
        assert Path(each.compile_commands).is_file()
    assert resolve(diet, load_phases(diet.phases_file))


def test_an_editor_finds_the_schemas_beside_the_files_and_accepts_them(tmp_path: Path) -> None:
    for file in write_starter(tmp_path):
        first, _, text = file.read_text().partition("\n")
        named = first.partition("$schema=")[2]
        assert named.startswith(".schemas/")
        schema = json.loads((file.parent / named).read_text())
        jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(text))


def test_the_files_stay_whole_where_they_are_moved_to(tmp_path: Path) -> None:
    write_starter(tmp_path / "first")
    shutil.move(tmp_path / "first", tmp_path / "second")
    diet = load_diet(str(tmp_path / "second" / "diet.yaml"))
    assert Path(diet.corpus) == tmp_path / "second" / "corpus.yaml"


@pytest.mark.parametrize("name", ["diet.yaml", "corpus.yaml"])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(CurriculumError, match="nothing is overwritten"):
        write_starter(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_is_a_file_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(CurriculumError, match="can't be written"):
        write_starter(tmp_path / "taken")
