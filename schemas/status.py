"""Status of the phases of a workspace, a line a phase: the columns of current/status.parquet."""

import pyarrow as pa

STATUS_NAME = "status.parquet"
"""The file's name in the folder current."""
DIGEST = b"computed_from"
"""The entry of the schema's metadata that holds the digest of what a status was computed from."""
_TEXT: pa.DataType = pa.string()
_NUMBER: pa.DataType = pa.int64()
STATUS_SCHEMA = pa.schema(
    [
        pa.field("specialist", _TEXT, nullable=False),
        pa.field("branch", _TEXT),
        pa.field("phase", _TEXT, nullable=False),
        pa.field("state", _TEXT, nullable=False),
        pa.field("why", _TEXT, nullable=False),
        pa.field("key", _TEXT),
        pa.field("attempt", _NUMBER),
        pa.field("path", _TEXT),
    ]
)
"""key, attempt and path are those of the run that a state is about; null where there is none."""
