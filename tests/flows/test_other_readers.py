"""Other Parquet readers read rows, documents and metrics of a workspace directly."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd  # noqa: TID251 – a reader of others
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from curriculum.store import Store
from tests.flows.cli_runner import curriculum
from tests.flows.tiny_workspace import IDS, TinyWorkspace, figure, job, run

Found = tuple[int, set[str]]
"""Rows, and the names of columns."""
KINDS = ("rows", "documents", "runs")
ATTEMPT = {"attempt"}
"""A column that readers make of the folder attempt=1 of a run."""


def _pandas(folder: Path) -> Found:
    frame = pd.read_parquet(folder)
    return len(frame), set(frame.columns)


def _arrow(folder: Path) -> Found:
    table = pq.read_table(folder)
    return table.num_rows, set(table.column_names)


def _arrow_files(folder: Path) -> Found:
    table = pq.read_table([str(file) for file in sorted(folder.glob("*.parquet"))])
    return table.num_rows, set(table.column_names)


def _arrow_dataset(folder: Path) -> Found:
    table = pads.dataset(folder, partitioning="hive").to_table()
    return table.num_rows, set(table.column_names)


def _polars(folder: Path) -> Found:
    frame = pl.read_parquet(folder)
    return frame.height, set(frame.columns)


def _polars_hive(folder: Path) -> Found:
    frame = pl.scan_parquet(folder / "*.parquet", hive_partitioning=True).collect()
    return frame.height, set(frame.columns)


def _duckdb(folder: Path) -> Found:
    found = duckdb.read_parquet(f"{folder}/*.parquet", hive_partitioning=True)
    return len(found), set(found.columns)


def _datasets(folder: Path) -> Found:
    datasets = pytest.importorskip("datasets")
    with tempfile.TemporaryDirectory() as cache:
        found = datasets.load_dataset(
            "parquet", data_dir=str(folder), split="train", cache_dir=cache
        )
    return found.num_rows, set(found.column_names)


READERS: dict[str, Callable[[Path], Found]] = {
    "pandas.read_parquet(folder)": _pandas,
    "pyarrow.parquet.read_table(folder)": _arrow,
    "pyarrow.parquet.read_table([file])": _arrow_files,
    "pyarrow.dataset": _arrow_dataset,
    "polars.read_parquet(folder)": _polars,
    "polars, hive partitioning": _polars_hive,
    "DuckDB, hive partitioning": _duckdb,
    "datasets.load_dataset(data_dir)": _datasets,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with documents, rows and a run, all of them in use."""
    home = tmp_path_factory.mktemp("others") / "workspace"
    larder = TinyWorkspace(home)
    after = [figure(2.4, 0.1)]
    run(
        home,
        job(larder.syntax, home, run_key="1"),
        after,
        documents=dict.fromkeys(IDS.values(), (2.0, 8)),
    )
    store = Store(home)
    store.mark("build+fmt+syntax+x", [*store.artefacts("documents"), larder.one, larder.two])
    return home


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_a_reader_of_others_reads_each_listed_folder(home: Path, kind: str, reader: str) -> None:
    folders = _listed(home, kind)
    assert folders
    for folder in folders:
        own = pa.concat_tables([pq.ParquetFile(file).read() for file in folder.glob("*.parquet")])
        rows, columns = READERS[reader](folder)
        assert rows == own.num_rows > 0
        assert columns - (ATTEMPT if kind == "runs" else set()) == set(own.column_names)


def test_the_listed_folders_are_those_of_the_artefacts_in_use(home: Path) -> None:
    found = {kind: len(_listed(home, kind)) for kind in KINDS}
    assert found == {"rows": 2, "documents": 2, "runs": 1}
    (rows, _), (metrics,) = _listed(home, "rows"), _listed(home, "runs")
    assert (rows.name, metrics.name) == ("data", "metrics")
    as_json = curriculum("ls", "rows", "--paths", "--json", home=home).stdout
    assert json.loads(as_json) == {"rows": [str(folder) for folder in _listed(home, "rows")]}


def test_a_kind_that_is_no_parquet_has_no_paths(home: Path) -> None:
    for words in (("ls", "--paths"), ("ls", "diets", "--paths")):
        done = curriculum(*words, home=home)
        assert done.returncode == 2
        assert "rows, documents, runs" in done.stderr


def test_the_rows_and_documents_in_use_are_listed_by_key(home: Path) -> None:
    found = json.loads(curriculum("ls", "rows", "--json", home=home).stdout)["rows"]
    assert [each["data_set"] for each in found] == [
        ["v2_simple", "causal", "variant 0", "row_length 8", "train"]
    ] * 2
    shown = curriculum("inspect", found[0]["name"], "--json", home=home)
    assert shown.returncode == 0, shown.stderr


def test_no_folder_repeats_a_column_of_the_files_below_it(home: Path) -> None:
    files = [file for file in home.rglob("*.parquet") if "catalog" not in file.parts]
    assert files
    for file in files:
        folders = {part.partition("=")[0] for part in file.parts[:-1] if "=" in part}
        assert not folders & set(pq.ParquetFile(file).schema_arrow.names), file


def _listed(home: Path, kind: str) -> list[Path]:
    done = curriculum("ls", kind, "--paths", home=home)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]
