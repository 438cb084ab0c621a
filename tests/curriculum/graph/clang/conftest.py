"""Snapshots that several tests read, and trees as small as a question."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from curriculum.corpus.load import unpack_samples
from curriculum.graph.clang import GraphSnapshot, index_tree, missing
from schemas.reports import IndexReport

REASON = missing()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with the reason, what needs libclang where it is missing."""
    for item in items:
        if REASON is not None and item.get_closest_marker("clang"):
            item.add_marker(pytest.mark.skip(reason=REASON))


@pytest.fixture(scope="session")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, GraphSnapshot]:
    """The index of every sample repository at its head, by name."""
    found: dict[str, GraphSnapshot] = {}
    for root in unpack_samples(tmp_path_factory.mktemp("samples")):
        folder = tmp_path_factory.mktemp(root.name)
        database = root / "compile_commands.json"
        index_tree(root, database, folder, original=root, workers=2)
        found[root.name] = GraphSnapshot.open(folder)
    return found


IndexFiles = Callable[[Mapping[str, str]], GraphSnapshot]


@pytest.fixture
def index_files(tmp_path: Path) -> IndexFiles:
    """Index files as they are given; each .c, .cpp and .cc is a unit with `-I include`."""

    def index(files: Mapping[str, str]) -> GraphSnapshot:
        root, folder = tmp_path / "tree", tmp_path / "index"
        folder.mkdir(exist_ok=True)
        database = write_tree(root, files)
        index_tree(root, database, folder, original=None, workers=1)
        return GraphSnapshot.open(folder)

    return index


def write_tree(root: Path, files: Mapping[str, str]) -> Path:
    """Write files under a root, and their database beside it."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    entries = [
        {"directory": str(root), "file": path, "command": f"c++ -Iinclude -c {path}"}
        for path in sorted(files)
        if Path(path).suffix in (".c", ".cpp", ".cc")
    ]
    database = root.parent / "compile_commands.json"
    database.write_text(json.dumps(entries))
    return database


def whole(report: IndexReport) -> bool:
    """Return whether all units were indexed without an error."""
    return report.indexed == report.database.matched > 0
