"""A file of a published artefact is read as it was published or not at all, whichever reader opens it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.exceptions import ComputeError

from curriculum import frames, parquet, published_files
from curriculum.catalog.answer import matching
from curriculum.packing.held_out_order import ORDER_NAME, read_order
from curriculum.published_files import leaving_whole_files, require_published
from curriculum.store import Recipe, StagingDirectory, Store
from curriculum.tokens.token_store import TokenStore
from schemas.errors import CatalogError, StoreError
from schemas.held_out import HeldOutRows

LINES = 300


def publish(home: Path, fill: Callable[[Path], object]) -> Path:
    """The folder of an artefact with what `fill` writes."""
    recipe = Recipe(stage="documents", labels=(("family", "v2_simple"),), revision=1)

    def make(drafts: list[StagingDirectory]) -> None:
        fill(drafts[0].path)

    (made,) = Store(home).produce([recipe], make)  # type: ignore[arg-type]
    return made.path


def table() -> pa.Table:
    numbers = np.arange(LINES)
    texts = [f"text {number % 7}" for number in numbers]
    return pa.table({"step": numbers, "text": texts, "flag": numbers % 2 == 0})


def flipped(file: Path, places: int) -> Iterator[int]:
    """Change one bit of a file at a time, at places that are spread over it."""
    sound = file.read_bytes()
    for at in np.linspace(0, len(sound) - 1, places, dtype=int).tolist():
        content = bytearray(sound)
        content[at] ^= 1 << at % 8
        file.write_bytes(content)
        yield at
    file.write_bytes(sound)


def _plain(made: object) -> object:
    if isinstance(made, pa.Table):
        return made.to_pydict()
    return made.to_dict(as_series=False) if hasattr(made, "to_dict") else made


READERS: dict[str, Callable[[Path], object]] = {
    "table": lambda file: parquet.read_table(file),
    "filtered table": lambda file: parquet.read_table(file, ["text"], filters=[("step", ">=", 0)]),
    "group": lambda file: parquet.File(file).read_row_group(0),
    "batches": lambda file: pa.Table.from_batches(list(parquet.File(file).iter_batches())),
    "frame": frames.read,
    "scan": lambda file: frames.scan(file, ["step", "text"]).collect(),
    "condition": lambda file: matching([file], "text = 'text 3' AND step > 0"),
}


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize("name", READERS)
def test_no_reader_of_parquet_gives_another_value_than_the_published_one(
    tmp_path: Path, name: str, has_checksums: bool
) -> None:
    folder = publish(
        tmp_path,
        lambda draft: pq.write_table(
            table(), draft / "part-00000.parquet", write_page_checksum=has_checksums
        ),
    )
    file = folder / "part-00000.parquet"
    sound = _plain(READERS[name](file))
    refusals: list[Exception] = []
    for at in flipped(file, 120):
        try:
            found = _plain(READERS[name](file))
        except (StoreError, CatalogError, ComputeError) as refusal:
            refusals.append(refusal)
        else:
            assert found == sound, at
    named = [each for each in refusals if isinstance(each, StoreError) and each.name == str(file)]
    # Of the headers of pages a field that only other readers know may be broken: those refuse it.
    assert len(named) >= len(refusals) - 2
    assert len(named) > 60
    assert _plain(READERS[name](file)) == sound


def test_tokens_and_the_order_of_held_out_rows_are_the_published_ones(tmp_path: Path) -> None:
    def fill(draft: Path) -> None:
        (draft / "tokens.bin").write_bytes(np.arange(9, dtype=np.uint16).tobytes())
        (draft / "offsets.bin").write_bytes(np.array([0, 4, 9], dtype=np.int64).tobytes())
        (draft / ORDER_NAME).write_text(HeldOutRows(rows=()).model_dump_json())

    folder = publish(tmp_path, fill)
    for name, read in (
        ("tokens.bin", TokenStore.open),
        ("offsets.bin", TokenStore.open),
        (ORDER_NAME, read_order),
    ):
        read(folder)
        for _ in flipped(folder / name, 5):
            with pytest.raises(StoreError, match=name):
                read(folder)
        read(folder)


def test_a_file_is_compared_once_as_long_as_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = publish(tmp_path, lambda draft: (draft / "a.json").write_text("{}"))
    hashed: list[Path] = []
    plain = published_files.sha256_of

    def counted(file: Path) -> str:
        hashed.append(file)
        return plain(file)

    monkeypatch.setattr(published_files, "sha256_of", counted)
    require_published(folder / "a.json")
    assert hashed == [], "it was hashed as it was published"
    (folder / "a.json").write_text("{}")
    for _ in range(3):
        require_published(folder / "a.json")
    assert hashed == [folder / "a.json"]
    (folder / "a.json").write_text("[]")
    with leaving_whole_files():
        require_published(folder / "a.json")
    with pytest.raises(StoreError):
        require_published(folder / "a.json")


def test_what_no_manifest_records_passes(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    require_published(tmp_path / "a.json")
    require_published(tmp_path / "0123456789ab" / "a.json")
