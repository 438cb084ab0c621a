"""Interactive pages; each module is a marimo app with one page."""
