"""Mistakes in a diet: each is named by file and line, with its cause and what was likely meant."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from curriculum.mixing.diet_files import DIETS
from curriculum.pipeline.plan import resolve_plan
from curriculum.pipeline.run_config import RunConfig
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
        ("model: tiny", "model: tiny\nbackend: math", 5, "this value is not allowed"),
        ("model: tiny", "model: tiny\nsoftcap: 0", 5, "softcap"),
        ("model: tiny", "softcap: 50\nmodel: tiny\nbackend: sdpa", 6, "Choose math, documents or"),
        ("model: tiny", "softcap: 50\nmodel: tiny\nbackend: varlen", 6, "doesn't support softcap"),
        ("model: tiny", "model: tiny\nstudy: {document_mask: of}", 5, "Did you mean 'off'?"),
        ("model: tiny", "model: tiny\nstudy: {positions: contiue}", 5, "Did you mean 'continue'?"),
        ("model: tiny", "model: tiny\nstudy: {mask: off}", 5, "Did you mean 'document_mask'?"),
        ("model: tiny", "model: tiny\nstudy: {document_mask: false}", 5, "Available: on, off"),
        ("model: tiny", "model: tiny\nstudy: {document_mask: on}", 5, "Set document_mask: off"),
        ("model: tiny", "model: tiny\nstudy: {packer: chopp}", 5, "Did you mean 'chop'?"),
        ("model: tiny", "model: tiny\nstudy: {document_mask: {on_from: 2}}", 5, "Lower it"),
        (
            "model: tiny",
            "model: tiny\nstudy: {document_mask: {on_form: 0.5}}",
            5,
            "Did you mean 'on_from'?",
        ),
        (
            "model: tiny",
            "study: {document_mask: off}\nmodel: tiny\ntrainer: {command: 'mine {job}'}",
            4,
            "study: document_mask off; masks and positions are switched in our training loop",
        ),
        ("share: 0.6", "weight: 0.6", 10, "Did you mean 'share'?"),
        ("share: 0.6", "ratio: 0.6", 10, "Did you mean 'share'?"),
        ("share: 0.6", "Share: 0.6", 10, "Did you mean 'share'?"),
        ("share: 0.6", "share: 0,6", 10, "Write a decimal point: share: 0.6"),
        ("portion: 0.5", "portion: 0,5", 8, "Write 0.5"),
        ("share: 0.6", "share: 60%", 10, "Write 0.6"),
        ("share: 0.6", "share: '0.6'", 10, "Write 0.6"),
        ("share: 0.6", "share: most", 10, "Write a number"),
        ("share: 0.6", "share: {most: 1}", 10, "share = {most: 1}; it is not a number"),
        ("share: 0.6", "share: true", 10, "true and false are not numbers"),
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
        ("- {family: v2", "-{family: v2", 10, "a dash needs a space after it; the file is"),
        ("- {family: v3", "-{family: v3", 11, "Write - {family: …"),
        ("- phase: syntax", "-phase: syntax", 7, "Write - phase: …"),
        ("- phase: file_graph", "-phase: file_graph", 12, "a dash needs a space after it"),
        ("    portion: 0.5", "\tportion: 0.5", 8, "Indent with spaces, not tabs"),
        ("model: tiny", "model tiny", 4, "a field name needs a colon"),
        ("model: tiny", "model: tiny\nmodel: 60m", 5, "occurs twice"),
        ("model: tiny", "model: tiny\nrequire: leakcheck", 5, "a field of phases: move it there"),
        ("token_budget: 400k", "token_budget: lots", 5, "Write 10B, 500M"),
        ("    portion: 0.5\n", "", 7, "portion is missing"),
        ("specialist: mine", "specialist: [mine]", 1, "it is not a text"),
        ("token_budget: 400k", "token_budget: 400k\nanneal: 0.5", 6, "Write {portion: 0.5}"),
        ("share: 0.6}", "share: 0.6, domains: {testng: 2.0}}", 10, "Did you mean 'testing'?"),
        ("v2_simple", "V2_SIMPLE", 10, "Did you mean 'v2_simple'?"),
        ("v2_simple", "v2", 10, "Did you mean 'v2_simple' or 'v2_doxygen'?"),
        ("model: tiny", "model: Tiny", 4, "Did you mean 'tiny'?"),
        ("corpus: sample", "corpus: code.yaml", 3, "there is no such file"),
        ("model: tiny", "model: tiny\ntokenizer: corpsu", 5, "Did you mean 'corpus'?"),
        ("model: tiny", "model: tiny\ntokenizer: gpt2", 5, "Give the path of a tokenizer.json"),
        ("model: tiny", "model: tiny\nextends: templats", 5, "Did you mean 'templates'?"),
        ("share: 0.6}", "share: 0.6, repositories: [latice]}", 10, "Did you mean 'lattice'?"),
        ("share: 0.6}", "share: 0.6, repositories: lattice}", 10, "Write a list: [lattice]"),
        ("{family: v2_simple", "{imported: rows", 10, "no imported rows have that name"),
        ("share: 0.6", "share:0.6", 10, "Write share: 0.6"),
        ("share: 0.6}", "share: 0.6}}", 10, "a } has no matching"),
        ("v2_simple, share", "v2_simple share", 10, "a comma is missing"),
        ("{family: v2_simple", "family: v2_simple", 10, "a { is missing before family"),
        ("    portion: 0.5", "     portion: 0.5", 8, "it is indented deeper than line 7"),
        ("    portion: 0.5", "    portion: 0.5\n    require: leakcheck", 9, "a list: [leakcheck]"),
        ("    portion: 0.5", "    portion: 0.5\n    require: [leakchek]", 9, "'leakcheck'?"),
        ("phases:", "phase:", 6, "Did you mean 'phases'?"),
        ("servings:", "serving:", 9, "Did you mean 'servings'?"),
        ("400k", "400k\nanneal: {portion: 0.5}", 6, "lines 6, 9, 14; the portions sum to 1.5"),
        ("400k", "400 k", 5, "Write 400K"),
        ("400k", "'400,000'", 5, "Write 400_000"),
        ("400k", "1e6", 5, "Write 1000000"),
        ("400k", "", 5, "this is not a token count"),
        ("model: tiny", "model:", 4, "Write a value after its colon"),
        ("mine", "my model", 1, "Write my-model"),
        ("mine", "%mine", 1, "Put the value in quotes"),
        (
            "    portion: 0.5",
            "    portion: 0.5\n    advance_when: {val_bpb: 0.002}",
            9,
            "Write {stops_improving_by: 0.002}",
        ),
        (
            "    portion: 0.5",
            "    portion: 0.5\n    advance_when: {val_bpb: {stops_improving_by: 0.1, set: casual}}",
            9,
            "Did you mean 'causal'?",
        ),
        (
            "    portion: 0.5",
            "    portion: 0.5\n    advance_when: {val_bpb: {stops_improving_by: 0.1, set: fim}}",
            9,
            "and the corpus has no such set. Use phase or causal or anchor",
        ),
        (
            "    portion: 0.5",
            "    portion: 0.5\n    advance_when: {min_tokens: 300K}",
            9,
            "min_tokens on line 9; syntax can't advance before 300,000 tokens, but its budget ends at "
            "200,000. Raise token_budget to 600,000, or lower min_tokens to 200,000",
        ),
        (
            "v2_simple, share: 0.6",
            "v2_simple, objective: target, share: 0.6",
            10,
            "documents of v2_simple have no target. Take v4_context_graph or v5_clang_graph",
        ),
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


@pytest.mark.parametrize("check", ["leakcheck", "masking_cost"])
def test_a_check_that_no_study_can_pass_is_refused_at_its_line(tmp_path: Path, check: str) -> None:
    gated = DIET.replace("portion: 0.5", f"portion: 0.5\n    require: [approval, {check}]", 1)
    assert _error(tmp_path, gated) is None
    study = "study: {positions: continue}\n"
    error = _error(tmp_path, f"{gated}{study}")
    assert error is not None
    assert error.startswith(f"diet.yaml:9: phases.0.require = [approval, {check}]; {check} ")
    assert "study" in error
    parent, child = tmp_path / "parent.yaml", f"extends: parent.yaml\nbranch: other\n{study}"
    parent.write_text(gated)
    inherited = _error(tmp_path, child)
    assert inherited is not None
    assert inherited.startswith("parent.yaml:9: ")


@pytest.mark.parametrize("entry", ["{family: v3_simple, share: 0.4}", "{family: v3_simple}"])
def test_an_entry_indented_as_one_of_the_list_outside_is_the_one_fault(
    tmp_path: Path, entry: str
) -> None:
    text = DIET.replace("      - {family: v3_simple, share: 0.4}", f"  - {entry}")
    error = _error(tmp_path, text)
    names = "family, share" if "share" in entry else "family"
    assert error is not None
    assert error.startswith(f"diet.yaml:11: an entry with {names}; ")
    assert error.endswith("line 10")


class Damage(NamedTuple):
    """A diet with one thing wrong, the line it is on, and the word that was there."""

    text: str
    line: int
    word: str


FREE = {"specialist", "why", "branch"}
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


def _damaged(text: str) -> Iterator[Damage]:
    """Each key and each value once: words without their third or last letter, a word for anything else."""
    for node, field, is_key in _nodes(yaml.compose(text)):
        word = node.value
        if is_key or field not in FREE:
            typo = word[:2] + word[3:] if len(word) > 3 else word[:-1]
            yield _cut(text, node, typo if _is_word(word) else "some")


def _is_word(value: str) -> bool:
    return value.replace("_", "").isalnum() and not value[0].isdigit()


def _indents(text: str) -> Iterator[Damage]:
    """Lines with a space more before them, and those that have one with a space less."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            for other in (f" {line}", line.removeprefix(" ")):
                damaged = "".join([*lines[:index], other, *lines[index + 1 :]])
                if damaged != text:
                    yield Damage(damaged, index + 1, "")


