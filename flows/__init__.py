"""Prefect flows and the command line, with the same verbs as the curriculum package."""
