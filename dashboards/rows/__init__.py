"""Pages of packed rows: some rows of one artefact, each document down to its commit, token by token.

draw.py     strips and the attention mask, in time and size by documents, not by tokens
table.py    the documents: a line each, each one's text with its origin, cut into tokens
page.py     the whole page; write.py puts it beside the reports
"""
