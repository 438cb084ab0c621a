"""`curriculum inspect`: views of curriculum.inspection in the terminal, as JSON or as a page."""
