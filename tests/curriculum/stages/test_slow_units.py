"""A repository whose units never end costs libclang a few of them, and keeps the documents of its commits."""

import functools
import json
from pathlib import Path

import pytest

from curriculum.graph import clang
from curriculum.sandbox import landlock
from curriculum.stages import RowsSpec, sample
from curriculum.store import Store
from curriculum.workers import pool
from schemas.corpus import CorpusSpec, RepositorySpec
from schemas.reports import DocumentsReport, IndexReport
from tests.curriculum.stages.test_on_error import SOURCE

pytestmark = [
    pytest.mark.clang,
    pytest.mark.system,
    pytest.mark.skipif(clang.missing() is not None, reason="needs libclang"),
    pytest.mark.skipif(not landlock(), reason="needs Landlock"),
]
UNITS, SLOW = 12, 6
LEVELS = 60
"""Files each of which includes the next one twice: a unit that includes the first has no end."""


def repository(folder: Path, slow: int) -> CorpusSpec:
    """A folder with a database, some of whose units have no end."""
    folder.mkdir()
    for level in range(LEVELS):
        (folder / f"{level}.txt").write_text(f'#include "{level + 1}.txt"\n' * 2)
    (folder / f"{LEVELS}.txt").write_text("")
    names = [f"f{number:02}.cpp" for number in range(UNITS)]
    for number, name in enumerate(names):
        text = SOURCE.format(number=number)
        (folder / name).write_text(text + '#include "0.txt"\n' if number < slow else text)
    entries = [
        {"directory": str(folder), "file": name, "command": f"c++ -c {name}"} for name in names
    ]
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    spec = RepositorySpec(name=folder.name, path=str(folder))
    return CorpusSpec(name="slow", repositories=(spec,), val_fraction=0.1)


@pytest.mark.parametrize("slow", [1, SLOW])
def test_units_without_an_end_are_counted_and_a_few_of_them_end_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: int
) -> None:
    limit = 5.0 if slow == 1 else 1.0
    tried = functools.partial(clang.index_tree, limit_seconds=limit)
    monkeypatch.setattr(clang, "index_tree", tried)
    monkeypatch.setattr(pool, "_START_SECONDS", 5)
    store = Store(tmp_path / "home")
    wanted = [RowsSpec(family="v5_clang_graph", row_length=512)]
    (texts,) = sample(store, repository(tmp_path / "slow", slow), wanted, number=100)
    (index,) = store.artefacts("indexes")
    report, documents = index.reported(IndexReport), texts.reported(DocumentsReport)
    if slow == 1:
        assert (report.indexed, report.timed_out) == (UNITS - 1, 1)
        assert (report.functions, documents.coverage.fallback) == (UNITS - 1, 1)
    else:
        assert (report.indexed, report.timed_out, report.functions) == (0, UNITS, 0)
        assert documents.coverage.fallback == UNITS
    assert len(report.problems) == report.timed_out
    # The folder is one commit, of which v5 shows nothing where the frontend saw less than half of it.
    if slow == 1:
        assert documents.chunks == {"whole": UNITS}
    else:
        assert documents.left_out == {"not_covered": 1}
