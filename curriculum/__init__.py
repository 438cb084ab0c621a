"""A library that makes each artefact from the one before, with no orchestrator in sight."""
