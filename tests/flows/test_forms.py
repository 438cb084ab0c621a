"""Forms: dropdowns, help texts, and fields that the flow uses. Names of runs."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from jsonschema import ValidationError as ValidationFault
from prefect import Flow, runtime
from prefect.utilities.callables import parameter_schema
from prefect.utilities.names import generate_slug
from prefect.utilities.schema_tools.validation import preprocess_schema, validate
from pydantic import ValidationError

from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import COMMON_FIELDS, GROUPS, RunConfig
from flows import forms
from flows.ablate import ablate
from flows.build import build
from flows.forms import ADVANCED, ALL_PHASES, Changes
from flows.hooks import is_made_up, run_name
from flows.mix import mix
from flows.run import run
from flows.server.supervisor import FormChoices
from flows.train import train
from schemas.errors import DietError

FLOWS = (build, mix, train, run)
OWN_DIET = "extends: templates.demo\nbranch: {name}\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with a diet, a corpus, phases and a branch of its own."""
    monkeypatch.setenv("CURRICULUM_HOME", str(tmp_path))
    for folder in ("diets", "corpora", "phases", "runs/specialist-templates/branch-narrow"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "diets" / "ours.yaml").write_text(OWN_DIET.format(name="ours"))
    (tmp_path / "corpora" / "nearby.yaml").write_text(
        "name: nearby\nrepositories: [{name: a, path: a}]\n"
    )
    (tmp_path / "phases" / "short.yaml").write_text(
        "talk: {row_length: 128, families: [v2_simple]}\n"
    )
    return tmp_path


def _form(flow: Flow[..., Any]) -> dict[str, Any]:
    """The form of a flow as a deployment that is made now would have it."""
    return parameter_schema(flow).model_dump()


def _names(field: dict[str, Any]) -> list[str]:
    """The names that a field offers, alone or beside another text."""
    found: list[str] = field.get("enum") or field["anyOf"][0]["enum"]
    return found


def _changes(form: dict[str, Any]) -> dict[str, Any]:
    """The fields of the changes, those of the Advanced group with the others."""
    usual, advanced = _box(form), _advanced(form)["properties"]
    assert not {*usual} & {*advanced}
    return {**{name: field for name, field in usual.items() if name != ADVANCED}, **advanced}


