"""Packing: documents into rows of fixed length, on disk and back, and the contract that they keep.

boundaries.py   where documents begin in rows: one convention in several views
best_fit.py     which documents share a row
chop.py         documents end to end, cut every T tokens: to compare with
packed_rows.py  rows as arrays, as they are stored or derived
spool.py        encodings and their structure on their way into rows, in flat files
row_writer.py   a plan and spooled documents become rows in Parquet
read.py         rows of shards in order or at random, of thousands of files with few descriptors
row_check.py    rows against the contract: the table in rules.py
repeats.py      what stands verbatim earlier in its own document
"""
