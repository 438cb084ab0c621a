"""Pages of packed rows: some rows of one artefact, each document down to its commit, token by token.

tokens.py   the text of a row cut into its tokens, packed small
draw.py     strips and the attention mask, in time and size by documents, not by tokens
table.py    the documents: a line each, and each one's text with its origin
page.py     the whole page; write.py puts it beside the reports
"""
