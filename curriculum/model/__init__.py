"""The model: one file a layer family, and the masks that keep documents apart."""
