"""Settings of runs side by side: the main ones always, all others where they differ."""

from typing import Any

from dashboards.run_settings import MAIN, setting_table
from schemas.job import Job, OptimizerSpec
from tests.dashboards.report.conftest import job

TOOLS = {"torch": "2.13.0", "run revision": "4"}


def _changed(**changes: Any) -> Job:
    return job(0).model_copy(update=changes)


def test_one_run_has_its_main_settings_and_none_that_differs() -> None:
    (table,) = [setting_table([(job(0), TOOLS)])]
    found = {setting.name: setting.values for setting in table}
    assert {*found} <= {*MAIN.values()}
    assert found["learning rate"] == ("0.0003",)
    assert found["model"] == ("hybrid-60m",)
    assert found["mixture"] == ("m",)
    assert found["tokenizer"] == ("t",)
    assert found["RoPE base"] == ("500000",)
    assert found["torch"] == ("2.13.0",)
    assert not any(setting.differs for setting in table)


def test_values_that_differ_are_marked() -> None:
    faster = _changed(optimizer=OptimizerSpec(learning_rate=3e-3, warmup_steps=200))
    table = setting_table([(job(0), TOOLS), (faster, TOOLS)])
    assert [(setting.name, setting.values) for setting in table if setting.differs] == [
        ("learning rate", ("0.0003", "0.003"))
    ]


def test_other_settings_are_listed_where_they_differ() -> None:
    table = setting_table([(job(0), TOOLS), (_changed(evaluate_every=7), TOOLS)])
    assert [
        (setting.name, setting.values) for setting in table if setting.name not in MAIN.values()
    ] == [("evaluate_every", ("5000", "7"))]


def test_a_run_without_recorded_versions_has_none_there() -> None:
    table = setting_table([(job(0), TOOLS), (job(0), {})])
    found = {setting.name: setting.values for setting in table}
    assert found["torch"] == ("2.13.0", None)
