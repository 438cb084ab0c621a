"""Exit codes of a training process."""

FAILED = 1
CANCELLED = 75
"""Asked to stop; a checkpoint stands, and the same command goes on."""
