"""The mixture plan: the rows that a diet selects, in training order."""

import pyarrow as pa

from schemas.arrow import required
from schemas.document import SCHEMA_VERSION

PLAN_SCHEMA = pa.schema(
    [
        required("position", pa.int64()),
        required("slot", pa.int64()),
        required("serving", pa.int32()),
        required("stratum", pa.int32()),
        required("row_length", pa.int32()),
        required("rows_key", pa.string()),
        required("shard", pa.int32()),
        required("row", pa.int32()),
        required("pack_id", pa.string()),
        required("repetition", pa.int32()),
        required("valid_tokens", pa.int32()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""plan.parquet: one row a packed row, by position. A slot is S tokens of one stratum and one row length,
S the phase's largest; `rows_key` is the full key of a rows artefact, `shard` the number of its file,
`row` the row inside that file."""

BLOCK_SLOTS = 1024
"""In each run of so many slots every stratum has its exact count, ± 1."""
