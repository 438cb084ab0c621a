"""Specialists and phases whose names are near one another keep their own plans and reports."""

from pathlib import Path

from curriculum.catalog import open_catalog
from dashboards.report.facts import report_name
from tests.flows.tiny_workspace import TinyWorkspace, mixture

NAMES = [
    ("a", "b", "c"),
    ("a-b", None, "c"),
    ("a", None, "b-c"),
    ("a", None, "b"),
    ("a.b", None, "c"),
]


def test_each_specialist_has_a_plan_of_its_own_whatever_its_name(tmp_path: Path) -> None:
    larder = TinyWorkspace(tmp_path)
    keys = {
        ("/".join(filter(None, (specialist, branch))), phase): mixture(
            tmp_path, phase, [(larder.one, 0, 0, at + 1)], specialist=specialist, branch=branch
        ).key
        for at, (specialist, branch, phase) in enumerate(NAMES)
    }
    assert len({*keys.values()}) == len(NAMES)
    found = open_catalog(tmp_path).sql("SELECT specialist, phase, mixture_key FROM status")
    held = {(specialist, phase): key for specialist, phase, key in found.fetchall()}
    assert {name: held[name] for name in keys} == keys


def test_each_specialist_has_a_report_of_its_own() -> None:
    refs = {(specialist, branch) for specialist, branch, _ in NAMES}
    assert len({report_name(*ref) for ref in refs}) == len(refs) == 4
