"""Rules of the tree that no linter checks: names of files, and the one place of a reader."""

import ast
import importlib
import re
from collections import Counter
from pathlib import Path

from benchmarks.identity import SKIPPED_FOLDERS
from curriculum.pipeline import notifications, recorded_config
from dashboards import workspace

ROOT = Path(__file__).parents[1]
PACKAGES = ("schemas", "curriculum", "flows", "dashboards")
SOURCES = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "manager"}


def test_no_file_is_named_after_nothing() -> None:
    assert SOURCES
    assert [file for file in SOURCES if file.stem in FORBIDDEN_NAMES] == []


def test_public_classes_have_names_of_their_own() -> None:
    classes = [
        node.name
        for file in SOURCES
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert len(classes) > 700
    assert [name for name, times in Counter(classes).items() if times > 1] == []


def test_files_of_a_package_have_names_of_their_own() -> None:
    """A command may have a file that is called like it in several packages."""
    names = [
        (file.relative_to(ROOT).parts[0], file.stem)
        for file in SOURCES
        if file.stem not in ("__init__", "__main__")
    ]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_polars_reads_parquet_files_in_one_place_only() -> None:
    """It takes a path for a pattern unless it is asked not to."""
    readers = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(r"pl\.(scan|read)_\w+\(", file.read_text())
    }
    assert readers == {"curriculum/frames.py"}


def test_parquet_files_are_read_in_few_places_only() -> None:
    """Foreign files in their sandbox, those of a workspace by one reader; one cuts a footer of one group."""
    readers = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(r"pq\.(ParquetFile|ParquetDataset|read_\w+)\(", file.read_text())
    }
    sandboxed = {"curriculum/interop/foreign_files.py", "curriculum/foreign_decoding.py"}
    footer_of_one_group = "curriculum/packing/read.py"
    assert readers == {"curriculum/parquet.py", footer_of_one_group, *sandboxed}


def test_environment_is_read_in_few_places_only() -> None:
    allowed = {
        "curriculum/corpus/git.py",
        "flows/settings/proxies.py",
        "flows/settings/__init__.py",
        "curriculum/exposure.py",
        "curriculum/train/__main__.py",
        "curriculum/train/process_environment.py",
        "curriculum/catalog/__init__.py",
        "curriculum/__init__.py",
    }
    readers = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(r"os\.environ\b(?!\.copy)|os\.getenv", file.read_text())
    }
    assert readers <= allowed


def test_home_folders_are_expanded_in_one_place_only() -> None:
    """pathlib raises a RuntimeError for `~name` of no user, which a file from elsewhere may hold."""
    expanding = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(r"expanduser\(", file.read_text())
    }
    assert expanding == {"schemas/regular_files.py"}


def test_connections_to_duckdb_are_made_in_one_place_only() -> None:
    """DuckDB spills into the current folder by default. Queries of pages have their own process."""
    connecting = {
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if re.search(
            r"duckdb\.connect\(config|duckdb\.connect\(\)$", file.read_text(), re.MULTILINE
        )
    }
    own = {"curriculum/catalog/connections.py", "curriculum/catalog/page_query_process.py"}
    assert connecting == own


def test_flow_modules_keep_their_annotations_alive() -> None:
    """Prefect's form renders with postponed annotations, and then every run fails."""
    flows = sorted((ROOT / "flows").glob("*.py"))
    assert flows
    assert [
        file for file in flows if "from __future__ import annotations" in file.read_text()
    ] == []


def test_texts_name_only_modules_that_are_there() -> None:
    """A docstring that lists the files of its package would otherwise name files that moved."""
    files = [*SOURCES, *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    ends = {
        "/".join(file.relative_to(ROOT).parts[at:])
        for file in files
        for at in range(len(file.relative_to(ROOT).parts))
    }
    texts = [*SOURCES, *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = re.compile(r"(?<![\w\"'./{}])((?:[a-z_]+/)*[a-z_0-9]+\.py)\b")
    written = re.compile(r"^```python\n# (\w+\.py)$", re.MULTILINE)
    examples = {
        "my_train.py",
        *(name for file in texts for name in written.findall(file.read_text("utf-8"))),
    }
    found = [(file.name, name) for file in texts for name in named.findall(file.read_text("utf-8"))]
    assert len(found) > 100
    assert [each for each in found if each[1] not in ends | examples] == []


def test_no_text_test_or_benchmark_picks_a_checkpoint_by_the_order_of_a_folder() -> None:
    """The order is the file system's: `checkpoint_of` and `newest_checkpoint` say which one they take."""
    texts = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    code = [file for name in ("benchmarks", "tests") for file in (ROOT / name).rglob("*.py")]
    picked = re.compile(r"\b(?:next|min|max)\([^\n]*(?:checkpoints|step=)[^\n]*(?:glob|iterdir)")
    by_glob = re.compile(r"\b(?:next|min|max)\([^\n]*glob\([^\n]*(?:checkpoints/|step=)")
    found = [
        (file.name, line.strip())
        for file in [*texts, *code]
        for line in file.read_text("utf-8").splitlines()
        if picked.search(line) or by_glob.search(line)
    ]
    assert found == []


def test_packages_have_every_name_that_they_export() -> None:
    packages = [
        ".".join(file.parent.relative_to(ROOT).parts)
        for file in SOURCES
        if file.name == "__init__.py" and "__all__" in file.read_text()
    ]
    assert len(packages) > 5
    for package in packages:
        found = importlib.import_module(package)
        assert [name for name in found.__all__ if not hasattr(found, name)] == [], package


def test_packages_list_only_files_that_are_there() -> None:
    listed = 0
    for file in SOURCES:
        if file.name == "__init__.py":
            docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
            for name in re.findall(r"^ {4}(\w+\.py)\b", docstring, re.MULTILINE):
                listed += 1
                assert (file.parent / name).is_file(), f"{file}: {name}"
    assert listed > 10


def test_records_of_commands_and_notifications_lie_where_readers_look() -> None:
    assert recorded_config.FOLDER == workspace.CONFIGS == "configs"
    assert notifications.FOLDER == "notifications"
    assert {recorded_config.FOLDER, notifications.FOLDER} <= SKIPPED_FOLDERS
