"""`curriculum inspect` in the terminal, as JSON or as a page, over the views of curriculum.inspection."""
