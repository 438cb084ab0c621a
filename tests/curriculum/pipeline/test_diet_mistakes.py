"""Mistakes in a diet: each is named by file and line, with its cause and what was likely meant."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from curriculum.mixing.load import DIETS
from curriculum.pipeline.config import RunConfig
from curriculum.pipeline.plan import resolve_plan
from schemas.errors import CurriculumError

DIET = """\
specialist: mine
phases_file: phases.demo
corpus: sample
model: tiny
token_budget: 400k
phases:
  - phase: syntax
    portion: 0.5
    servings:
      - {family: v2_simple, share: 0.6}
      - {family: v3_simple, share: 0.4}
  - phase: file_graph
    portion: 0.5
    servings:
      - {family: v4_context_graph, share: 1.0}
"""


def _error(tmp_path: Path, text: str) -> str | None:
    file = tmp_path / "diet.yaml"
    file.write_text(text)
    try:
        resolve_plan(RunConfig.of(specialist=str(file), workspace=tmp_path / "w"), dry=True)
    except CurriculumError as wrong:
        return str(wrong).replace(f"{tmp_path}/", "")
    return None


def test_a_whole_diet_is_read_and_our_own_spelling_of_thousands_too(tmp_path: Path) -> None:
    assert _error(tmp_path, DIET) is None


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("share: 0.6", "weight: 0.6", 10, "Did you mean 'share'?"),
        ("share: 0.6", "ratio: 0.6", 10, "Did you mean 'share'?"),
        ("share: 0.6", "Share: 0.6", 10, "Did you mean 'share'?"),
        ("share: 0.6", "share: 0,6", 10, "Write a point: share: 0.6"),
        ("portion: 0.5", "portion: 0,5", 8, "Write 0.5"),
        ("share: 0.6", "share: 60%", 10, "Write 0.6"),
        ("share: 0.6", "share: '0.6'", 10, "Write 0.6"),
        ("share: 0.6", "share: most", 10, "Write a number"),
        ("share: 0.6", "share: true", 10, "true and false are no numbers"),
        ("share: 0.4", "share: -0.4", 11, "Raise it"),
        ("share: 0.6", "share: 0.7", 10, "lines 10, 11; the shares of syntax sum to 1.1"),
        ("portion: 0.5", "portion: 0.6", 8, "lines 8, 13; the portions sum to 1.1"),
        ("v2_simple", "V2_simple", 10, "Did you mean 'v2_simple'?"),
        ("v2_simple", "v2_simpel", 10, "Did you mean 'v2_simple'?"),
        ("specialist:", "Specialist:", 1, "Did you mean 'specialist'?"),
        ("token_budget:", "budget:", 5, "Did you mean 'token_budget'?"),
        ("model: tiny", "model: tinny", 4, "Did you mean 'tiny'?"),
        ("corpus: sample", "corpus: sampel", 3, "Did you mean 'sample'?"),
        ("phases.demo", "phases.dmo", 2, "Did you mean 'phases.demo'?"),
        ("file_graph", "file_grap", 12, "Did you mean 'file_graph'?"),
        ("share: 0.6}", "share: 0.6, objective: casual}", 10, "Did you mean 'causal'?"),
        ("share: 0.6}", "share: 0.6", 10, "a { isn't closed"),
        ("specialist: mine", "specialist: [mine", 1, "a [ isn't closed"),
        ("    portion: 0.5", "   portion: 0.5", 8, "its indent"),
        ("    portion: 0.5", "\tportion: 0.5", 8, "Indent with spaces, not tabs"),
        ("model: tiny", "model tiny", 4, "a name has no colon"),
        ("model: tiny", "model: tiny\nmodel: 60m", 5, "stands twice"),
        ("model: tiny", "model: tiny\nrequire: leakcheck", 5, "a field of phases: move it there"),
        ("token_budget: 400k", "token_budget: lots", 5, "Write 10B, 500M"),
        ("    portion: 0.5\n", "", 7, "portion is missing"),
        ("specialist: mine", "specialist: [mine]", 1, "string"),
        ("token_budget: 400k", "token_budget: 400k\nanneal: 0.5", 6, "Write fields"),
        ("share: 0.6}", "share: 0.6, domains: {testng: 2.0}}", 10, "Did you mean 'testing'?"),
    ],
)
def test_a_mistake_is_named_by_its_line_with_what_was_meant(
    tmp_path: Path, before: str, after: str, line: int, words: str
) -> None:
    assert before in DIET
    error = _error(tmp_path, DIET.replace(before, after, 1))
    assert error is not None
    (found,) = (each for each in error.splitlines() if words in each)
    assert found.startswith(f"diet.yaml:{line}: "), found
    assert "{'" not in error, "a dict of Python is no answer"


class Damage(NamedTuple):
    """A diet with one thing wrong, the line it is on, and the word that was there."""

    text: str
    line: int
    word: str


FREE = {"specialist", "why", "branch", "seed"}
"""Fields whose values nobody can call wrong."""


def _nodes(node: yaml.Node | None, field: str = "") -> Iterator[tuple[yaml.ScalarNode, str, bool]]:
    """Each scalar with its field, and True for a key."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key, key.value, True
            yield from _nodes(value, key.value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _nodes(value, field)
    elif isinstance(node, yaml.ScalarNode):
        yield node, field, False


def _cut(text: str, node: yaml.ScalarNode, word: str) -> Damage:
    begin, end = node.start_mark.index, node.end_mark.index
    damaged = text[:begin] + word + text[end:]
    return Damage(damaged, node.start_mark.line + 1, node.value)


def _typos(text: str) -> Iterator[Damage]:
    """Keys, and values that are names, with their third letter dropped."""
    for node, field, is_key in _nodes(yaml.compose(text)):
        value = node.value
        if len(value) > 3 and value[0].isalpha() and (is_key or field in {"family", "phase"}):
            yield _cut(text, node, value[:2] + value[3:])


def _scalars(text: str) -> Iterator[Damage]:
    """Values that are numbers, as a word."""
    for node, field, is_key in _nodes(yaml.compose(text)):
        if not is_key and field not in FREE and re.fullmatch(r"[0-9][0-9.]*[KMB]?", node.value):
            yield _cut(text, node, "some")


def _indents(text: str) -> Iterator[Damage]:
    """Lines with a space more before them."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            damaged = "".join([*lines[:index], f" {line}", *lines[index + 1 :]])
            yield Damage(damaged, index + 1, "")


@pytest.mark.parametrize("diet", sorted(DIETS.glob("*.yaml")), ids=lambda each: each.stem)
def test_damage_anywhere_in_a_shipped_diet_is_named_by_its_line(diet: Path, tmp_path: Path) -> None:
    text = diet.read_text()
    typos, numbers, indents = [*_typos(text)], [*_scalars(text)], [*_indents(text)]
    assert len(typos) > 5
    assert len(numbers) > 2
    first = 0
    for each in typos:
        error = _error(tmp_path, each.text)
        assert error is not None, each
        assert _is_near(error, each.line), (each.line, error)
        first += f"Did you mean {each.word!r}?" in error.splitlines()[0]
    assert first >= 0.8 * len(typos)
    for each in numbers:
        error = _error(tmp_path, each.text)
        assert error is not None, each
        assert _is_near(error, each.line), (each.line, error)
    for each in indents:
        error = _error(tmp_path, each.text)
        # An indent that changes nothing that is said, such as of all lines of a list, is no mistake.
        if error is None:
            assert yaml.safe_load(each.text) == yaml.safe_load(text) or "why" in each.text
        else:
            assert _is_near(error, each.line), (each.line, error)


def _is_near(error: str, line: int) -> bool:
    named = re.findall(r"(?:^diet\.yaml:|line )([0-9]+)", error, re.MULTILINE)
    return any(abs(int(each) - line) <= 1 for each in named)
