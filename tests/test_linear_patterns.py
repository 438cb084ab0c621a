"""Regular expressions that see foreign text take time linear in it.

Texts are made from each expression: what it repeats without end, repeated. Where an expression is quadratic,
one of these takes half a second to minutes.
"""

import ast
import contextlib
import importlib
import pkgutil
import random
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from tests.adversarial_text import Attack, attacks

PACKAGES = (
    *("curriculum.corpus", "curriculum.graph", "curriculum.families", "curriculum.inspection"),
    *("curriculum.interop", "curriculum.objectives", "curriculum.tokens", "dashboards", "schemas"),
)
"""Packages that read repositories, imported rows, received workspaces and requests."""
SHORT = {
    "curriculum.corpus.header_languages._DIRECTIVE": 1_000,
    "curriculum.corpus.quality.STATED": 2_000,
    "curriculum.families.edit_blocks._BLOCK": 1_000,
    "curriculum.graph.blank._COMPARED": 500,
    "curriculum.graph.blank._MACRO_CALL": 500,
    "curriculum.graph.heads._CLASS_BEFORE": 200,
    "curriculum.graph.index._LAST_WORD": 40,
    "curriculum.graph.macros._ATTRIBUTED": 120,
    "curriculum.graph.spelling._REMARK": 2_000,
    "dashboards.server._SCRIPT": 1_000,
}
"""Characters of texts that are cut before, or that we wrote: edit blocks, pages of our notebooks, lines."""
LENGTH = 40_000
MAX_SECONDS = 0.1
MAX_ATTACKS = 24
_ANYWHERE = frozenset(("search", "sub", "subn", "split", "findall", "finditer"))
Pattern = re.Pattern[str] | re.Pattern[bytes]


class _TooSlowError(Exception):
    pass


def _ring(number: int, frame: FrameType | None) -> None:
    raise _TooSlowError


def _modules() -> Iterator[ModuleType]:
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            with contextlib.suppress(ImportError):
                yield importlib.import_module(found.name)


def _uses(module: ModuleType) -> dict[str, set[str]]:
    """Return the methods that a module calls of the names in it."""
    found: dict[str, set[str]] = defaultdict(set)
    assert module.__file__ is not None
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            owner = node.value
            found[owner.id if isinstance(owner, ast.Name) else owner.attr].add(node.attr)
    return found


def _within(value: Any) -> Iterator[Pattern]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _within(item)


def _patterns() -> dict[str, tuple[Pattern, str]]:
    """Return the expressions by name, and how they are used: anywhere in a text, from its begin, or whole."""
    modules = [*_modules()]
    uses = {module.__name__: _uses(module) for module in modules}
    found: dict[str, tuple[Pattern, str]] = {}
    known: set[tuple[str | bytes, int]] = set()
    for module in modules:
        for name, value in vars(module).items():
            for number, pattern in enumerate(_within(value)):
                if (pattern.pattern, pattern.flags) in known:
                    continue
                known.add((pattern.pattern, pattern.flags))
                users = [uses[module.__name__]] if name.startswith("_") else uses.values()
                methods = set[str]().union(*(use.get(name, ()) for use in users))
                anchored = methods & {"match", "fullmatch"}
                how = "match" if "match" in anchored else "fullmatch"
                if isinstance(value, tuple | list) or not anchored or methods & _ANYWHERE:
                    how = "search"
                number_in_name = f"[{number}]" if number else ""
                found[f"{module.__name__}.{name}{number_in_name}"] = pattern, how
    return found


def _shortest_attacks(pattern: Pattern) -> list[Attack]:
    """Choose the shortest attacks, and some of the others."""
    found = sorted(attacks(pattern), key=lambda attack: len(attack.begin + attack.unit))
    half = MAX_ATTACKS // 2
    others = found[half:]
    return [*found[:half], *random.Random(5).sample(others, min(half, len(others)))]


def _seconds(pattern: Pattern, how: str, text: Any) -> float:
    """Return the processor time of a use, or infinity."""
    before = signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, 4 * MAX_SECONDS)
    start = time.process_time()
    try:
        if how == "search":
            for _ in pattern.finditer(text):
                pass
        else:
            getattr(pattern, how)(text)
    except _TooSlowError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return time.process_time() - start


def slow_attack(pattern: Pattern, how: str, length: int) -> Attack | None:
    """Return a text on which an expression takes too long twice, or None."""
    for attack in _shortest_attacks(pattern):
        text = attack.text(length)
        made = text if isinstance(pattern.pattern, str) else text.encode()
        if all(_seconds(pattern, how, made) > MAX_SECONDS for _ in range(2)):
            return attack
    return None


@pytest.mark.timeout(300)
def test_expressions_that_see_foreign_text_are_linear() -> None:
    patterns = _patterns()
    assert len(patterns) > 100
    assert patterns.keys() >= SHORT.keys()
    slow = {
        name: attack
        for name, (pattern, how) in patterns.items()
        if (attack := slow_attack(pattern, how, SHORT.get(name, LENGTH)))
    }
    assert slow == {}


@pytest.mark.parametrize(
    ("written", "how"),
    [
        (r"\S+@\S+", "search"),
        (r"[\s,]+(?:inc|co)\.?$", "search"),
        (r"^class\b[^;(){}=]*[;{]", "search"),
        (r"^namespace\b[ \t\w:]*\{?[ \t]*$", "search"),
        (r"\"(?:\\.|[^\"\\\n])*\"", "search"),
        (r"(?:\s+|\[\[a\]\])*b", "match"),
        (r"using\s+([\w:\s]+?)\s*;", "match"),
        (r"\s*([a-z]*?)\s*(?:tok|tokens)?", "fullmatch"),
        (r"#ifndef (\w+)[^\n]*\n#define \1\b", "match"),
        (r"/\*.*?\*/", "search"),
    ],
)
def test_expressions_that_are_not_are_found(written: str, how: str) -> None:
    assert slow_attack(re.compile(written, re.MULTILINE | re.DOTALL), how, LENGTH) is not None
