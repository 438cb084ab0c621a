"""The interactive pages: one marimo app a page."""
