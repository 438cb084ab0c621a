"""The packed row: T tokens of documents, then padding; the data format of all training.

One Parquet row is one packed row of exactly T tokens, where T is a multiple of 128. The format is the same
for base training, validation and fine-tuning. `curriculum check` verifies the invariants listed in README.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from schemas.document import SCHEMA_VERSION, list_of, required

ROW_MULTIPLE = 128
MAX_ROW_LENGTH = 1 << 20
"""Maximum row length in tokens."""
TEXT_PIECE, GENERATED_PIECE = 0, 1
"""Kinds of a piece: tokens that encode bytes of the document, and generated tokens (BOS, EOS, sentinels,
elision lines). The byte_start of a generated piece equals its byte_end.
"""
HISTOGRAM_EDGES = (1024, 4096, 16384)
"""Edges of the bins of context_histogram, which counts scored tokens by the number of tokens before them in
their document.
"""
COMPARED_INPUT = "compared: "
"""Prefix of the names of those inputs of validation rows that only say which text is also trained on."""
FAR_CONTEXT = 65_536
"""Minimum number of context tokens of those tokens that manifests of longer rows count separately."""


PIECE_TYPE = pa.struct(
    [
        required("doc", pa.int32()),
        required("kind", pa.int32()),
        required("token_start", pa.int32()),
        required("token_end", pa.int32()),
        required("byte_start", pa.int32()),
        required("byte_end", pa.int32()),
    ]
)

PACKED_ROW_SCHEMA = pa.schema(
    [
        required("pack_id", pa.string()),
        required("input_ids", list_of(pa.int32())),
        required("target_ids", list_of(pa.int32())),
        required("loss_mask", list_of(pa.uint8())),
        required("doc_ids", list_of(pa.int32())),
        required("doc_starts", list_of(pa.int32())),
        required("valid_token_count", pa.int32()),
        required("num_docs", pa.int32()),
        required("loss_token_count", pa.int32()),
        required("attention_pairs", pa.int64()),
        required("context_histogram", list_of(pa.int32())),
        required("family", pa.string()),
        required("objective", pa.string()),
        required("variant", pa.int32()),
        required("domain", pa.string()),
        required("split", pa.string()),
        required("document_ids", list_of(pa.string())),
        required("pieces", list_of(PIECE_TYPE)),
    ]
)
"""Schema of a flat row. A corpus with `store_targets: false` omits target_ids; readers derive it."""

RUNTIME_COLUMNS = ("input_ids", "target_ids", "loss_mask")
TOKEN_COLUMNS = ("input_ids", "target_ids", "loss_mask", "doc_ids")
"""Columns with T values per row."""

Packer = Literal["best_fit", "chop"]
"""Ways to fill rows. best_fit: whole documents, as many as fit. chop: documents in a sequence that is cut
every T tokens.
"""

Need = Literal["runtime", "recommended", "stored"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """Meaning of a column, and where it is required. README's table is made from it."""

    name: str
    need: Need
    meaning: str


COLUMNS: tuple[Column, ...] = (
    Column(name="pack_id", need="stored", meaning="`<rows key12>-<index, 10 digits>`"),
    Column(name="input_ids", need="runtime", meaning="token ids; padding holds pad_id"),
    Column(
        name="target_ids",
        need="runtime",
        meaning="input_ids shifted left by one; pad_id wherever loss_mask is 0",
    ),
    Column(
        name="loss_mask",
        need="runtime",
        meaning="1: the prediction of target_ids[t] from input_ids[≤t] counts",
    ),
    Column(
        name="doc_ids",
        need="recommended",
        meaning="0, 1, 2 … non-decreasing; padding is its own last segment with id num_docs",
    ),
    Column(name="doc_starts", need="stored", meaning="the boundaries; doc_starts[0] = 0"),
    Column(name="valid_token_count", need="recommended", meaning="tokens that aren't padding"),
    Column(
        name="num_docs",
        need="recommended",
        meaning="documents in the row; a divided document counts in each row it stands in",
    ),
    Column(name="loss_token_count", need="stored", meaning="sum of loss_mask"),
    Column(
        name="attention_pairs",
        need="stored",
        meaning="Σ len·(len+1)/2 over documents: what masked attention computes",
    ),
    Column(
        name="context_histogram",
        need="stored",
        meaning="scored tokens with < 1k, 1–4k, 4–16k, > 16k tokens of their document before them",
    ),
    Column(name="family", need="stored", meaning="how the documents were made"),
    Column(name="objective", need="stored", meaning="how documents became tokens and targets"),
    Column(name="variant", need="stored", meaning="one of several renderings of an objective"),
    Column(name="domain", need="stored", meaning="what the documents are about"),
    Column(name="split", need="stored", meaning="train or val"),
    Column(name="document_ids", need="stored", meaning="one per document"),
    Column(
        name="pieces",
        need="stored",
        meaning="which bytes of document_ids[doc] which tokens encode; they tile the valid tokens",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFormat:
    """Format that all rows of a data set share. It is stored in the metadata of every shard."""

    row_length: int
    vocab_size: int
    pad_id: int
    bos_id: int | None
    eos_id: int | None

    def metadata(self) -> dict[str, str]:
        """Return the Parquet key-value metadata that `from_metadata` reads."""
        return {
            "schema_version": SCHEMA_VERSION,
            "row_length": str(self.row_length),
            "vocab_size": str(self.vocab_size),
            "pad_id": str(self.pad_id),
            "bos_id": "" if self.bos_id is None else str(self.bos_id),
            "eos_id": "" if self.eos_id is None else str(self.eos_id),
        }

    @staticmethod
    def from_metadata(metadata: dict[bytes, bytes]) -> "RowFormat":
        """Return the format stored by `metadata`.

        Raises:
            KeyError: if a key is missing.
            ValueError: if a value isn't a number.
        """
        bos_id, eos_id = metadata[b"bos_id"], metadata[b"eos_id"]
        return RowFormat(
            row_length=int(metadata[b"row_length"]),
            vocab_size=int(metadata[b"vocab_size"]),
            pad_id=int(metadata[b"pad_id"]),
            bos_id=int(bos_id) if bos_id else None,
            eos_id=int(eos_id) if eos_id else None,
        )

    @property
    def bos_marks_documents(self) -> bool:
        """True if BOS occurs exactly at document starts; False if PAD == BOS."""
        return self.bos_id is not None and self.bos_id != self.pad_id


def unusual_options(labels: Mapping[str, str]) -> str:
    """Return the options of rows that aren't defaults, given the labels of their artefact; "" if none.

    >>> unusual_options({"family": "v4_context_graph", "score": "all", "beside": "v5_clang_graph"})
    'score all, beside v5_clang_graph'
    """
    said = [labels["packer"]] if "packer" in labels else []
    said += [f"{name} {labels[name]}" for name in ("score", "beside") if name in labels]
    return ", ".join(said)
