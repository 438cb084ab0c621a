"""Pages of packed rows: some rows of one artefact, each document down to its commit, token by token.

row_page.py makes a page; write.py puts it beside the reports.
"""
