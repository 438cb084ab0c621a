"""An error says what, why and how to mend it, wherever it is raised."""

import pickle

import pytest

import schemas.errors
from schemas.errors import CurriculumError, SchemaError

KINDS = [
    kind
    for kind in vars(schemas.errors).values()
    if isinstance(kind, type) and issubclass(kind, CurriculumError)
]


def test_the_message_reads_name_value_cause_cure() -> None:
    error = SchemaError("row 17", "doc_ids falls", cause="ids never fall", cure="Build again")
    assert str(error) == "row 17: doc_ids falls; ids never fall. Build again"


def test_a_missing_value_leaves_no_gap() -> None:
    assert str(SchemaError("x.yaml", cause="it is empty", cure="Fill it")) == (
        "x.yaml: it is empty. Fill it"
    )


def test_a_long_part_is_shown_in_its_first_characters_and_kept_whole() -> None:
    long = "x" * 10_000_000
    error = SchemaError(long, long, cause=long, cure="Build again")
    assert len(str(error)) < 31_000
    assert str(error).endswith("9,990,000 more characters). Build again")
    assert {error.name, error.value, error.cause} == {long}


@pytest.mark.parametrize("part", ["name", "value", "cause", "cure"])
def test_a_part_begins_no_line_and_lines_do(part: str) -> None:
    forged = {
        "name": "n",
        "value": "v",
        "cause": "c",
        "cure": "u",
        part: "a\nerror: b\x1b[31m\u2028",
    }
    error = SchemaError(
        forged["name"],
        forged["value"],
        cause=forged["cause"],
        cure=forged["cure"],
        lines=("step 3", "c\nd"),
    )
    first, *more = str(error).splitlines()
    assert "a\\nerror: b\\x1b[31m\\u2028" in first
    assert more == ["step 3", "c\\nd"]
    assert pickle.loads(pickle.dumps(error)).lines == ("step 3", "c\nd")


@pytest.mark.parametrize("kind", KINDS)
def test_errors_cross_processes_whole(kind: type[CurriculumError]) -> None:
    error = pickle.loads(pickle.dumps(kind("name", 3, cause="because", cure="Do that")))
    assert type(error) is kind
    assert (error.name, error.value, error.cause, error.cure) == ("name", 3, "because", "Do that")


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert schemas.errors.__doc__
    assert len(KINDS) > 5
    assert [kind.__name__ for kind in KINDS if kind.__name__ not in schemas.errors.__doc__] == []
