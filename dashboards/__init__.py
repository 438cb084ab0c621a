"""Pages that read artefacts, never the code."""
