"""Processes of `curriculum serve`: a server, workers, pages; each is watched and ended."""
