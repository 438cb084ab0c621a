"""Processes that `curriculum serve` starts: a Prefect server, its workers, and a server of pages."""
