"""Source repositories: reading their history and selecting documents."""
