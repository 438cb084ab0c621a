"""Training of a tokenizer.json: a byte-level BPE; the same texts give a file with the same bytes."""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers
from pydantic import JsonValue
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Model

from curriculum import parquet
from curriculum.tokens.codec import BYTE_OF, NAMES, NO_ENGINE, Tokenizer
from curriculum.tokens.word_patterns import LLAMA_3
from schemas.document import required
from schemas.errors import TokenizerError
from schemas.reports import TokenizerReport

REVISION = 2
TOOLS = {"tokenizers": tokenizers.__version__}
"""Versions that the result of training depends on: the library's trainer breaks ties."""
SAMPLE_BYTES = 64_000_000
"""Size of the sample: enough for 32k merges of code; more text changes few merges and costs minutes."""

CONTROLS = tuple(names[0] for names in NAMES.values())
"""Control tokens of a trained tokenizer, with ids 0, 1, 2, … in this order."""

WORDS = LLAMA_3
"""Pattern that splits text into words; merges never cross the border of a word.

A newline ends a word. So every line starts at a token border, and a long document can be divided between
lines. fastokens has compiled code for this pattern.
"""

TOKEN_BYTES_SCHEMA = pa.schema(
    [required("id", pa.int32()), required("num_bytes", pa.int32()), required("special", pa.bool_())]
)
"""Schema of token_bytes.parquet, from which a trainer computes bits per byte."""


def train_tokenizer(texts: Iterable[str], *, vocab_size: int) -> bytes:
    """Train a tokenizer.json with at most `vocab_size` ids: control tokens, 256 bytes, then merges.

    Too little text gives fewer ids. The result depends neither on the number of threads nor on the order of
    texts. Memory grows with the number of distinct words, not with the length of the text.
    """
    least = len(CONTROLS) + len(BYTE_OF)
    if vocab_size < least:
        raise TokenizerError(
            "vocab_size", vocab_size, cause=f"{least} ids are control tokens and bytes",
            cure=f"Choose at least {least}",
        )  # fmt: skip
    words = pre_tokenizers.Split(Regex(WORDS), "isolated")
    model = Model(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=sorted(BYTE_OF),
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in CONTROLS],
    )
    model.train_from_iterator(texts, trainer)
    return model.to_str().encode()


def trained_config(*, vocab_size: int, sample_bytes: int = SAMPLE_BYTES) -> dict[str, JsonValue]:
    """Return the settings that enter the key of a tokenizer that is trained here.

    The key also depends on the documents and on TOOLS.
    """
    return {"vocab_size": vocab_size, "sample_bytes": sample_bytes}


def given_config(tokenizer: Tokenizer) -> dict[str, JsonValue]:
    """Return the settings that enter the key of a tokenizer given by the user.

    These are the file, its roles, and its chat template if any.
    """
    template = tokenizer.chat_template
    own: dict[str, JsonValue] = {} if template is None else {"chat_template": template.sha256}
    if tokenizer.engine == NO_ENGINE:
        own["encodes"] = False
    return {"tokenizer_json": tokenizer.sha256, **own, **asdict(tokenizer.roles)}


def sample_texts(
    files: Sequence[Path], *, sample_bytes: int = SAMPLE_BYTES, keep: Collection[str] | None = None
) -> Iterator[str]:
    """Yield a sample of the documents' texts, in file order, of up to `sample_bytes`.

    The sample consists of the documents with the smallest ids. An id is a digest, so the sample is fair, and
    a document stays in the sample when the corpus shrinks. Takes about 40 bytes of memory per document.
    """
    cutoff = _cutoff(files, sample_bytes, keep)
    for path in files:
        for batch in parquet.File(path).iter_batches(256, columns=["document_id", "text"]):
            texts = batch.column("text")
            for row, document_id in enumerate(_strings(batch.column("document_id"))):
                if _rank(document_id) <= cutoff and (keep is None or document_id in keep):
                    yield str(texts[row])


def _strings(column: "pa.Array[Any]") -> list[str]:
    strings: list[str] = column.to_numpy(zero_copy_only=False).tolist()
    return strings


def _rank(document_id: str) -> int:
    return int(document_id[:15], 16)


def _cutoff(files: Sequence[Path], sample_bytes: int, keep: Collection[str] | None) -> int:
    """Return the largest rank of a document in the sample; -1 if no document fits `sample_bytes`."""
    ranks, sizes = array("q"), array("q")
    for path in files:
        for batch in parquet.File(path).iter_batches(columns=["document_id", "num_bytes"]):
            numbers = batch.column(1).to_numpy()
            for row, document_id in enumerate(_strings(batch.column(0))):
                if keep is None or document_id in keep:
                    ranks.append(_rank(document_id))
                    sizes.append(int(numbers[row]))
    order = np.argsort(np.frombuffer(ranks, dtype=np.int64), kind="stable")
    fits = np.cumsum(np.frombuffer(sizes, dtype=np.int64)[order]) <= sample_bytes
    return ranks[order[int(fits.sum()) - 1]] if fits.any() else -1


def token_bytes_table(tokenizer: Tokenizer) -> pa.Table:
    """Return the table of token_bytes.parquet."""
    return pa.table(
        {
            "id": np.arange(tokenizer.vocab_size, dtype=np.int32),
            "num_bytes": tokenizer.token_bytes,
            "special": tokenizer.special,
        },
        schema=TOKEN_BYTES_SCHEMA,
    )


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> TokenizerReport:
    """Write the tokenizer's files and token_bytes.parquet into `folder`; return the manifest's report."""
    tokenizer.write(folder)
    pq.write_table(token_bytes_table(tokenizer), folder / "token_bytes.parquet")
    return TokenizerReport(
        vocab_size=tokenizer.vocab_size,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        pad_id=tokenizer.pad_id,
        document_tokens=tokenizer.document_tokens,
        engine=tokenizer.engine,
        engine_reason=tokenizer.engine_reason,
    )
