"""Published artefacts as typed views, for the command line, reports and pages.

rows.py packed_rows.py   packed rows with their documents
documents.py             documents with their tokens and facts; origins.py where they came from
line_selection.py        the chosen lines of an artefact
lineage.py               rows of a step down to commits, and the steps that read something, by the SQL macros
runs.py comparison.py    reports of runs, side by side; losses.py excluded documents by stage
token_counts.py          tokens by document and origin, and differences
checkpoint_weights.py    names and shapes of a checkpoint
context_tree.py          a context document as a tree, and text cut by structure
stage_tables.py document_tables.py   results of stages as tables; formats.py numbers and times as text
"""
