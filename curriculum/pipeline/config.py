"""Options of the command line that are named otherwise than the fields they fill."""

NAMES = {"continue_run": ["--continue"], "repositories": ["--repo"]}
"""Options by field."""
