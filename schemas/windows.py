"""Windows of tokens: the unit in which distinct training tokens are counted.

The window of a scored position is its target token with the WINDOW_TOKENS - 1 tokens before it in its
document. Near the start of a document, missing tokens are replaced by a symbol that no tokenizer has. Two
positions show the same token in the same context if their windows are equal. So the number of distinct
tokens in some rows is the number of their different windows.
"""

import math

import pyarrow as pa

from schemas.document import SCHEMA_VERSION, required

WINDOW_TOKENS = 16
"""Number of tokens in a window. Shorter windows would only be idioms: `for (size_t i = 0; i < n; i++) {`
has as many tokens.
"""
WINDOW_SEED = 0x9E3779B97F4A7C15
MAX_SAMPLED = 1_000_000
"""Maximum number of windows to keep per artefact. If there are more, a sample by hash is kept."""
WINDOWS_NAME = "windows.pq"
WINDOWS_SCHEMA = pa.schema(
    [
        required("pack_id", pa.string()),
        required("hash", pa.uint64()),
        required("halvings", pa.int32()),
    ],
    metadata={"schema_version": SCHEMA_VERSION},
)
"""windows.pq: the different windows of each row of a rows artefact, as 64-bit hashes.

Lines are sorted by packed row, then by hash. Only windows with a hash below 2^(64 - halvings) are kept;
`halvings` is the same in all lines of a file. To merge artefacts, use the lowest of their limits, and
drop all hashes that aren't below it.
"""


def standard_error(kept: int, halvings: int) -> float:
    """Return the standard error of `kept << halvings`, which estimates the number of distinct tokens.

    Each window is kept with probability p = 2^-halvings, so `kept` is binomial.

    >>> standard_error(1000, 0), standard_error(10_000, 2)
    (0.0, 346.41016151377545)
    """
    return float(1 << halvings) * math.sqrt(kept * (1 - 2.0**-halvings))
