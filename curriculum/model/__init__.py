"""The model: one file per layer family, and the masks that keep packed documents separate."""
