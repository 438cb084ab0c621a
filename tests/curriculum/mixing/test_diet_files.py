import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from curriculum.mixing.diet_files import (
    DIETS,
    PACKAGE,
    DietOverrides,
    diet_names,
    load_diet,
    load_phases,
    phase_names,
    phases_files,
)
from schemas.corpus import CorpusSpec
from schemas.errors import CorpusError, DietError
from schemas.json_schema import FOLDER
from schemas.text import parse
from tests.error_fields import fields

DIET = """\
specialist: templates
corpus: sample
model: tiny
token_budget: 10M
phases:
  - phase: syntax
    portion: 1.0
    servings:
      - {family: v3_simple, share: 1.0}
"""


def test_phases_are_read_only_and_ordered() -> None:
    phases = load_phases()
    assert [spec.row_lengths for spec in phases.values()] == [
        (4096,),
        (16384,),
        (65536,),
        (4096, 16384, 65536),
        (4096, 16384, 65536),
    ]
    with pytest.raises(TypeError):
        phases["other"] = phases["syntax"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("file", "schema"),
    [(file, "diet") for file in sorted(DIETS.glob("*.yaml"))]
    + [(file, "phases") for file in sorted(PACKAGE.glob("phases*.yaml"))]
    + [(file, "corpus") for file in sorted((PACKAGE / "corpora").glob("*.yaml"))],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_shipped_file_fits_the_schema_that_its_first_line_names(
    file: Path, schema: str
) -> None:
    first = file.read_text().splitlines()[0]
    named = first.removeprefix("# yaml-language-server: $schema=")
    assert (file.parent / named).resolve() == FOLDER / f"{schema}.schema.json"
    jsonschema.validate(
        yaml.safe_load(file.read_text()), json.loads((FOLDER / f"{schema}.schema.json").read_text())
    )


def test_the_sample_corpus_names_the_three_libraries_beside_it() -> None:
    file = PACKAGE / "corpora" / "sample.yaml"
    corpus = parse(CorpusSpec, file.read_text(), file=str(file), error=CorpusError)
    assert [repository.name for repository in corpus.repositories] == [
        "lattice",
        "arena",
        "ringlog",
    ]
    assert all(
        repository.path == f"sample/{repository.name}.bundle" and repository.licence == "Apache-2.0"
        for repository in corpus.repositories
    )


def test_an_unknown_name_is_told_the_likely_one_or_all() -> None:
    with pytest.raises(DietError, match="'templates", check=fields(name="templtes")):
        load_diet("templtes")
    with pytest.raises(DietError, match="Available: algorithms, build_toolchain"):
        load_diet("zzz")
    with pytest.raises(DietError, check=fields(name="./x.yaml")):
        load_diet("./x.yaml")
    with pytest.raises(DietError, match=r"'phases\.demo'", check=fields(name="phases_demo")):
        load_phases("phases_demo")


def test_a_diet_is_read_from_a_path_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("talk: {row_length: 128, families: [v2_simple]}\n")
    file = tmp_path / "diet.yaml"
    file.write_text(
        DIET.replace("corpus: sample", "corpus: ./code.yaml\nphases_file: mine.yaml").replace(
            "phase: syntax", "phase: talk"
        )
    )
    diet = load_diet(str(file))
    assert diet.corpus == str(tmp_path / "code.yaml")
    assert list(load_phases(diet.phases_file)) == ["talk"]
    assert diet.tokenizer == "corpus"


def test_a_phase_that_is_not_there_has_a_line_and_a_cure(tmp_path: Path) -> None:
    file = tmp_path / "diet.yaml"
    file.write_text(DIET.replace("phase: syntax", "phase: synatx"))
    with pytest.raises(DietError) as caught:
        load_diet(str(file))
    assert caught.value.name == f"{file}:6"
    assert caught.value.value == "phases.0.phase = 'synatx'"
    assert "'syntax'" in caught.value.cure


def test_a_serving_without_a_row_length_has_a_line(tmp_path: Path) -> None:
    file = tmp_path / "diet.yaml"
    file.write_text(DIET.replace("phase: syntax", "phase: structure"))
    with pytest.raises(DietError, match=r"diet\.yaml:9: phases\.0\.servings\.0 \(v3_simple\)"):
        load_diet(str(file))


def test_a_file_of_ten_megabytes_and_one_of_other_bytes_are_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text("# " + "x" * 10_000_000)
    with pytest.raises(DietError, match=r"large\.yaml: .*4,000,000 bytes"):
        load_diet(str(large))
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nwhy: caf\xe9\n")
    with pytest.raises(DietError, match=r"latin\.yaml:2: .*UTF-8"):
        load_diet(str(latin))
    with pytest.raises(DietError, check=fields(name="/dev/zero.yaml")):
        load_diet("/dev/zero.yaml")


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "diet.yaml"
    file.write_text("\ufeff" + DIET)
    assert load_diet(str(file)).specialist == "templates"


def test_overrides_change_the_diet_and_are_recorded() -> None:
    overrides = DietOverrides(token_budget="20M", max_repetition=9.0, seed=3, branch="wide")
    diet = load_diet("templates", overrides)
    assert (diet.token_budget, diet.seed, diet.branch) == (20_000_000, 3, "wide")
    assert {phase.max_repetition for phase in diet.phases} == {9.0}
    assert overrides.as_recorded == {
        "token_budget": "20M",
        "max_repetition": "9.0",
        "seed": "3",
        "branch": "wide",
    }
    assert load_diet("templates", DietOverrides()) == load_diet("templates")
    assert DietOverrides().as_recorded == {}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (DietOverrides(token_budget="20Q"), "--token-budget: 20Q; this is not a token count"),
        (DietOverrides(token_budget=-1), "--token-budget: -1; Input should be greater than 0"),
        (DietOverrides(max_repetition=0.5), "--max-repetition: 0.5"),
        (DietOverrides(branch="../x"), "--branch: ../x"),
    ],
)
def test_an_override_that_does_not_fit_names_its_option(
    overrides: DietOverrides, said: str
) -> None:
    with pytest.raises(DietError) as caught:
        load_diet("templates", overrides)
    assert str(caught.value).startswith(said)


