"""How a document becomes tokens and targets: one file an objective."""
