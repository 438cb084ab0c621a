"""Tokenizers of finished rows: bytes and control tokens of their ids, and no text is encoded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from curriculum.foreign_tokenizers import load_finished
from curriculum.stages.tokens import load_tokenizer
from curriculum.store import Store
from curriculum.tokens.codec import BYTE_OF, NO_ENGINE, Roles, Tokenizer
from curriculum.tokens.tokenizer_texts import TokenizerTexts
from flows.cli import app
from schemas.errors import TokenizerError

CONTROLS = ("<unk>", "<s>", "</s>")
PIECES = (*CONTROLS, "<0x0A>", "▁int", "main", "é")
BYTES = [b"", b"", b"", b"\n", b" int", b"main", "é".encode()]


def content_of(model: dict[str, Any], **parts: Any) -> str:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": number, "content": text, "special": True, **flags}
        for number, text in enumerate(CONTROLS)
    ]
    content = {"version": "1.0", "added_tokens": added, "normalizer": None, "decoder": None}
    return json.dumps({**content, "pre_tokenizer": None, **parts, "model": model})


def by_pieces() -> str:
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    vocab = {piece: number for number, piece in enumerate(PIECES)}
    model = {"type": "BPE", "vocab": vocab, "merges": [], "byte_fallback": True}
    return content_of(model, pre_tokenizer=metaspace)


def by_scores() -> str:
    vocab = [[piece, -1.0] for piece in PIECES]
    return content_of({"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": True})


def normalized() -> str:
    """Byte-level pieces, as Qwen's, behind a normalizer that alters text."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    vocab = {text: number for number, text in enumerate((*CONTROLS, *BYTE_OF))}
    model = {"type": "BPE", "vocab": vocab, "merges": []}
    parts = {"pre_tokenizer": {**byte_level, "use_regex": True}, "normalizer": {"type": "NFC"}}
    return content_of(model, **parts)


@pytest.mark.parametrize("text", [by_pieces(), by_scores()])
def test_pieces_of_sentencepiece_have_the_bytes_that_they_stand_for(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(text)
    found = load_finished(TokenizerTexts.read(file), Roles())
    assert (found.engine, found.bos_id, found.eos_id) == (NO_ENGINE, 1, 2)
    assert [found.decode_bytes([token]) for token in range(len(PIECES))] == BYTES
    assert found.token_bytes.tolist() == [len(text) for text in BYTES]
    assert found.decode([1, 4, 5, 2]) == "<s> intmain</s>"
    with pytest.raises(TokenizerError, match="finished"):
        found.encode("int main")


def test_a_tokenizer_that_keeps_bytes_is_loaded_with_its_engine(
    foreign_tokenizer: Any, tmp_path: Path
) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(foreign_tokenizer(("<|eos|>", 256, True)))
    assert (
        load_finished(TokenizerTexts.read(file), Roles()).engine
        == Tokenizer.load(file).engine
        == "fastokens"
    )


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        content_of({"type": "WordPiece", "vocab": {"[UNK]": 0, "##a": 1}}),
        content_of({"type": "BPE", "vocab": {"a": 0, "b": 9}, "merges": []}),
        content_of({"type": "Unigram", "vocab": [["a", -1.0], ["a", -1.0]]}),
    ],
)
def test_what_does_not_say_what_its_ids_stand_for_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(text)
    with pytest.raises(TokenizerError):
        load_finished(TokenizerTexts.read(file), Roles())


@pytest.mark.parametrize("text", [by_pieces, by_scores, normalized])
def test_finished_rows_are_imported_with_a_tokenizer_that_encodes_nothing(
    tmp_path: Path, text: Callable[[], str]
) -> None:
    row = {"input_ids": [4] * 128, "labels": [-100, *[4] * 127], "seq_lengths": [100, 28]}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    (tmp_path / "tokenizer.json").write_text(text())
    home = tmp_path / "home"
    words = ["--document-tokens", "none", "--family", "mine", "--home", str(home)]
    done = CliRunner().invoke(app, ["import", str(tmp_path / "rows.parquet"), *words])
    assert done.exit_code == 0, done.output
    assert "encode" in done.output
    store = Store(home)
    (tokenizer,), (rows,) = store.artefacts("tokenizers"), store.artefacts("rows")
    assert pq.read_table(rows.shards(), partitioning=None)["doc_starts"].to_pylist() == [[0, 100]]
    assert load_tokenizer(tokenizer).engine == NO_ENGINE
    told = CliRunner().invoke(app, ["inspect", "rows", "--home", str(home)])
    assert told.exit_code == 0, told.output
