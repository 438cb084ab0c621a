"""Contracts between stages: schemas of artefacts, configuration files and errors."""
