"""The house stands: layers hold, names are told, nothing generated is stale."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "curriculum", "flows", "dashboards")
SOURCES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager"}


def test_no_file_is_named_after_nothing() -> None:
    assert SOURCES
    assert [file for file in SOURCES if file.stem in FORBIDDEN_NAMES] == []


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_module_and_public_thing_says_what_it_is(file: Path) -> None:
    tree = ast.parse(file.read_text())
    silent = [file.name] if tree.body and not ast.get_docstring(tree) else []
    for node in _public(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            lines = (node.end_lineno or node.lineno) - node.lineno
            if lines > 4 and not ast.get_docstring(node) and not _overrides(node):
                silent.append(f"{node.name} (line {node.lineno})")
    assert silent == []


def _public(tree: ast.Module | ast.ClassDef) -> Iterator[ast.stmt]:
    """What a module or class holds and what its classes hold; functions inside functions are private."""
    for node in tree.body:
        yield node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node)


def _overrides(node: ast.ClassDef | ast.FunctionDef) -> bool:
    """Methods that a library calls by name are told by the library."""
    return node.name in {"compose_node", "construct_mapping", "forward", "backward"}


def test_polars_reads_parquet_files_in_one_place_only() -> None:
    """It takes a path for a pattern unless it is asked not to."""
    readers = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(r"pl\.(scan|read)_\w+\(", file.read_text())
    }
    assert readers == {"curriculum/frames.py"}


def test_parquet_files_are_read_by_bounded_readers_only() -> None:
    """Imports read within a limit of memory, the catalog's cache what the catalog wrote to memory."""
    readers = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(r"pq\.(ParquetFile|ParquetDataset|read_\w+)\(", file.read_text())
    }
    imports = "curriculum/interop/foreign_parquet.py"
    footer_of_one_group = "curriculum/rows/footers.py"
    own = {"curriculum/parquet.py", "curriculum/catalog/cache.py"}
    assert readers == {*own, imports, footer_of_one_group}


def test_environment_is_read_in_three_places_only() -> None:
    allowed = {
        "flows/settings.py",
        "curriculum/train/__main__.py",
        "curriculum/catalog/__init__.py",
    }
    readers = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(r"os\.environ\b(?!\.copy)|os\.getenv", file.read_text())
    }
    assert readers <= allowed


def test_flow_modules_keep_their_annotations_alive() -> None:
    """Prefect's form renders with postponed annotations, and then every run fails."""
    flows = sorted((ROOT / "flows").glob("*.py"))
    assert flows
    assert [
        file for file in flows if "from __future__ import annotations" in file.read_text()
    ] == []
