"""Processes of `curriculum serve`: a Prefect server, workers and pages."""