def _box(form: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = form["properties"]["changes"]["properties"]
    return found


def _advanced(form: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = _box(form)[ADVANCED]
    return found


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_form_offers_names_and_explains_every_field(flow: Flow[..., Any], home: Path) -> None:
    form = _form(flow)
    fields, changes = form["properties"], _changes(form)
    assert [*fields][:2] == ["specialist", "phase"]
    assert [*fields][-1] == "changes"
    names = _names(fields["specialist"])
    assert {"templates", "templates.demo", "ours"} <= {*names}
    assert fields["phase"]["enum"][0] == ALL_PHASES == fields["phase"]["default"]
    assert {"syntax", "repository_graph", "talk"} < {*fields["phase"]["enum"]}
    assert form["required"] == ["specialist"]
    for each in (*fields.values(), *changes.values(), _advanced(form)):
        if "$ref" not in each:
            assert each["description"][0].isupper() or each["description"].startswith(ALL_PHASES)
            assert each["title"][0].isupper()
    assert names[0] == "ours", "what is one's own comes first"
    assert changes["corpus"]["enum"] == ["nearby", "cpp", "sample"]
    assert changes["phases_file"]["enum"] == ["short", "phases", "phases.demo", "phases.long"]


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_an_empty_box_is_empty_not_a_choice_between_a_type_and_nothing(
    flow: Flow[..., Any], home: Path
) -> None:
    form = _form(flow)
    for name, field in _changes(form).items():
        assert "default" not in field
        assert {"type": "null"} not in field.get("anyOf", ())
        assert "anyOf" not in field or name == "branch", "a toggle"
    assert form["properties"]["changes"]["default"] == {}


def test_a_form_offers_only_what_its_flow_heeds() -> None:
    shown = {flow.name: {*_changes(_form(flow))} for flow in FLOWS}
    assert shown["run"] == shown["train"] == {*Changes.model_fields}
    assert shown["build"] < shown["mix"] < shown["run"]
    assert not {"seed", "token_budget", "model", "log", "at_step"} & shown["build"]
    assert {"corpus", "row_length", "tokenizer", "workers"} <= shown["build"]
    of_training = {"processes", "context_parallel", "recompute", "loader_workers", "log"}
    assert {*Changes.model_fields} - shown["mix"] == of_training


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_what_is_rarely_set_lies_folded_in_one_group_at_the_end(flow: Flow[..., Any]) -> None:
    form = _form(flow)
    *shown, last = _box(form)
    assert (shown, last) == ([name for name in COMMON_FIELDS if name in shown], ADVANCED)
    closed, opened = _advanced(form)["anyOf"]
    assert not closed.get("properties"), "the tab that is open at first shows no field"
    assert opened["properties"] == _advanced(form)["properties"]
    assert len(form["properties"]) + len(shown) <= 11


def test_a_form_and_the_command_line_fill_the_same_fields(home: Path) -> None:
    filled = {"token_budget": "10K", "advanced": {"seed": 5, "workers": 2}}
    changes = Changes.model_validate(filled)
    assert changes == Changes(token_budget="10K", seed=5, workers=2)
    assert changes.model_dump(mode="json", exclude_defaults=True) == filled
    assert Changes.model_validate({"advanced": None}) == Changes()
    with pytest.raises(ValidationError, match="seeds"):
        Changes.model_validate({"advanced": {"seeds": 5}})


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
def test_a_form_never_mentions_the_command_line(flow: Flow[..., Any], home: Path) -> None:
    assert not re.findall(r"command line|--[a-z]", json.dumps(_form(flow)))


def test_every_form_has_a_dry_run_that_is_off_at_first() -> None:
    for flow in FLOWS:
        switch = _form(flow)["properties"]["dry_run"]
        assert (switch["type"], switch["default"]) == ("boolean", False)


def test_training_takes_the_diet_of_an_ablations_arm_and_no_other_path(home: Path) -> None:
    form = preprocess_schema(_form(train))
    arm = str(home / "diets" / "ablation-small" / "flat-2.yaml")

    def faults(specialist: str) -> list[ValidationFault]:
        return validate({"specialist": specialist}, form, preprocess=False)

    assert faults(arm) == faults("ours") == []
    for other in ("nobody", str(home / "diets" / "ours.yaml"), f"{arm}.txt"):
        assert faults(other)


def test_an_ablation_is_a_file_of_the_workspace_or_another_one(home: Path) -> None:
    assert "anyOf" not in _form(ablate)["properties"]["file"]
    (home / "ablations").mkdir()
    (home / "ablations" / "masks.yaml").write_text("name: masks\nclaims: []\n")
    (home / "ablations" / "diet.yaml").write_text("specialist: small\n")
    form = _form(ablate)
    assert _names(form["properties"]["file"]) == ["ablations/masks.yaml"]
    assert [*form["properties"]] == ["file", "repositories"]
    assert form["required"] == ["file"]
    schema = preprocess_schema(form)

    def faults(**filled: object) -> list[ValidationFault]:
        return validate(filled, schema, preprocess=False)

    assert faults(file="ablations/masks.yaml", repositories=["/src/mylib"]) == []
    assert faults(file="/elsewhere/small.yml") == []
    for wrong in ("/etc/passwd", "masks", ""):
        assert faults(file=wrong)
    assert faults(file="a.yaml", repositories=[3])
    assert faults()


def test_the_run_of_an_ablation_is_named_after_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"file": "ablations/masks.yaml", "repositories": ()}
    monkeypatch.setattr(runtime.flow_run, "parameters", given, raising=False)
    monkeypatch.setattr(runtime.flow_run, "flow_name", "ablate", raising=False)
    monkeypatch.setattr(runtime.flow_run, "name", "amber-goat", raising=False)
    assert run_name() == "ablate masks"


def test_a_branch_is_one_that_is_there_or_a_new_one(home: Path) -> None:
    known, new = _changes(_form(run))["branch"]["anyOf"]
    assert known["enum"] == ["narrow"]
    assert (new["type"], "enum" in new) == ("string", False)
    (home / "runs/specialist-templates/branch-narrow").rmdir()
    assert "anyOf" not in _changes(_form(run))["branch"]


@pytest.mark.parametrize(
    "added", ["runs/specialist-templates/branch-wide/x", "diets/more.yaml", "ablations/more.yaml"]
)
def test_forms_are_made_anew_once_an_added_choice_stays(added: str, home: Path) -> None:
    seen = FormChoices(workspace=home)
    seen.mark_deployed()
    assert not seen.have_changed()
    (home / added).parent.mkdir(parents=True, exist_ok=True)
    (home / added).write_text("")
    assert [seen.have_changed() for _ in range(3)] == [False, True, False]


def test_a_broken_file_takes_only_its_own_phases_away(home: Path) -> None:
    whole = forms.phases()
    (home / "phases" / "broken.yaml").write_text("talk: [")
    assert forms.phases() == whole
    assert "broken" in forms.phases_files()


@pytest.mark.parametrize(
    ("filled", "fault"),
    [
        ({"specialist": "nobody"}, "nobody"),
        ({"specialist": "ours", "phase": "later"}, "later"),
        ({"specialist": "ours", "changes": {"corpus": "elsewhere"}}, "elsewhere"),
        ({"specialist": "ours", "changes": {"colour": "red"}}, "colour"),
        ({"specialist": "ours", "changes": {"seed": 5}}, "seed"),
        ({"specialist": "ours", "changes": {"advanced": {"model": "tiny"}}}, "model"),
        ({"phase": "syntax"}, "specialist"),
    ],
)
def test_a_form_refuses_what_names_nothing(filled: dict[str, Any], fault: str, home: Path) -> None:
    form = preprocess_schema(_form(run), allow_none_with_default=True)
    jsonschema.validate({"specialist": "ours", "changes": {"token_budget": "10K"}}, form)
    with pytest.raises(jsonschema.ValidationError, match=fault):
        jsonschema.validate(filled, form)


@pytest.mark.parametrize(
    ("field", "wrong", "right"),
    [
        ("token_budget", "lots", "1.5M"),
        ("token_budget", "500 K", "10_000"),
        ("token_budget", "-1K", "0.5B"),
        ("max_commits", 0, 1),
        ("branch", "a/b", "narrow"),
        ("branch", "../x", "a-new.one"),
        ("row_length", 100, 256),
        ("row_length", 0, 128),
        ("max_repetition", 0, 0.5),
        ("max_repetition", "often", 2),
        ("seed", -1, 0),
        ("seed", "lucky", 7),
        ("workers", 0, 1),
        ("processes", 1.5, 2),
        ("versions_per_path", -2, 1),
        ("from_step", -1, 0),
    ],
)
def test_a_wrong_budget_or_number_is_refused_by_its_field(
    field: str, wrong: object, right: object, home: Path
) -> None:
    form = preprocess_schema(_form(run))
    path = ["changes", field] if field in COMMON_FIELDS else ["changes", ADVANCED, field]

    def faults(value: object) -> list[ValidationFault]:
        box = {field: value} if field in COMMON_FIELDS else {ADVANCED: {field: value}}
        return validate({"specialist": "ours", "changes": box}, form, preprocess=False)

    assert {(*each.path,) for each in faults(wrong)} == {(*path,)}
    assert faults(right) == []


def test_changes_are_the_fields_of_a_configs_groups() -> None:
    fields = [name for _, group in GROUPS for name in group.model_fields]
    assert sorted(fields) == sorted(Changes.model_fields)
    usual = RunConfig.of(specialist="templates", workspace=Path("home"))
    assert usual == RunConfig.of(specialist="templates", workspace=Path("home"), **dict(Changes()))
    assert not [*usual.changes()]
    changed = usual.changed(seed=5, repositories=("a",), configure=True)
    assert dict(changed.changes()) == {"seed": 5, "repositories": ("a",), "configure": True}


def test_a_config_refuses_what_its_field_does_not_allow_by_its_option() -> None:
    with pytest.raises(DietError, match="--processes: 0"):
        RunConfig.of(specialist="templates", workspace=Path("home"), processes=0)
    with pytest.raises(TypeError, match="colour"):
        RunConfig.of(specialist="templates", workspace=Path("home"), colour="red")


def test_a_branch_that_is_given_stands_in_place_of_the_diets(home: Path) -> None:
    plan = resolve_plan(RunConfig.of(specialist="ours", workspace=home, branch="other"), dry=True)
    assert plan.mark_of("runs", "syntax") == "runs+templates@other+syntax"
    with pytest.raises(DietError, match="--branch"):
        resolve_plan(RunConfig.of(specialist="ours", workspace=home, branch="a/b"), dry=True)


@pytest.mark.parametrize(
    ("flow", "filled", "name"),
    [
        ("run", {"phase": "all"}, "run ours all"),
        ("run", {"phase": "syntax", "later_phases": True}, "run ours syntax and later phases"),
        ("train", {"phase": "syntax", "again": True}, "train ours syntax anew"),
        (
            "mix",
            {"changes": Changes(token_budget="10K", repositories=("a", "b"), configure=True)},
            "mix ours all, repositories=a b, configure, token_budget=10K",
        ),
        ("run", {"changes": {"without_rows": "x" * 99}}, f"run ours all, without_rows={'x' * 39}…"),
    ],
)
def test_a_runs_name_tells_what_ran(
    flow: str, filled: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"specialist": "ours", "phase": "all", "changes": {}, **filled}
    monkeypatch.setattr(runtime.flow_run, "parameters", given, raising=False)
    monkeypatch.setattr(runtime.flow_run, "flow_name", flow, raising=False)
    for made_up in ("amber-goat", "Rustic-Akita", "", name):
        monkeypatch.setattr(runtime.flow_run, "name", made_up, raising=False)
        assert run_name() == name


@pytest.mark.parametrize("typed", ["second-try", "Wider rows", "rows-2048", "Small-model"])
def test_a_name_that_somebody_typed_stays(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"specialist": "ours", "phase": "all", "changes": {}}
    monkeypatch.setattr(runtime.flow_run, "parameters", given, raising=False)
    monkeypatch.setattr(runtime.flow_run, "flow_name", "run", raising=False)
    monkeypatch.setattr(runtime.flow_run, "name", typed, raising=False)
    assert run_name() == typed


def test_names_that_the_server_makes_up_are_known() -> None:
    assert all(is_made_up(generate_slug(2)) for _ in range(200))


def test_every_flow_is_named_so() -> None:
    assert {flow.flow_run_name for flow in (*FLOWS, ablate)} == {run_name}
    for flow in FLOWS:
        assert {"specialist", "phase", "changes"} <= {*inspect.signature(flow.fn).parameters}
