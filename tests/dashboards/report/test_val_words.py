"""The sheet of a phase in the report: the files that fill val, and the steps so far."""

from dataclasses import replace

from curriculum.store.attempt_state import AttemptState
from dashboards.report.phases import sheet_facts
from tests.dashboards.report.conftest import phase_facts


def test_a_phase_names_the_files_that_fill_val() -> None:
    facts = phase_facts(0, 0.4, "done")
    words = "val is mostly own:test/catch.hpp (98.0%)"
    assert words not in sheet_facts(facts)
    assert words in sheet_facts(replace(facts, filled=words))


def test_a_phase_that_trains_has_the_steps_of_its_progress() -> None:
    facts = replace(phase_facts(0, 0.4, "running"), run=None)
    assert facts.mixture is not None
    steps = facts.mixture.steps
    for done, progress in (("7", AttemptState(state="running", steps=7)), ("0", None)):
        status = replace(facts.status, progress=progress)
        assert f"{done} of {steps:,} steps" in sheet_facts(replace(facts, status=status))