SHIPPED = sorted(DIETS.glob("*.yaml"))


@pytest.mark.parametrize("diet", SHIPPED, ids=lambda each: each.stem)
def test_damage_anywhere_in_a_shipped_diet_is_named_by_its_line(diet: Path, tmp_path: Path) -> None:
    text = diet.read_text()
    keys = [node.value for node, _, is_key in _nodes(yaml.compose(text)) if is_key]
    damages = [*_damaged(text)]
    assert len(damages) > 1.5 * len(keys) > 60, "values are damaged as well as keys"
    typos = first = 0
    for each in damages:
        error = _error(tmp_path, each.text)
        assert error is not None, each
        assert _is_near(error, each.line), (each.line, error)
        typos += _is_word(each.word)
        first += f"Did you mean {each.word!r}?" in error.splitlines()[0]
    assert typos > 0.6 * len(damages)
    assert first >= 0.8 * typos


@pytest.mark.parametrize("diet", SHIPPED, ids=lambda each: each.stem)
def test_an_indent_that_changes_a_shipped_diet_is_named_by_its_line(
    diet: Path, tmp_path: Path
) -> None:
    text = diet.read_text()
    content, refused = yaml.safe_load(text), 0
    for each in _indents(text):
        error = _error(tmp_path, each.text)
        # An indent that changes nothing that is said, such as of all lines of a list, is no mistake.
        if error is None:
            assert yaml.safe_load(each.text) == content or "why" in each.text
        else:
            refused += 1
            assert _is_near(error, each.line), (each.line, error)
    assert refused > 20


