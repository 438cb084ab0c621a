"""Files of a workspace that somebody else wrote: a command reads them, or names the fault and ends with 2."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from curriculum.store.inside import MAX_DEPTH
from flows.cli import app
from flows.cli.workspace import check
from schemas.errors import SchemaError, StoreError
from tests.fuzz import material
from tests.sealing import artefact_around, republish

pytestmark = pytest.mark.timeout(300)
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with documents, rows, plans, two closed runs and an open one."""
    material.workspace(tmp_path / "ws")
    return tmp_path / "ws"


def given(home: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*words, "--home", str(home)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def changed(home: Path, pattern: str, change: Change) -> None:
    """Change a table below a workspace, and let its manifest record the file as it is now."""
    file = min(home.glob(pattern))
    pq.write_table(change(pq.read_table(file, partitioning=None)), file)
    if not file.match("metrics/*"):
        republish(artefact_around(file))


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("query", "FROM artefacts"), ("query", "FROM metrics"), ("inspect", "fmt/syntax"),
        ("inspect", "open/syntax"), ("inspect", "documents"), ("lineage", "fmt/syntax"),
        ("diff", "fmt/syntax", "fmt/file_graph"), ("compare", "fmt/syntax", "fmt/file_graph"),
    ],
)  # fmt: skip
def test_an_honest_workspace_is_read(home: Path, words: tuple[str, ...]) -> None:
    assert given(home, *words)[0] == 0


@pytest.mark.parametrize("text", ["[" * 100_000, '{"step": NaN}', '{"step": 1, "step": 2}', ""])
def test_a_heartbeat_that_is_no_heartbeat_is_named(home: Path, text: str) -> None:
    (file,) = home.glob("runs/**/heartbeat.json")
    file.write_text(text)
    code, said = given(home, "inspect", "open/syntax")
    assert code == 2
    assert "heartbeat.json" in said.replace("\n", "")


def test_a_column_that_stands_twice_is_a_problem_of_the_catalog(home: Path) -> None:
    changed(
        home, "rows/**/part-*.parquet", lambda table: table.append_column("domain", table["domain"])
    )
    code, said = given(home, "query", "SELECT problem FROM problems")
    assert code == 0
    assert "columns are named domain" in said


def test_documents_of_other_types_are_named(home: Path) -> None:
    def texts(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("parts")
        return table.set_column(at, "parts", pa.array([["x"]] * len(table)))

    changed(home, "documents/**/part-*.parquet", texts)
    done = CliRunner().invoke(app, ["check", str(home / "documents")])
    assert done.exit_code == 2, done.output
    assert "document schema" in done.output


def test_metrics_of_an_open_run_with_nulls_are_answered_with_nulls(home: Path) -> None:
    def nulls(table: pa.Table) -> pa.Table:
        at = table.schema.get_field_index("gradient_norm")
        return table.set_column(at, "gradient_norm", pa.nulls(len(table), pa.float64()))

    changed(home, "runs/specialist-open/**/metrics/*.parquet", nulls)
    code, said = given(
        home, "query", "SELECT count(*) - count(gradient_norm) AS missing FROM metrics", "--json"
    )
    assert code == 0
    assert int(re.findall(r'"missing": ?(\d+)', said)[0]) > 0


def test_a_damaged_page_ends_with_2(home: Path) -> None:
    file = min(home.glob("rows/**/part-*.parquet"))
    data = bytearray(file.read_bytes())
    data[4:400] = os.urandom(396)
    file.write_bytes(data)
    republish(artefact_around(file))
    code, said = given(home, "inspect", "rows")
    assert code == 2, said
    assert "Traceback" not in said


def test_a_name_twice_in_a_manifest_is_named(home: Path) -> None:
    file = min(home.glob("rows/**/manifest.json"))
    content = json.loads(file.read_text())
    file.write_text(file.read_text().replace("{", '{"stage": "x",', 1))
    assert content["stage"] != "x"
    code, said = given(home, "inspect", "rows")
    assert code == 2
    assert "'stage' occurs twice" in said.replace("\n", "")


def test_a_folder_outside_of_workspaces_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    deepest = tmp_path.joinpath("folder", *["a"] * MAX_DEPTH)
    deepest.mkdir(parents=True)
    with pytest.raises(SchemaError, match="packed rows"):
        check(tmp_path, [str(tmp_path / "folder")])
    (deepest / "a").mkdir()
    with pytest.raises(StoreError) as refused:
        check(tmp_path, [str(tmp_path / "folder")])
    assert refused.value.name == str(deepest)
