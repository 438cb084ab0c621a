"""Published artefacts as typed views, for the command line, reports and pages.

rows.py        a packed row; documents.py a document with its tokens; line_selection.py which, by line_filter.py
origins.py     repository, commit, path and licence of documents, and the artefacts that one was made from
lineage.py     rows of a step down to commits, and the steps that read something, by the SQL macros
runs.py        reports of runs; losses.py documents lost at each stage; checkpoint_weights.py names and shapes
pieces.py      text cut by structure; context_tree.py a context document as a tree
formats.py     numbers as text
"""
