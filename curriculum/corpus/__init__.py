"""Source repositories of a corpus: reading their history and selecting documents."""
