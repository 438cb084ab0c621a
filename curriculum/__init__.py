"""What makes each artefact from the one before, as plain functions with no orchestrator in sight."""
