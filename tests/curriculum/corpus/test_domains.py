from pathlib import Path

import polars as pl
import pytest

from curriculum.corpus.domains import condition, ingredients, load_domains
from schemas.corpus import DomainsSpec
from schemas.errors import CorpusError
from tests.error_fields import fields

RULES = """\
features:
  loops: '\\bfor\\b'
rules:
  - domain: tests
    rule: path
    when: path ~ '_test'
  - domain: busy
    rule: loops
    when: loops > 2
"""


def load(folder: Path, text: str) -> DomainsSpec:
    file = folder / "rules.yaml"
    file.write_text(text)
    return load_domains(str(file))


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(CorpusError) as caught:
        load(folder, text)
    return str(caught.value)


def test_the_shipped_rules_know_the_eight_specialists():
    assert set(load_domains().domains) == {
        "algorithms",
        "templates",
        "memory_raii",
        "build_toolchain",
        "service_orchestration",
        "testing",
        "systems_c",
        "compilers",
        "general",
    }
    assert all(rule.why for rule in load_domains().rules)


def test_rules_are_read_from_a_file(tmp_path):
    spec = load(tmp_path, RULES)
    assert spec.domains == ("tests", "busy", "general")
    assert [each.rule for each in spec.rules] == ["path", "loops"]


def test_why_a_rule_is_decides_nothing(tmp_path):
    told = RULES.replace("    when: loops > 2", "    when: loops > 2\n    why: because")
    assert ingredients(load(tmp_path, RULES)) == ingredients(load(tmp_path, told))


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ("\\bfor\\b", "(for", "s.yaml:2: features.loops = '(for'; it is not a valid regular expression (un"),
        ("loops: '", "path: '", "features.path; a feature can't have the name of an SQL keyword or of path"),
        ("  loops: '", "  null: '", "rules.yaml:2: features.null; a feature can't have the name of"),
        ("  loops: '", "  a-b: '", "rules.yaml:2: features.a-b; a feature can't have the name of"),
        ("loops > 2", "loop > 2", "s.yaml:9: rules.1.when = 'loop > 2'; documents have no column 'loop'."),
        ("loops > 2", "loops >", "rules.yaml:9: rules.1.when = 'loops >'; it is not a valid SQL condition"),
        ("loops > 2", "loops + 2", "its result is Float64, not a boolean. Compare it"),
        ("loops > 2", "path > 2", "it can't be computed (cannot compare string with numeric type (i32))"),
        ("path ~ '_test'", "path ~ '('", "it can't be computed (unclosed group)"),
        ("loops > 2", "loops > avg(loops)", "it depends on more than one document"),
        ("loops > 2", "max(loops) > 2", "it depends on more than one document"),
        ("loops > 2", "rank() over (order by loops) > 2", "it depends on more than one document"),
        ("rule: loops", "rule: path", "rules.yaml:8: rules.1.rule = 'path'; another rule has the same name"),
        ("domain: busy", "domain: chat", "s.yaml:7: rules.1.domain = 'chat'; this domain is reserved"),
        ("when: loops", "wenn: loops", "Did you mean 'when'?"),
        ("domain: busy", "domain: ../x", "rules.1.domain"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_line_and_cure(tmp_path, before, now, said):
    assert before in RULES
    assert said in refusal(tmp_path, RULES.replace(before, now))


def test_rules_that_are_not_there_are_named_with_those_there_are(tmp_path):
    with pytest.raises(CorpusError, match="'domains'"):
        load_domains("domain")
    with pytest.raises(CorpusError, check=fields(name=tmp_path / "none.yaml")):
        load_domains(str(tmp_path / "none.yaml"))


def test_what_is_unknown_is_false(tmp_path):
    spec = load(tmp_path, RULES.replace("loops > 2", "loops / (num_bytes - num_bytes) > 2"))
    frame = pl.DataFrame({"path": [None, "a_test"], "loops": [0.0, 1.0], "num_bytes": [1, 1]})
    held = frame.select(condition(each).alias(each.rule) for each in spec.rules)
    assert held["path"].to_list() == [False, True]
    assert not held["loops"].has_nulls()
