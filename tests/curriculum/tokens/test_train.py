import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from curriculum.tokens.codec import Roles, Tokenizer
from curriculum.tokens.train import (
    CONTROLS,
    given_config,
    sample_texts,
    train_tokenizer,
    write_tokenizer,
)
from schemas.document import DOCUMENT_SCHEMA
from schemas.errors import TokenizerError

PROGRAM = """
import hashlib, json, sys
from curriculum.tokens.train import train_tokenizer
print(hashlib.sha256(train_tokenizer(json.load(sys.stdin), vocab_size=350)).hexdigest())
"""


def test_the_same_texts_give_the_same_bytes_whatever_order_threads_and_process(
    texts: list[str],
) -> None:
    here = hashlib.sha256(train_tokenizer(iter(texts), vocab_size=350)).hexdigest()
    shuffled = list(texts)
    random.Random(1).shuffle(shuffled)
    assert hashlib.sha256(train_tokenizer(shuffled, vocab_size=350)).hexdigest() == here
    for threads in ("1", "4"):
        there = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(texts),
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        assert there.stdout.strip() == here


def test_a_small_corpus_gives_fewer_ids_than_asked_for(texts: list[str]) -> None:
    tokenizer = Tokenizer.parse(train_tokenizer(texts, vocab_size=30_000).decode())
    assert 266 < tokenizer.vocab_size < 1000


def test_no_text_at_all_gives_a_tokenizer_of_bytes() -> None:
    tokenizer = Tokenizer.parse(train_tokenizer([], vocab_size=300).decode())
    assert tokenizer.vocab_size == 256 + len(CONTROLS)
    assert len(tokenizer.encode("é")) == 2


def test_a_vocabulary_without_room_for_the_bytes_is_refused() -> None:
    with pytest.raises(TokenizerError, match="vocab_size: 200"):
        train_tokenizer([], vocab_size=200)


def _documents(path: Path, texts: list[str]) -> list[str]:
    ids = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts]
    rows = [
        {
            "document_id": document_id, "content_id": document_id, "text": text,
            "family": "v2_simple", "language": "cpp", "timestamp": 0,
            "num_bytes": len(text.encode()), "parts": [], "spans": [],
            "provenance": [], "lineage": "r:p",
        }
        for document_id, text in zip(ids, texts, strict=True)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA), path)
    return ids


def test_a_sample_is_what_has_the_smallest_ids_and_fits(tmp_path: Path) -> None:
    texts = [f"{index:04}" for index in range(300)]
    ids = _documents(tmp_path / "a.parquet", texts[:200]) + _documents(
        tmp_path / "b.parquet", texts[200:]
    )
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    chosen = list(sample_texts(files, sample_bytes=401))
    by_id = sorted(zip(ids, texts, strict=True))
    assert set(chosen) == {text for _, text in by_id[:100]}
    assert chosen == sorted(chosen)
    assert list(sample_texts(files)) == texts
    assert list(sample_texts(files, sample_bytes=3)) == []
    assert list(sample_texts(files, keep=frozenset())) == []
    kept = {document_id for document_id, _ in by_id[50:]}
    assert set(sample_texts(files, sample_bytes=400, keep=kept)) == {t for _, t in by_id[50:150]}


def test_the_artefact_says_what_a_trainer_needs(trained: Tokenizer, tmp_path: Path) -> None:
    report = write_tokenizer(trained, tmp_path)
    assert Tokenizer.load(tmp_path / "tokenizer.json").sha256 == trained.sha256
    table = pq.read_table(tmp_path / "token_bytes.parquet")
    assert table.column("id").to_pylist() == list(range(trained.vocab_size))
    assert table.column("num_bytes").to_pylist() == trained.token_bytes.tolist()
    assert table.column("special").to_pylist() == trained.special.tolist()
    assert report.vocab_size == trained.vocab_size
    assert (report.bos_id, report.eos_id, report.pad_id) == (0, 1, 2)


def test_a_given_tokenizer_is_another_if_its_roles_are(trained: Tokenizer) -> None:
    other = Tokenizer.parse(trained.json, Roles(document_tokens="eos"))
    assert given_config(trained) != given_config(other)
    assert given_config(trained) == given_config(Tokenizer.parse(trained.json, name="elsewhere"))
