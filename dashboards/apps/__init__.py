"""Interactive pages, one marimo app each."""
