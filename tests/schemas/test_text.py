"""Hostile YAML: every mistake has a file, a line, a field, a value and a cure."""
# ruff: noqa: E501 -- messages are told whole

import os
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from schemas.corpus import CorpusSpec
from schemas.diet import Diet, PhasesSpec, token_count
from schemas.errors import CorpusError, CurriculumError, DietError
from schemas.mistakes import MAX_FAULTS, nearest
from schemas.text import DEEPEST, MAX_TEXT, line_of, parse, read_yaml

DIET = """\
specialist: templates
corpus: sample
model: tiny
token_budget: 10M
phases:
  - phase: syntax
    portion: 0.9
    servings:
      - {family: v3_simple, share: 0.5}
      - {family: v2_simple, share: 0.5}
anneal: {portion: 0.1}
"""


def said(text: str) -> str:
    with pytest.raises(DietError) as caught:
        parse(Diet, text, file="d.yaml", error=DietError)
    return str(caught.value)


def test_the_diet_that_the_others_break_is_whole() -> None:
    diet = parse(Diet, DIET, file="d.yaml", error=DietError)
    assert (diet.token_budget, len(diet.phases[0].servings)) == (10_000_000, 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model: tiny", "modle: tiny", "d.yaml:3: modle = 'tiny'; unknown field. Did you mean 'model'?"),
        ("v3_simple", "v3_smple", "d.yaml:9: phases.0.servings.0.family = 'v3_smple'; this value is not allowed. Did you mean 'v3_simple'?"),
        ("v3_simple, share: 0.5", "v3_simple, share: 0.4", "d.yaml:9: share on lines 9, 10; "),
        ("v3_simple, share: 0.5", "v3_simple, share: 0.4", "the shares of syntax sum to 0.9 instead of 1. Change one by +0.1"),
        ("portion: 0.9", "portion: 0.7", "the portions sum to 0.8 instead of 1 (including anneal). Change one by +0.2"),
        ("portion: 0.9", "portion: .nan", "d.yaml:7: phases.0.portion = nan; Input should be a finite number. Write a finite number"),
        ("portion: 0.9", "portion: .inf", "d.yaml:7: phases.0.portion = inf"),
        ("portion: 0.9", "portion: 1e999", "d.yaml:7: phases.0.portion = inf"),
        ("portion: 0.9", "portion: -0.9", "d.yaml:7: phases.0.portion = -0.9; Input should be greater than or equal to 0.000001. Raise it"),
        ("portion: 0.9", "portion: true", "d.yaml:7: phases.0.portion = true; true and false are not numbers. Write a number"),
        ("portion: 0.9", "portion: much", "d.yaml:7: phases.0.portion = 'much'; it is not a number. Write a number"),
        ("portion: 0.9", "portion: [0.9]", "d.yaml:7: phases.0.portion = [0.9]; it is not a number. Write a number"),
        ("10M", "-5", "d.yaml:4: token_budget = -5; Input should be greater than 0. Raise it"),
        ("10M", "10Q", "d.yaml:4: token_budget = '10Q'; this is not a token count. Write 10B, 500M or 10_000_000_000"),
        ("10M", "1.5", "d.yaml:4: token_budget = 1.5; this is not a token count"),
        ("10M", "9" * 500 + "B", "d.yaml:4: token_budget = '9999"),
        ("10M", "9" * 5000, "d.yaml:4: token_budget = '9999"),
        ("10M", "99999999999T", "d.yaml:4: token_budget = '99999999999T'"),
        ("10M", "12:30", "d.yaml:4: token_budget = '12:30'"),
        ("10M", "", "d.yaml:4: token_budget = nothing"),
        ("corpus: sample", "corpus: 17", "d.yaml:2: corpus = 17; it is not a text. Put it in quotes"),
        ("specialist: templates", "specialist: ../../etc", "d.yaml:1: specialist = '../../etc'; it has characters that a name can't have. Write etc"),
        ("family: v3_simple", "row_length: 1000, family: v3_simple", "d.yaml:9: phases.0.servings.0.row_length = 1000; Input should be a multiple of 128. Round it"),
        ("family: v3_simple", "domains: [x], family: v3_simple", "d.yaml:9: phases.0.servings.0.domains = [x]"),
        ("phases:", "phases: {}\nphase:", "d.yaml:5: phases = {}; it is not a list. Write a list"),
        ("- phase: syntax", "- phase: syntax\n    phase: edits", "d.yaml:7: the key 'phase' occurs twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_line_field_value_and_cure(old: str, new: str, message: str) -> None:
    assert old in DIET
    found = said(DIET.replace(old, new, 1))
    assert message in found
    assert re.match(r"d\.yaml:\d+: .+; .+\. .+", found)


def test_a_field_that_is_missing_is_named_with_the_line_of_what_lacks_it() -> None:
    assert said(DIET.replace("    portion: 0.9\n", "")).startswith(
        "d.yaml:6: phases.0.portion is missing; "
    )


def test_all_mistakes_are_told_at_once_a_line_each_and_no_more_than_help() -> None:
    found = said(DIET.replace("model", "modle").replace("v3_simple", "v3").replace("10M", "x"))
    assert len(found.splitlines()) == 3
    many = said(DIET + "".join(f"field_{at}: 1\n" for at in range(500)))
    assert len(many.splitlines()) == MAX_FAULTS


def test_what_follows_from_a_mistake_is_not_told() -> None:
    found = said(DIET.replace("share: 0.5", "share: x", 1))
    assert "sum to" not in found
    assert len(found.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x", "d.yaml:2: YAML aliases are not supported"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]", "d.yaml:2: YAML aliases are not supported"),
        ("base: &b {a: 1}\nc:\n  <<: *b", "d.yaml:3: YAML aliases are not supported"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", "d.yaml:2: the YAML tag tag:yaml.org,2002:python"),
        ("a: !!bool maybe", "d.yaml:1: the YAML tag tag:yaml.org,2002:bool is not supported"),
        ("a: !!timestamp x", "d.yaml:1: the YAML tag tag:yaml.org,2002:timestamp is not supported"),
        ("a: 1\nb: 2\na: 3", "d.yaml:3: the key 'a' occurs twice"),
        ("? [a, b]\n: 1", "d.yaml:1: a field name must be a single word"),
        ("? {a: b}\n: 1", "d.yaml:1: a field name must be a single word"),
        ("a: " + "[" * 10_000, "d.yaml:1: more than 20 levels of nesting"),
        ("a: " + "{a: " * 10_000, "d.yaml:1: more than 20 levels of nesting"),
        ("a:\n\t- 1", "d.yaml:2: found character '\\t' that cannot start any token; the file is not valid YAML. Indent with spaces, not tabs"),
        ("a: 1\nb: \x00", "d.yaml:2: unacceptable character #x0000"),
        ("a: 1\nb: 'x\nc: 2", "d.yaml:2: a quote isn't closed (found on line 3)"),
        ("a: {b: 1", "d.yaml:1: a { isn't closed, or a comma is missing; the file is not valid YAML. Close it with }"),
        ("a: 1\n---\nb: 1", "d.yaml:2: but found another document"),
        ("- a\n- b", "d.yaml:1: - a"),
        ("# only a word\njust text", "d.yaml:2: # only a word"),
        ("", "d.yaml:1: nothing; a configuration file is a mapping of fields"),
        ("x" * (MAX_TEXT + 1), "d.yaml: 1000001 characters; a configuration file has at most 1000000"),
    ],
)  # fmt: skip
def test_yaml_that_surprises_or_blows_up_is_refused_with_its_line(text: str, message: str) -> None:
    assert said(text).startswith(message)


def test_a_plain_loader_of_yaml_takes_aliases_and_runs_tags() -> None:
    """The control of the test above."""
    assert yaml.safe_load("a: &x [1]\nb: *x") == {"a": [1], "b": [1]}
    run = "!!python/object/apply:os.getpid []"
    assert yaml.load(run, Loader=yaml.UnsafeLoader) == os.getpid()


def test_a_hundred_thousand_unknown_fields_do_not_hang() -> None:
    found = said("".join(f"f{at}: 1\n" for at in range(20_000)))
    assert len(found.splitlines()) == MAX_FAULTS


def test_nesting_up_to_the_limit_is_read() -> None:
    levels = DEEPEST - 2
    text = "a: " + "[" * levels + "]" * levels
    assert read_yaml(text, file="d.yaml", error=DietError).content["a"]


def test_words_that_yaml_used_to_turn_into_something_else_stay_words() -> None:
    text = "a: no\nb: 010\nc: 12:30\nd: 2020-01-01\ne: on\nf: 1_000\ng: 1e-3\nh: true\ni: ~\n3: x\nj: 08\nk: .5\nl: -7"
    found = read_yaml(text, file="d.yaml", error=DietError).content
    assert found == {
        "a": "no",
        "b": "010",
        "c": "12:30",
        "d": "2020-01-01",
        "e": "on",
        "f": 1000,
        "g": 0.001,
        "h": True,
        "i": None,
        "3": "x",
        "j": "08",
        "k": 0.5,
        "l": -7,
    }


@given(st.text(max_size=300) | st.text(alphabet="ab:-[]{}#&*!|>'\"%@`\n\t ?,0.", max_size=60))
def test_any_text_is_a_diet_or_an_error_of_ours(text: str) -> None:
    with pytest.raises(DietError):
        parse(Diet, text, file="d.yaml", error=DietError)


@given(
    st.integers(0, len(DIET) - 1),
    st.text(alphabet="ab:-[]{}#&*!|>'\"\n\t ?,0.", min_size=1, max_size=4),
    st.integers(0, 12),
)
def test_a_broken_diet_is_an_error_of_ours_that_names_the_file(
    at: int, inserted: str, dropped: int
) -> None:
    text = DIET[:at] + inserted + DIET[at + dropped :]
    try:
        parse(Diet, text, file="d.yaml", error=DietError)
    except CurriculumError as error:
        assert str(error).startswith("d.yaml")  # noqa: PT017 -- most, not all, of them are errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("syntax: {rope_bsae: 3, row_length: 512, families: [v2_simple]}", "p.yaml:1: syntax.rope_bsae = 3; unknown field. Did you mean 'rope_base'?"),
        ("syntax:\n  row_length: 4095\n  families: [v2_simple]", "p.yaml:2: syntax.row_length = 4095; Input should be a multiple of 128. Round it"),
        ("syntax:\n  row_length: []\n  families: [v2_simple]", "p.yaml:2: syntax.row_length = []"),
        ("syntax:\n  row_length: 512\n  families: []", "p.yaml:3: syntax.families = []"),
        ("a/b: {row_length: 512, families: [v2_simple]}", "p.yaml:1: a/b = 'a/b'; it has characters that a name can't have. Write a-b"),
        ("anneal: {row_length: 512, families: [v2_simple]}", "anneal is reserved for the final decay job. Choose another name for the phase"),
        ("later: {row_length: 512, families: [v2_simple]}", "later is reserved for a validation set. Choose another name for the phase"),
        ("syntax: 3", "p.yaml:1: syntax = 3; it is not a mapping of fields. Write {row_length: 3}"),
    ],
)  # fmt: skip
def test_mistakes_in_a_phases_file_are_told_as_well(text: str, message: str) -> None:
    with pytest.raises(DietError) as caught:
        parse(PhasesSpec, text, file="p.yaml", error=DietError)
    assert message in str(caught.value)


