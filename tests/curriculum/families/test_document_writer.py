import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from curriculum.families.document_writer import BYTES_PER_GROUP, DocumentWriter, documents_in
from curriculum.families.render import render
from schemas.change import FileChange
from schemas.document import DOCUMENT_SCHEMA, Document
from schemas.errors import SchemaError
from schemas.families import families_of
from tests.error_fields import fields
from tests.factories import read_documents, write_documents

MakeChange = Callable[..., FileChange]


def documents(make_change: MakeChange, count: int = 25) -> list[Document]:
    found: list[Document] = []
    for i in range(count):
        licence = None if i % 2 else "MIT"
        change = make_change(
            f"int a;\nint é{i};\n", f"int a;\nint f{i}() {{ return 1; }}\n", licence=licence
        )
        found += render(change, families_of("changes")).documents
    return found


def digests(folder: Path) -> dict[str, str]:
    paths = sorted(folder.glob("data/*"))
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def test_what_is_written_is_read_back_in_order(make_change: MakeChange, tmp_path: Path) -> None:
    wanted = documents(make_change)
    assert write_documents(wanted, tmp_path, rows_per_file=40) == len(wanted)
    assert len(list(tmp_path.glob("data/*"))) == -(-len(wanted) // 40)
    table = pa.Table.from_batches(read_documents(tmp_path))
    assert table.schema.equals(DOCUMENT_SCHEMA)
    for row, document in zip(table.to_pylist(), wanted, strict=True):
        assert row["document_id"] == document.document_id
        assert row["text"] == document.text
        assert row["licence"] == document.licence
        assert row["num_bytes"] == len(document.text.encode())
        for name in ("parts", "spans", "provenance"):
            values = getattr(document, name)
            assert row[name] == [
                {field: getattr(value, field) for field in value.__slots__} for value in values
            ]


def test_equal_documents_give_equal_files(make_change: MakeChange, tmp_path: Path) -> None:
    wanted = documents(make_change)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_documents(wanted, tmp_path / name, rows_per_file=30)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_several_writers_stand_open_at_once(make_change: MakeChange, tmp_path: Path) -> None:
    found = documents(make_change, count=3)
    writers = {}
    for family in families_of("changes"):
        (tmp_path / family).mkdir()
        writers[family] = DocumentWriter(tmp_path / family)
    for document in found:
        writers[document.family].append(document)
    for family, writer in writers.items():
        writer.close()
        assert writer.count == sum(document.family == family for document in found)
        rows = sum(batch.num_rows for batch in read_documents(tmp_path / family, ["text"]))
        assert rows == writer.count > 0


def test_no_documents_give_one_file_without_rows(tmp_path: Path) -> None:
    assert write_documents([], tmp_path) == 0
    assert digests(tmp_path).keys() == {"data/part-00000.parquet"}
    assert sum(batch.num_rows for batch in read_documents(tmp_path)) == 0


def test_a_row_group_ends_at_its_bytes(make_change: MakeChange, tmp_path: Path) -> None:
    big = "x" * (BYTES_PER_GROUP // 2) + "\n"
    found = [
        render(make_change(None, f"{i}{big}", language="make"), ["v2_simple"]).documents[0]
        for i in range(4)
    ]
    write_documents(found, tmp_path)
    file = pa.parquet.ParquetFile(tmp_path / "data/part-00000.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [2, 2]


def test_columns_can_be_chosen(make_change: MakeChange, tmp_path: Path) -> None:
    write_documents(documents(make_change, count=2), tmp_path)
    (batch,) = read_documents(tmp_path, ["text", "lineage"])
    assert batch.schema.names == ["text", "lineage"]


def test_an_error_in_the_middle_leaves_no_file_open(
    make_change: MakeChange, tmp_path: Path
) -> None:
    def failing() -> Iterator[Document]:
        yield documents(make_change, count=1)[0]
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_documents(failing(), tmp_path)


def test_a_folder_without_documents_is_named(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, check=fields(name=tmp_path)):
        list(documents_in(tmp_path))