def test_another_phases_file_is_the_one_that_counts(tmp_path: Path) -> None:
    file, phases = tmp_path / "diet.yaml", tmp_path / "mine.yaml"
    file.write_text(DIET.replace("phase: syntax", "phase: edits"))
    phases.write_text("edits: {row_length: 512, families: [v3_simple]}")
    with pytest.raises(DietError, match=r"diet\.yaml:6: phases\.0\.phase = 'edits'"):
        load_diet(str(file))
    diet = load_diet(str(file), DietOverrides(phases_file=str(phases)))
    assert diet.phases_file == str(phases)
    with pytest.raises(DietError, match=r"phases\.\d\.phase = .*mine\.yaml"):
        load_diet("algorithms", DietOverrides(phases_file=str(phases)))


def test_gates_wait_for_as_large_a_part_of_another_budget(tmp_path: Path) -> None:
    file = tmp_path / "diet.yaml"
    file.write_text(DIET + "    advance_when: {min_tokens: 4M}\n")
    smaller = load_diet(str(file), DietOverrides(token_budget="20K")).phases[0].advance_when
    assert smaller
    assert smaller.min_tokens == 8000
    with pytest.raises(DietError, check=fields(name="--token-budget", value="x")):
        load_diet(str(file), DietOverrides(token_budget="x"))


def test_a_workspace_has_diets_and_phases_of_its_own_by_name(tmp_path: Path) -> None:
    for folder in ("diets", "phases"):
        (tmp_path / folder).mkdir()
    (tmp_path / "phases" / "short.yaml").write_text(
        "talk: {row_length: 128, families: [v2_simple]}\n"
    )
    own = DIET.replace("corpus: sample", "corpus: sample\nphases_file: short")
    (tmp_path / "diets" / "mine.yaml").write_text(own.replace("phase: syntax", "phase: talk"))
    (tmp_path / "diets" / ".#mine.yaml").write_text("what an editor leaves")
    assert set(diet_names(tmp_path)) - set(diet_names()) == {"mine"}
    assert set(phases_files(tmp_path)) - set(phases_files()) == {"short"}
    assert load_diet("mine", home=tmp_path).phases[0].phase == "talk"
    assert phase_names("short", tmp_path) == ("talk",)
    with pytest.raises(DietError, check=fields(name="mine")):
        load_diet("mine")
    with pytest.raises(DietError, match="'mine'", check=fields(name="mien")):
        load_diet("mien", home=tmp_path)


def test_an_unknown_name_says_in_which_folder_it_was_looked_up(tmp_path: Path) -> None:
    with pytest.raises(DietError) as there:
        load_diet("argparse", home=tmp_path)
    assert there.value.name == "argparse"
    assert f"{tmp_path}/diets" in there.value.cause
    assert "CURRICULUM_HOME" not in str(there.value)
    with pytest.raises(DietError, match=f"{tmp_path}/phases, ", check=fields(name="long")):
        load_phases("long", tmp_path)
    absent = tmp_path / "absent"
    with pytest.raises(DietError, match=f"{absent}.*--home or CURRICULUM_HOME"):
        load_diet("argparse", home=absent)


def test_a_diet_of_the_workspace_stands_before_the_shipped_one_and_may_extend_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "diets").mkdir()
    file = tmp_path / "diets" / "templates.yaml"
    file.write_text("extends: templates\nbranch: wide\nseed: 7\n")
    diet, shipped = load_diet("templates", home=tmp_path), load_diet("templates")
    assert (diet.seed, diet.branch) == (7, "wide")
    assert diet.phases == shipped.phases
    file.with_name("other.yaml").write_text("extends: templates\nbranch: other\n")
    with pytest.raises(DietError, match=f"{file}", check=fields(value="extends = 'templates'")):
        load_diet("other", home=tmp_path)
