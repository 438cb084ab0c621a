"""Arms as diets: what each changes, and what the ablation gives all of them."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from curriculum.ablations.arms import CONTROL_SHARE, NULL_ORDER, load_ablation, write_arms
from curriculum.mixing.diet_files import load_diet
from schemas.ablation import MAX_ARMS, MAX_SEEDS, AblationSpec
from schemas.errors import DietError
from schemas.seeds import MAX_SEED

UNMASKED = {"study": {"document_mask": "off"}}


def ablation(folder: Path, **changes: object) -> Path:
    content = {
        "name": "masks",
        "diet": "templates.demo",
        "arms": {"unmasked": UNMASKED},
        "seeds": [3, 5],
        "claims": [{"claim": "masks help", "arm": "base", "against": "unmasked"}],
        **changes,
    }
    file = folder / "masks.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def test_each_arm_is_a_diet_that_differs_in_what_it_says_alone(tmp_path: Path) -> None:
    file, home = ablation(tmp_path), tmp_path / "home"
    arms = write_arms(load_ablation(file), file, home)
    assert [(arm.name, arm.seed) for arm in arms] == [
        (name, seed) for seed in (3, 5) for name in ("base", "null", "control", "unmasked")
    ]
    own = {(arm.name, arm.seed): load_diet(arm.config.specialist, home=home) for arm in arms}
    base = own["base", 3]
    assert base.seed == base.order_seed == 3
    assert {diet.budget_unit for diet in own.values()} == {"positions"}
    assert own["null", 3].seed == 3
    assert own["null", 3].order_seed == 3 + NULL_ORDER
    assert own["unmasked", 5].study is not None
    for diet in own.values():
        assert diet.phases == base.phases
        assert all(not phase.require and phase.advance_when is None for phase in diet.phases)
    control = next(arm for arm in arms if arm.name == "control")
    assert control.config.mix.token_budget == str(base.token_budget // CONTROL_SHARE)


def test_paths_of_an_arm_are_relative_to_the_ablation(tmp_path: Path) -> None:
    phases = Path("curriculum/phases.demo.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(phases)
    file = ablation(tmp_path, arms={"unmasked": {**UNMASKED, "phases_file": "./mine.yaml"}})
    arms = write_arms(load_ablation(file), file, tmp_path / "home")
    diet = load_diet(arms[3].config.specialist, home=tmp_path / "home")
    assert Path(diet.phases_file) == tmp_path / "mine.yaml"


def test_the_diet_of_an_ablation_may_extend_another(tmp_path: Path) -> None:
    own = {"extends": "templates", "specialist": "mine", "token_budget": "150M"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(own))
    file = ablation(tmp_path, diet="./mine.yaml")
    for arm in write_arms(load_ablation(file), file, tmp_path / "home"):
        diet = load_diet(arm.config.specialist, home=tmp_path / "home")
        assert (diet.extends, diet.specialist, diet.token_budget) == (None, "mine", 150_000_000)
        assert [phase.phase for phase in diet.phases] == [
            phase.phase for phase in load_diet("templates").phases
        ]


def test_a_diet_with_a_trainer_of_its_own_is_no_ablation(tmp_path: Path) -> None:
    own = {"extends": "templates.demo", "branch": "mine", "trainer": {"command": "touch x {job}"}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(own))
    file = ablation(tmp_path, diet="./mine.yaml")
    assert load_diet(str(tmp_path / "mine.yaml")).trainer is not None, "the diet alone would run it"
    with pytest.raises(DietError, match="trainer"):
        write_arms(load_ablation(file), file, tmp_path / "home")
    assert not [*(tmp_path / "home").rglob("*.yaml")]


@pytest.mark.parametrize("field", ["seed", "branch", "specialist", "extends"])
def test_an_arm_gives_no_field_that_the_ablation_gives(tmp_path: Path, field: str) -> None:
    file = ablation(tmp_path, arms={"unmasked": {field: 1}})
    with pytest.raises(DietError) as refused:
        write_arms(load_ablation(file), file, tmp_path / "home")
    assert refused.value.value == field


@pytest.mark.parametrize(
    "wrong",
    [
        {"seeds": [1]},
        {"seeds": [1, 1]},
        {"arms": {}},
        {"arms": {"null": {}}},
        {"claims": []},
        {"claims": [{"claim": "x", "arm": "base"}]},
        {"claims": [{"claim": "x", "arm": "missing"}]},
        {"claims": [{"claim": "x", "arm": "unmasked", "delta": 0}]},
        {"claims": [{"claim": "x", "arm": "unmasked", "set": "phase"}]},
        {"arms": {"unmasked": {"phases": 3}}},
        {"arms": {"unmasked": {"phases": None}}},
        {"arms": {"unmasked": {"phases": [3, None]}}},
        {"arms": {"unmasked": {"study": 7}}},
        {"arms": {"unmasked": {"trainer": {"command": "touch x {job}"}}}},
        {"arms": {"unmasked": UNMASKED, **{f"a{number}": {} for number in range(MAX_ARMS)}}},
        {"seeds": [*range(MAX_SEEDS + 1)]},
        {"seeds": [1, MAX_SEED + 1]},
    ],
)
def test_an_ablation_that_says_nothing_is_refused(tmp_path: Path, wrong: object) -> None:
    with pytest.raises(DietError):
        load_ablation(ablation(tmp_path, **wrong))  # type: ignore[arg-type]


def test_a_claim_about_itself_is_refused() -> None:
    with pytest.raises(ValidationError):
        AblationSpec.model_validate(
            {
                "name": "a",
                "diet": "templates.demo",
                "arms": {"b": {}},
                "seeds": [1, 2],
                "claims": [{"claim": "x", "arm": "b", "against": "b"}],
            }
        )
