"""Render functions of the document families, which schemas/families.py lists.

v2.py                 a file before and after a commit
v3.py                 a commit's change of a file, then the whole file
v4_context_graph.py   functions that a commit touched, among their neighbours in a graph
v5_clang_graph.py     the same in a compiler frontend's graph
v6_enriched.py        the structure of another family's documents
chat.py               a conversation, a part a turn

render.py             a change and names of families in, documents and counts out
document_builder.py   a document in the making; facts and hunks of a change in comments
context_documents.py  text of context documents: targets and what they stand among
cmake_targets.py      context documents of build targets
document_check.py     invariants of documents
document_writer.py    documents on disk
"""
