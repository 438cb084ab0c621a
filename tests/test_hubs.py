"""No module imports more than 40 names of the project: whoever changes one would have to know them all.

A name counts once, be it imported or reached through its module (`gates.verdict`), within functions too; so
`import module` saves nothing, and a facade counts where it gathers.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "curriculum", "flows", "dashboards")
MAX_NAMES = 40
LARGER = {"curriculum/train/launch/launcher.py": 41}
"""Modules that import more: none may grow, and one that shrinks leaves."""


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or path.is_dir()


def names_of(text: str) -> set[str]:
    """The names of the project that a module uses, with the modules that they are of."""
    tree = ast.parse(text)
    imported = dict(_imported(tree))
    names = {name for name in imported.values() if not is_module(name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            module = imported.get(ast.unparse(node.value))
            if module is not None and is_module(module):
                names.add(f"{module}.{node.attr}")
    return names


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Full name of each import by its local name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in PACKAGES:
                    yield alias.asname or alias.name, alias.name


def test_no_module_imports_more_than_forty_names_of_the_project() -> None:
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 300
    counts = {
        file.relative_to(ROOT).as_posix(): len(names_of(file.read_text("utf-8"))) for file in files
    }
    large = {name: count for name, count in counts.items() if count > MAX_NAMES}
    grown = {name: count for name, count in large.items() if count > LARGER.get(name, MAX_NAMES)}
    assert grown == {}
    assert {*LARGER} == {*large}, "these import few enough by now: take them out of LARGER"


def test_a_name_counts_once_however_it_is_reached() -> None:
    assert names_of("from schemas.errors import DietError, JobError as Job\n") == {
        "schemas.errors.DietError",
        "schemas.errors.JobError",
    }
    imports = "from schemas import errors\nimport schemas.errors\n"
    assert names_of(f"{imports}errors.DietError\nschemas.errors.DietError\n") == {
        "schemas.errors.DietError"
    }
    assert names_of("def late():\n    from schemas.errors import DietError\n") == {
        "schemas.errors.DietError"
    }
