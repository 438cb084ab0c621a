"""The one module that carries out phases, the one that calls stages, and the flows that need Prefect."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("curriculum", "flows", "dashboards")
PHASE_FUNCTIONS = {"sample_phase", "build_phase", "mix_phase", "train_phase"}
STAGE_FUNCTIONS = {
    ("curriculum.stages", "build"),
    ("curriculum.stages", "sample"),
    ("curriculum.mixing.mix", "mix"),
    ("curriculum.train.run", "train"),
}
CARRIED_OUT = {"curriculum/pipeline/steps.py", "curriculum/pipeline/phase_training.py"}
WITHOUT_A_PLAN = {"curriculum/train/bundle.py"}
"""Trains what a plan left for a machine that can't make one."""
WITHOUT_PREFECT = {"__init__", "forms"}


@cache
def _modules() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(_parsed())


def _parsed() -> Iterator[tuple[str, ast.Module]]:
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            name = file.relative_to(ROOT).as_posix()
            yield name, ast.parse(file.read_text(encoding="utf-8"))


def _called(tree: ast.Module) -> set[str]:
    """The names that a module calls, of methods and attributes the last part."""
    calls = (each.func for each in ast.walk(tree) if isinstance(each, ast.Call))
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in calls
        if isinstance(each, ast.Name | ast.Attribute)
    }


def _attributes(tree: ast.Module) -> set[str]:
    return {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute)}


def _imported(tree: ast.Module) -> set[tuple[str, str]]:
    return {
        (each.module, alias.name)
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom) and each.module
        for alias in each.names
    }


def test_only_execute_makes_the_steps_of_a_phase() -> None:
    step = ("curriculum.pipeline.execute", "Step")
    users = {name: tree for name, tree in _modules() if step in _imported(tree)}
    assert len(users) > 2
    assert {name for name, tree in users.items() if "Step" in _called(tree)} == set()


def test_only_execute_calls_what_carries_out_a_step() -> None:
    callers = {name for name, tree in _modules() if PHASE_FUNCTIONS & _attributes(tree)}
    assert callers == {"curriculum/pipeline/execute.py"}


def test_only_steps_calls_the_stages() -> None:
    callers = {name for name, tree in _modules() if STAGE_FUNCTIONS & _imported(tree)}
    assert callers == CARRIED_OUT | WITHOUT_A_PLAN


def test_a_flow_module_imports_prefect_or_is_listed() -> None:
    plain = set()
    for name, tree in _modules():
        folder, _, file = name.rpartition("/")
        if folder != "flows":
            continue
        modules = {module for module, _ in _imported(tree)} | {
            alias.name
            for each in ast.walk(tree)
            if isinstance(each, ast.Import)
            for alias in each.names
        }
        if not any(each.partition(".")[0] == "prefect" for each in modules):
            plain.add(file.removesuffix(".py"))
    assert plain == WITHOUT_PREFECT
