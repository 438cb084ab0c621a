from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curriculum.tokens.codec import BYTE_OF, Tokenizer
from curriculum.tokens.token_store import TokenStore, tokenize_documents
from schemas.document import DOCUMENT_SCHEMA, TOKEN_PARTS_SCHEMA, document_id
from schemas.errors import SchemaError, TokenizerError

Parts = Sequence[str]


def write(path: Path, documents: Sequence[Parts], num_bytes: int | None = None) -> Path:
    rows = []
    for parts in documents:
        text, borders = "".join(parts), np.cumsum([0, *(len(part.encode()) for part in parts)])
        rows.append(
            {
                "document_id": document_id("v2_simple", text),
                "content_id": document_id("", text),
                "text": text,
                "family": "v2_simple",
                "language": "cpp",
                "timestamp": 0,
                "num_bytes": len(text.encode()) if num_bytes is None else num_bytes,
                "parts": [
                    {"kind": "code", "start": int(start), "end": int(end), "rank": 0,
                     "elidable": False, "source": -1}
                    for start, end in pairwise(borders)
                ],
                "spans": [], "provenance": [], "lineage": "r:p",
            }
        )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA), path)
    return path


TEXT = st.text(st.sampled_from("ab \n{}é漢"), max_size=12)
DOCUMENTS = st.lists(st.lists(TEXT, max_size=4), max_size=6)


@pytest.mark.parametrize("name", ["trained", "without_bos"])
@given(documents=DOCUMENTS)
def test_each_part_is_encoded_on_its_own_and_framed(
    documents: list[list[str]],
    name: str,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    folder = tmp_path_factory.mktemp("tokens")
    report = tokenize_documents(
        [write(folder / "part-00000.parquet", documents)], tokenizer, folder
    )
    store = TokenStore.open(folder)
    assert len(store) == len(documents) == report.documents
    assert int(store.offsets[-1]) == len(store.ids) == report.tokens
    lengths = store.part_lengths()
    for row, parts in enumerate(documents):
        expected = [tokenizer.encode(part).tolist() for part in parts]
        lead = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
        trail = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
        assert store.tokens(row).tolist() == [*lead, *chain(*expected), *trail]
        found = [store.ids[start:end].tolist() for start, end in store.part_ranges(row)]
        assert found == expected
        assert lengths.take(len(parts)).tolist() == [len(part) for part in expected]
    assert len(lengths.take(1)) == 0


def test_documents_keep_their_row_numbers_over_files_and_batches(
    trained: Tokenizer, tmp_path: Path
) -> None:
    documents = [[f"int x{row};\n", "y\n"] for row in range(300)]
    files = [
        write(tmp_path / "part-00000.parquet", documents[:170]),
        write(tmp_path / "part-00001.parquet", documents[170:]),
    ]
    tokenize_documents(files, trained, tmp_path)
    store = TokenStore.open(tmp_path)
    assert [trained.decode_bytes(store.tokens(row).tolist()).decode() for row in range(300)] == [
        "".join(parts) for parts in documents
    ]
    parts = pq.read_table(tmp_path / "parts.parquet")
    assert parts.schema.equals(TOKEN_PARTS_SCHEMA)
    assert parts.column("document").to_pylist() == [row for row in range(300) for _ in range(2)]
    assert parts.column("part").to_pylist() == [0, 1] * 300


def test_ids_take_four_bytes_from_65536_ids_on(foreign_tokenizer: object, tmp_path: Path) -> None:
    assert callable(foreign_tokenizer)
    for last, name in ((65_534, "uint16"), (65_535, "uint32")):
        model = {"type": "BPE", "vocab": {**BYTE_OF, "<|eos|>": last}, "merges": []}
        tokenizer = Tokenizer.parse(foreign_tokenizer(("<|eos|>", last, True), model=model))
        folder = tmp_path / name
        folder.mkdir()
        tokenize_documents([write(folder / "d.parquet", [["ab"], ["c"]])], tokenizer, folder)
        store = TokenStore.open(folder)
        assert store.ids.dtype.name == name
        assert store.ids.tolist() == [97, 98, last, 99, last]


def test_the_same_documents_give_the_same_bytes(trained: Tokenizer, tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        tokenize_documents([write(folder / "d.parquet", [["int\n", "x"]])], trained, folder)
        found.append(
            [
                (folder / file).read_bytes()
                for file in ("tokens.bin", "offsets.bin", "parts.parquet")
            ]
        )
    assert found[0] == found[1]


def test_parts_that_do_not_tile_the_text_are_refused(trained: Tokenizer, tmp_path: Path) -> None:
    path = write(tmp_path / "d.parquet", [["int x;\n"]], num_bytes=9)
    with pytest.raises(SchemaError, match="cover"):
        tokenize_documents([path], trained, tmp_path)


def test_ids_that_lose_bytes_are_refused(trained: Tokenizer, tmp_path: Path) -> None:
    class Forgetful:
        def __getattr__(self, name: str) -> object:
            if name == "encode_batch":
                return lambda texts: (np.zeros(0, np.int32), np.zeros(len(texts) + 1, np.int64))
            return getattr(trained, name)

    path = write(tmp_path / "d.parquet", [["int x;\n"]])
    with pytest.raises(TokenizerError, match="exactly"):
        tokenize_documents([path], Forgetful(), tmp_path)  # type: ignore[arg-type]
