"""Render functions of the document families, which schemas/families.py lists.

v2.py  v3.py            a file before and after a commit; a commit's change, then the whole file
v4_context_graph.py  v5_clang_graph.py
                        functions that a commit touched, among their neighbours in a graph
v6_enriched.py          the structure of another family's documents, with edges between its chunks
chat.py                 a conversation, a part a turn

render.py               a change and names of families in, documents and counts out
document_builder.py     a document in the making: comment headers, hunks as removed and added lines
context_graph.py  context.py
                        context documents: their targets and neighbourhood, their text
cmake_targets.py        context documents of build targets
check.py                invariants of documents
write.py                documents on disk
"""
