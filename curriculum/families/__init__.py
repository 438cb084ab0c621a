"""How documents are made: one file a family."""
