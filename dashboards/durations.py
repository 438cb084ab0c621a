"""Definition of the two durations of a run, training time and elapsed time, that pages show."""

DEFINITION = (
    "Training time covers the training steps only. Elapsed time runs from the start of a run to its end and "
    "includes start-up and evaluation."
)
"""Explanation beside every table that shows one of the two durations."""
