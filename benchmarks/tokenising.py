"""Throughput of tokenizers in MB per CPU second, compared with other engines.

    python benchmarks/tokenising.py [--folder HEADERS] [--rounds 5] [--vocab-size 32768]

All engines use the same vocabulary, which is trained on every second file. The other files are divided
between the rounds, so that no engine has seen the texts of a round before. The order of the engines rotates
from round to round. Figures are medians of the rounds.
"""

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gigatoken
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tiktoken
import tokenizers

from curriculum.tokens.codec import BYTE_OF, Tokenizer
from curriculum.tokens.token_store import BATCH_DOCUMENTS, tokenize_documents
from curriculum.tokens.train import WORDS, train_tokenizer
from schemas.document import DOCUMENT_SCHEMA, document_id

Encode = Callable[[list[str]], list[np.ndarray[Any, Any]]]


def read(folder: Path) -> list[str]:
    """Read C and C++ files, in an order that separates files with similar names."""
    paths = sorted((*folder.rglob("*.h"), *folder.rglob("*.cc"), *folder.rglob("*.cpp")))
    order = np.random.default_rng(20261121).permutation(len(paths))
    texts = [paths[index].read_text(errors="ignore") for index in order]
    return [text for text in texts if 100 < len(text) < 1_000_000]


def our_engine(tokenizer: Tokenizer) -> Encode:
    def encode(texts: list[str]) -> list[np.ndarray[Any, Any]]:
        found: list[np.ndarray[Any, Any]] = []
        for first in range(0, len(texts), BATCH_DOCUMENTS):
            ids, offsets = tokenizer.encode_batch(texts[first : first + BATCH_DOCUMENTS])
            found += np.split(ids, offsets[1:-1])
        return found

    return encode


def hugging_face_engine(tokenizer: Tokenizer) -> Encode:
    model = tokenizers.Tokenizer.from_str(tokenizer.json)
    model.encode_special_tokens = True

    def encode(texts: list[str]) -> list[np.ndarray[Any, Any]]:
        found = model.encode_batch_fast(texts, add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in found]

    return encode


def gigatoken_engine(tokenizer: Tokenizer) -> Encode:
    engine = gigatoken.Tokenizer.from_json(tokenizer.json)

    def encode(texts: list[str]) -> list[np.ndarray[Any, Any]]:
        found: list[np.ndarray[Any, Any]] = []
        for first in range(0, len(texts), BATCH_DOCUMENTS):
            layout = engine.encode_batch(texts[first : first + BATCH_DOCUMENTS]).layout
            found += np.split(layout.content.data, layout.offsets.data[1:-1])
        return found

    return encode


def tiktoken_engines(tokenizer: Tokenizer) -> dict[str, Encode]:
    vocab = json.loads(tokenizer.json)["model"]["vocab"]
    ranks = {
        bytes(map(BYTE_OF.__getitem__, text)): token
        for text, token in vocab.items()
        if not tokenizer.special[token]
    }
    encoding = tiktoken.Encoding("ours", pat_str=WORDS, mergeable_ranks=ranks, special_tokens={})
    nothing: set[str] = set()

    def lists(texts: list[str]) -> list[np.ndarray[Any, Any]]:
        return [np.array(encoding.encode_ordinary(text), dtype=np.int32) for text in texts]

    def arrays(texts: list[str]) -> list[np.ndarray[Any, Any]]:
        return [encoding.encode_to_numpy(text, disallowed_special=nothing) for text in texts]

    return {"tiktoken encode_ordinary": lists, "tiktoken encode_to_numpy": arrays}


def measure(engines: dict[str, Encode], unseen: list[str], rounds: int) -> dict[str, list[float]]:
    """Return MB per CPU second by engine and round; also print how often ids differ."""
    rates: dict[str, list[float]] = {name: [] for name in engines}
    differing = dict.fromkeys(engines, 0)
    names = list(engines)
    for turn in range(rounds):
        texts = unseen[turn::rounds]
        size = sum(len(text.encode()) for text in texts) / 1e6
        found = {}
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            begin = time.process_time()
            found[name] = engines[name](texts)
            rates[name].append(size / (time.process_time() - begin))
        for name in names:
            pairs = zip(found[name], found["tokenizers"], strict=True)
            differing[name] += sum(not np.array_equal(ids, expected) for ids, expected in pairs)
    for name in names:
        print(f"{name:<26} differs from tokenizers on {differing[name]} of {len(unseen)} files")
    return rates


def end_to_end(tokenizer: Tokenizer, texts: list[str]) -> float:
    """Return MB per CPU second from documents in Parquet to tokens.bin, with one part per document."""
    part = {"kind": "code", "start": 0, "rank": 0, "elidable": False, "source": -1}
    rows = [
        {
            "document_id": document_id("v2_simple", text), "content_id": document_id("", text),
            "text": text, "family": "v2_simple",
            "language": "cpp", "timestamp": 0, "num_bytes": len(text.encode()),
            "parts": [{**part, "end": len(text.encode())}],
            "spans": [], "provenance": [], "lineage": "r:p",
        }
        for text in texts
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part-00000.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA), path)
        begin = time.process_time()
        report = tokenize_documents([path], tokenizer, Path(folder))
        seconds = time.process_time() - begin
    return report.num_bytes / seconds / 1e6


def headers() -> Path:
    found = importlib.util.find_spec("torch")
    assert found, "torch is not installed; give --folder"
    assert found.origin
    return Path(found.origin).parent / "include"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=None, help="C and C++ files; by default torch's headers"
    )
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds")
    parser.add_argument("--vocab-size", type=int, default=32_768, help="size of the vocabulary")
    arguments = parser.parse_args()
    texts = read(arguments.folder or headers())
    begin = time.perf_counter()
    trained = train_tokenizer(texts[::2], vocab_size=arguments.vocab_size)
    seconds = time.perf_counter() - begin
    tokenizer, unseen = Tokenizer.parse(trained.decode()), texts[1::2]
    size = sum(len(text.encode()) for text in unseen) / 1e6
    print(f"{tokenizer.vocab_size} ids, trained in {seconds:.1f} s; engine {tokenizer.engine}")
    print(f"{len(unseen)} unseen files, {size:.1f} MB, {arguments.rounds} rounds")
    engines = {
        "ours": our_engine(tokenizer),
        "tokenizers": hugging_face_engine(tokenizer),
        "gigatoken": gigatoken_engine(tokenizer),
        **tiktoken_engines(tokenizer),
    }
    rates = measure(engines, unseen, arguments.rounds)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        spread = f"{min(values):.1f} … {max(values):.1f}"
        print(f"{name:<26} {medians[name]:6.1f} MB per CPU second ({spread})")
    peer = max(rate for name, rate in medians.items() if name.startswith("tiktoken"))
    print(f"ours / tiktoken  {medians['ours'] / peer:.2f}   (target: at least 8)")
    print(f"ours / gigatoken {medians['ours'] / medians['gigatoken']:.2f}   (target: at least 0.9)")
    print(f"ours / tokenizers {medians['ours'] / medians['tokenizers']:.2f}")
    print(f"Parquet to tokens.bin: {end_to_end(tokenizer, unseen):.1f} MB per CPU second")


if __name__ == "__main__":
    main()
