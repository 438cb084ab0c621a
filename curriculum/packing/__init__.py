"""Packing: documents into rows of fixed length, on disk and back, and the contract that they keep.

boundaries.py  where documents begin in a row: one convention in several views
best_fit.py    which documents share a row
layout.py      documents in rows as arrays; variable-length columns; targets
spool.py       encodings and their structure on their way into rows
write.py       a plan and spooled documents become rows in Parquet
read.py        rows as numpy views; footers.py thousands of files with few descriptors
check.py       rows against the contract: rules.py, document_rules.py, violations.py
repeats.py     what stands verbatim earlier in its own document
"""
