import jsonschema
import pytest

from schemas.diet import Diet
from schemas.json_schema import FOLDER, MODELS, schema_text

DIET = {
    "specialist": "templates",
    "corpus": "sample",
    "model": "tiny",
    "token_budget": "10M",
    "phases": [
        {"phase": "syntax", "portion": 1, "servings": [{"family": "v3_simple", "share": 1}]}
    ],
}


@pytest.mark.parametrize(("name", "model"), MODELS, ids=lambda value: str(value))
def test_the_schemas_are_those_of_the_models(name: str, model: type[Diet]) -> None:
    """Run `python -m schemas.json_schema` after a change of the models."""
    assert (FOLDER / f"{name}.schema.json").read_text() == schema_text(model)


def test_an_editor_accepts_what_the_parser_accepts_and_marks_what_it_refuses() -> None:
    diet = Diet.model_json_schema(mode="validation")
    check = jsonschema.Draft202012Validator(diet)
    assert check.is_valid(DIET)
    assert check.is_valid(DIET | {"token_budget": 10_000_000})
    wrongs: tuple[dict[str, object], ...] = (
        {"token_budget": "10Q"},
        {"modle": "tiny"},
        {"phases": []},
        {"seed": "x"},
    )
    for wrong in wrongs:
        assert not check.is_valid(DIET | wrong), wrong


def test_fields_carry_their_meaning() -> None:
    tokenizer = Diet.model_json_schema()["properties"]["tokenizer"]
    assert "byte-level BPE" in tokenizer["description"]


@pytest.mark.parametrize(("name", "model"), MODELS, ids=lambda value: str(value))
def test_every_field_says_what_it_means(name: str, model: type[Diet]) -> None:
    schema = model.model_json_schema(mode="validation")
    objects = {name: schema, **schema["$defs"]}
    fields = {
        f"{place}.{field}": said
        for place, each in objects.items()
        for field, said in each.get("properties", {}).items()
    }
    assert len(fields) >= 3
    assert [field for field, said in fields.items() if not said.get("description")] == []
