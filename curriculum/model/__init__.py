"""The model: one file per layer family, and the masks that keep documents in a packed row separate."""
