"""Pages of rows lie beside the reports: written once, found from there, chosen by whoever asks."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from curriculum.inspection.line_selection import InspectOptions
from dashboards.rows import write as writing
from dashboards.rows.write import chosen_rows, example, page_path, write
from flows import cli
from schemas.errors import StoreError


@pytest.fixture
def root(rows_home: Any, tmp_path: Path) -> Path:
    """A folder for reports of its own; the rows lie elsewhere."""
    rows_home.store.root.joinpath("reports").mkdir(exist_ok=True)
    return Path(rows_home.store.root)


def test_a_page_is_written_once_and_anew_only_where_it_would_look_different(
    rows_home: Any, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(root, rows_home.rows, rows_home.made_of, root / "reports")
    assert (
        file
        == page_path(root / "reports", rows_home.rows)
        == root / "reports/rows" / f"{rows_home.rows.key[:12]}.html"
    )
    first = file.stat().st_mtime_ns
    monkeypatch.setattr(writing, "row_views", None)
    assert write(root, rows_home.rows, [], root / "reports") == file, "it isn't read again"
    assert file.stat().st_mtime_ns == first
    monkeypatch.undo()
    text = file.read_text()
    file.write_text(text.replace("<!-- ", "<!-- 0"))
    assert write(root, rows_home.rows, rows_home.made_of, root / "reports") == file
    assert file.read_text() == text
    assert [*file.parent.glob(".*")] == [], "nothing half written is left"


def test_rows_without_their_tokenizer_have_no_page(rows_home: Any, tmp_path: Path) -> None:
    root = tmp_path
    assert write(root, rows_home.rows, rows_home.documents, root / "reports") is None
    assert not page_path(root / "reports", rows_home.rows).exists()


def test_the_example_is_the_row_of_most_documents_and_leads_to_it(
    rows_home: Any, root: Path
) -> None:
    found = example(rows_home.rows)
    assert found
    assert (len(found.spans), found.length) == (3, 256)
    assert found.link == f"rows/{rows_home.rows.key[:12]}.html#r1"
    assert found.spans == tuple(rows_home.shown()[1].spans)
    page, _, row = found.link.partition("#")
    write(root, rows_home.rows, rows_home.made_of, root / "reports")
    assert f'<article id="{row}"' in (root / "reports" / page).read_text()


def test_whoever_asks_for_a_row_gets_that_one(rows_home: Any) -> None:
    named = f"{'a' * 12}-0000000002"
    text = chosen_rows(rows_home.store, rows_home.rows, InspectOptions(pack_id=named))
    assert "Whole data set: yield 50.0%, lower bound 100.0%." in text
    assert "documents nearly fill rows (1.5 documents a row)" in text
    assert re.findall(r'data-pack="([^"]*)"', text) == [named]
    assert (
        chosen_rows(rows_home.store, rows_home.rows, InspectOptions(rows=2)).count("<article") == 2
    )
    with pytest.raises(StoreError, match="what was asked for"):
        chosen_rows(rows_home.store, rows_home.rows, InspectOptions(pack_id="none"))


def test_the_command_writes_the_page(rows_home: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.html"
    asked = ["inspect", str(rows_home.rows.path), "--rows", "3", "--html", str(file)]
    done = CliRunner().invoke(cli.app, asked)
    assert (done.exit_code, done.output) == (0, f"{file.as_uri()}\n")
    assert file.read_text().count("<article") == 3


def test_a_page_is_written_anew_where_its_repositories_have_other_urls(
    rows_home: Any, root: Path
) -> None:
    reports = root / "reports"
    file = write(root, rows_home.rows, rows_home.made_of, reports)
    assert file
    before = file.read_text()
    assert "https://" not in before
    (name, *_) = {part.repository for row in rows_home.shown() for part in row.documents}
    write(root, rows_home.rows, rows_home.made_of, reports, {name: "https://github.com/fmtlib/fmt"})
    assert "https://github.com/fmtlib/fmt/commit/" in file.read_text()
    write(root, rows_home.rows, rows_home.made_of, reports)
    assert file.read_text() == before
