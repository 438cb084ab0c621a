"""The sheet of a phase in the report names the files that fill val."""

from dataclasses import replace

from dashboards.report.phases import sheet_facts
from tests.dashboards.report.conftest import phase_facts


def test_a_phase_names_the_files_that_fill_val() -> None:
    facts = phase_facts(0, 0.4, "done")
    words = "val is mostly own:test/catch.hpp (98.0%)"
    assert words not in sheet_facts(facts)
    assert words in sheet_facts(replace(facts, filled=words))
