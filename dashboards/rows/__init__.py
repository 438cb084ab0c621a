"""Packed rows as a page: some rows of one artefact, each document down to its commit, token by token.

read.py     rows and where their documents came from, out of Parquet
tokens.py   the text of a row, how it falls into tokens, what is said of each, packed small
draw.py     strips and the attention mask, in time and size by documents, not by tokens
table.py    the documents: a line each, and each one's text with where it came from
page.py     all of it as one page that needs nothing else; write.py puts it beside the reports
"""
