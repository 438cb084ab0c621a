"""Pages of packed rows: some rows of an artefact, token by token, with the commit of each document.

row_page.py renders a page; write.py writes it beside the reports.
"""
