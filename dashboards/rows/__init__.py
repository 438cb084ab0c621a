"""Pages that show some packed rows of an artefact token by token, with the commit of each document.

row_page.py renders a page; write.py writes it into a folder beside the reports.
"""
