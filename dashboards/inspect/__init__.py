"""Pages of `curriculum inspect`: a document with its structure, chunk by chunk."""
