"""The pinned repositories: reading their history, and choosing what of it is kept."""
