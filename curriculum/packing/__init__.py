"""Packing of documents into rows of fixed length; storage and reading of rows; the contract that rows obey.

boundaries.py      positions of documents in rows: one layout and its derived arrays
best_fit.py        planner: which documents share a row
chop.py            planner that concatenates documents and cuts every T tokens, for comparison
held_out_order.py  order in which validation rows are measured
packed_rows.py     rows as arrays, stored or derived
spool.py           flat files of encoded documents, between encoding and packing
row_writer.py      writes a plan's rows to Parquet
read.py            reads rows in order or at random from thousands of files
row_check.py       checks rows against the contract
rules.py           the rules of the contract
repeats.py         finds tokens that repeat earlier tokens of their document
windows.py         hashes windows of tokens, to count distinct training targets
"""
