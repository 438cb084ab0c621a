"""Render functions of the document families, which schemas/families.py lists.

v2.py                 a file before and after a commit
v3.py                 a commit's change of a file, then the whole file
v4_context_graph.py   functions that a commit touched, with their neighbours in a graph
v5_clang_graph.py     the same, in a compiler frontend's graph
v6_enriched.py        the structure of another family's documents
chat.py               a conversation, one part per turn

render.py             renders a change for several families; returns documents and counts
document_builder.py   builds documents: parts, spans, sources, headers and hunks of a change
context_documents.py  builds context documents: targets and the code around them
cmake_targets.py      context documents of build targets
document_check.py     invariants of documents
document_writer.py    documents on disk
"""