def test_mistakes_in_a_corpus_file_are_told_as_well() -> None:
    text = "name: a\nrepositories:\n  - {name: x, path: y, commit: 1234567}\n  - {nam: y, path: z}"
    with pytest.raises(CorpusError) as caught:
        parse(CorpusSpec, text, file="c.yaml", error=CorpusError)
    assert str(caught.value).splitlines() == [
        "c.yaml:3: repositories.0.commit = 1234567; it is not a text. Put it in quotes",
        "c.yaml:4: repositories.1.nam = 'y'; unknown field. Did you mean 'name'?",
    ]


def test_a_field_is_found_on_its_line() -> None:
    def line(*location: int | str) -> int:
        return line_of(DIET, location, file="d.yaml", error=DietError)

    assert line("model") == 3
    assert line("phases", 0, "servings", 1) == 10
    assert line("phases", 0, "servings", 1, "row_length") == 10
    assert line("nowhere") == 1


def test_the_likely_name_is_offered_and_else_all() -> None:
    assert nearest("synatx", ["syntax", "structure"]) == "Did you mean 'syntax'?"
    assert nearest("x", ["syntax", "structure"]) == "Available: syntax, structure"
    assert nearest("x", []) == "Available: none"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10B", 10**10),
        ("500M", 5 * 10**8),
        ("1.5K", 1500),
        ("10.1B", 10_100_000_000),
        ("10_000", 10_000),
        ("7", 7),
        (" 2T ", 2 * 10**12),
        (17, 17),
    ],
)
def test_token_counts_are_exact(text: object, count: int) -> None:
    assert token_count(text) == count
