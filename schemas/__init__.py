"""Contracts between the stages: the form of every artefact, and the errors that name what broke it."""