def _is_near(error: str, line: int) -> bool:
    """Return True if the first fault names the line, or one beside it, itself or as the one above."""
    named = re.findall(r"(?:^diet\.yaml:|lines? )([0-9]+)", error.splitlines()[0])
    return any(abs(int(each) - line) <= 1 for each in named)


@pytest.mark.parametrize(
    ("serving", "field", "why"),
    [
        ("family: v2_simple, objective: fim", "objective = 'fim'", "what it scores needs all"),
        (
            "family: v2_simple, objective: doc_to_code",
            "objective = 'doc_to_code'",
            "what it scores",
        ),
        ("family: chat", "objective = 'chat'", "what it scores needs all of its document"),
        ("family: v6_enriched", "family = 'v6_enriched'", "the edges of structure join chunks"),
    ],
)
def test_documents_that_a_cut_would_break_are_not_chopped(
    tmp_path: Path, serving: str, field: str, why: str
) -> None:
    text = DIET.replace("family: v3_simple", serving, 1)
    assert _error(tmp_path, text) is None
    error = _error(tmp_path, f"{text}study: {{packer: chop}}\n")
    assert error is not None
    assert error.startswith(f"diet.yaml:11: phases.0.servings.1.{field}; {why}")
    assert "study: packer chop. " in error
    assert _error(tmp_path, f"{text}study: {{document_mask: off}}\n") is None


def test_a_packer_alone_leaves_checks_and_trainers_to_a_study(tmp_path: Path) -> None:
    gated = DIET.replace("portion: 0.5", "portion: 0.5\n    require: [leakcheck, masking_cost]", 1)
    assert _error(tmp_path, f"{gated}study: {{packer: chop}}\n") is None
    ours = DIET.replace("model: tiny", "model: tiny\ntrainer: {command: 'mine {job}'}")
    assert _error(tmp_path, f"{ours}study: {{packer: chop}}\n") is None
