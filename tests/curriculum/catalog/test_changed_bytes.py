"""A byte that changed in a column that views read is found before an answer is made of it."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.catalog import parquet_files, publish, query
from curriculum.page_checksums import pages_fault
from curriculum.store import Artefact, Recipe, StagingDirectory, Store
from schemas.document import DOCUMENT_SCHEMA
from schemas.packed_row import PACKED_ROW_SCHEMA, TOKEN_COLUMNS
from tests.curriculum.catalog.test_catalog import _document, _row
from tests.factories import shard_path

NUM_ROWS = 40


def _rows() -> pa.Table:
    rows = [{**_row(f"pack-{number:04}"), "num_docs": number} for number in range(NUM_ROWS)]
    return pa.Table.from_pylist(rows, schema=PACKED_ROW_SCHEMA)


def _documents() -> pa.Table:
    documents = [{**_document(f"{number}"), "licence": "Apache-2.0"} for number in range(NUM_ROWS)]
    return pa.Table.from_pylist(documents, schema=DOCUMENT_SCHEMA)


def _write(table: pa.Table, file: Path) -> None:
    pq.write_table(table, file, compression="zstd", write_page_checksum=True, row_group_size=16)


def _publish(home: Path, stage: str, table: pa.Table) -> Artefact:
    recipe = Recipe(stage=stage, labels=(("family", "v2_simple"),), revision=1)

    def fill(drafts: list[StagingDirectory]) -> None:
        _write(table, shard_path(drafts[0].path))

    (made,) = Store(home).produce([recipe], fill)  # type: ignore[arg-type]
    Store(home).mark(f"{stage}-all", [made])
    return made


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with packed rows and documents."""
    home = tmp_path / "home"
    _publish(home, "rows", _rows())
    _publish(home, "documents", _documents())
    return home


def _file(home: Path, stage: str) -> Path:
    (file,) = home.glob(f"{stage}/**/part-00000.parquet")
    return file


def _span(file: Path, column: str, group: int = 1) -> range:
    """The bytes of a column in a row group, headers included."""
    parts = pq.read_metadata(file).row_group(group)
    chunk = next(
        chunk
        for chunk in map(parts.column, range(parts.num_columns))
        if chunk.path_in_schema.partition(".")[0] == column
    )
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return range(start, start + chunk.total_compressed_size)


def _flip(file: Path, at: int, bit: int = 3) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << bit
    file.write_bytes(content)


PLACES = {
    "a licence": ("documents", "licence"),
    "a text": ("documents", "text"),
    "a provenance": ("documents", "provenance"),
    "a number": ("rows", "num_docs"),
    "the pieces": ("rows", "pieces"),
    "the ids of documents": ("rows", "document_ids"),
}


@pytest.mark.parametrize("name", PLACES)
def test_one_bit_in_a_column_is_a_problem_and_no_answer(home: Path, name: str) -> None:
    stage, column = PLACES[name]
    whole = query(home, f"FROM {stage} ORDER BY ALL").rows
    assert len(whole) == NUM_ROWS
    file = _file(home, stage)
    before = file.read_bytes()
    span = _span(file, column)
    for at in (span[0], span[-8], span[-1]):
        _flip(file, at)
        answer = query(home, f"FROM {stage} ORDER BY ALL")
        assert answer.rows == []
        (notice,) = answer.notices
        assert file.relative_to(home).as_posix() in notice
        file.write_bytes(before)
    answer = query(home, f"FROM {stage} ORDER BY ALL")
    assert (answer.rows, answer.notices) == (whole, ())


def test_a_footer_that_can_be_read_and_is_another_is_a_problem(home: Path) -> None:
    file = _file(home, "rows")
    table = pq.read_table(file)
    named = table.set_column(7, table.schema.field(7), pa.array([9] * NUM_ROWS, pa.int32()))
    size = file.stat().st_size
    _write(named, file)
    if file.stat().st_size < size:
        file.write_bytes(file.read_bytes() + bytes(size - file.stat().st_size))
    answer = query(home, "SELECT count(*) FROM rows")
    assert answer.rows == [(0,)]
    assert len(answer.notices) == 1


def test_token_lists_are_left_to_check(home: Path) -> None:
    file = _file(home, "rows")
    _flip(file, _span(file, "input_ids")[-1])
    assert query(home, "SELECT count(*) FROM rows").rows == [(NUM_ROWS,)]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages of the files that are compared with what was published, one after another."""
    seen: list[str] = []

    def watched(compare: Callable[..., str | None]) -> Callable[..., str | None]:
        def comparing(file: Path, *given: object) -> str | None:
            seen.append(file.relative_to(file.parents[4]).parts[0])
            return compare(file, *given)

        return comparing

    for name in ("sha256_of", "pages_fault"):
        monkeypatch.setattr(parquet_files, name, watched(getattr(parquet_files, name)))
    return seen


def test_a_file_is_compared_once_as_long_as_it_is_the_same(home: Path, compared: list[str]) -> None:
    publish(home)
    assert compared == [], "a build waits for no comparison"
    for _ in range(3):
        query(home, "SELECT 1")
    assert sorted(compared) == ["documents", "rows"]
    file = _file(home, "documents")
    file.write_bytes(file.read_bytes())
    query(home, "SELECT 1")
    assert sorted(compared) == ["documents", "documents", "rows"]


def test_every_changed_byte_of_the_compared_pages_is_found_or_harmless(tmp_path: Path) -> None:
    file, changed = tmp_path / "whole.parquet", tmp_path / "changed.parquet"
    _write(_rows(), file)
    wanted = [name for name in PACKED_ROW_SCHEMA.names if name not in TOKEN_COLUMNS]
    whole = pq.read_table(file, columns=wanted)
    assert pages_fault(file, TOKEN_COLUMNS) is None
    found = 0
    spans = [_span(file, name, group) for name in wanted for group in (0, 2)]
    places = [at for span in spans for at in span][::7]
    for at in places:
        changed.write_bytes(file.read_bytes())
        _flip(changed, at, at % 8)
        if _fault(changed) is None:
            assert _as_read(changed, wanted) in (whole, None), at
        else:
            found += 1
    # The rest lies in headers: their own statistics, which no reader of ours looks at.
    assert found > 0.7 * len(places)


def _fault(file: Path) -> str | None:
    """The fault that is found; a file whose first page seems to have no checksum is compared whole."""
    try:
        return pages_fault(file, TOKEN_COLUMNS)
    except LookupError as without:
        return str(without)


def _as_read(file: Path, columns: list[str]) -> pa.Table | None:
    try:
        return pq.read_table(file, columns=columns)
    except (OSError, pa.ArrowException):
        return None


def test_a_page_without_a_checksum_is_said(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(_rows(), file)
    with pytest.raises(LookupError, match="checksum"):
        pages_fault(file, TOKEN_COLUMNS)
