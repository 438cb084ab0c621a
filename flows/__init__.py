"""Prefect flows and the command line, which mirror curriculum verb for verb: when, where and how often."""
