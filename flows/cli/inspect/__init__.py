"""`curriculum inspect`: the views of curriculum.inspection, printed in the terminal, as JSON or as a page."""
