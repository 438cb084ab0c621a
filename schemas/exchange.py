"""Record beside tokens that were written for other tools, so that they come back as they were."""

from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from schemas.arrow import list_of, required
from schemas.document import SCHEMA_VERSION
from schemas.json_text import Versioned
from schemas.packed_row import LONGEST_ROW, PACKED_ROW_SCHEMA
from schemas.structure import ROW_CHUNK_TYPE, STRUCTURE_EDGE_TYPE

RECORD_NAME = "export.json"
BESIDE_NAME = "rows.parquet"
Made = Literal["rows", "mixtures", "tokens"]
TokenFormat = Literal["megatron", "flat"]


class ExportRecord(Versioned):
    """export.json: of what tokens were written, and what must lie beside it."""

    format: TokenFormat
    stage: Made
    """Stage of the artefact that was written."""
    key: str
    content: str
    labels: dict[str, str]
    vocab_size: int
    pad_id: int
    bos_id: int | None
    eos_id: int | None
    dtype: Literal["uint16", "uint32", "int32"]
    """Dtype of the ids, as numpy names it."""
    tokens: int
    documents: int
    rows: int | None
    """None where no rows are kept: documents that aren't packed."""
    row_lengths: tuple[Annotated[int, Field(ge=1, le=LONGEST_ROW)], ...]
    steps: int | None = None
    """Steps of a mixture: the whole steps of its budget, all of which are written."""
    columns: tuple[Annotated[str, Field(pattern=r"^[a-z_]{1,50}$")], ...]
    """A value a token, each in `<column>.bin` as uint8."""
    files: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$")], int]
    """Bytes of every file."""


BESIDE_SCHEMA = pa.schema(
    [
        required("row_length", pa.int32()),
        *(
            PACKED_ROW_SCHEMA.field(name)
            for name in (
                *("pack_id", "valid_token_count", "num_docs", "family", "objective", "variant"),
                *("domain", "split", "document_ids", "pieces"),
            )
        ),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""rows.parquet: one row a packed row, in the order of the tokens; which are whose follows from the counts."""
BESIDE_STRUCTURE = (
    required("chunk_boundaries", list_of(ROW_CHUNK_TYPE)),
    required("call_edges", list_of(STRUCTURE_EDGE_TYPE)),
    required("type_edges", list_of(STRUCTURE_EDGE_TYPE)),
)
"""Columns beside these where rows have structure."""
