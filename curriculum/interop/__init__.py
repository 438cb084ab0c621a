"""Formats of other tools, both ways: ids, boundaries and masks come back byte for byte.

row_order.py        rows as they lie, or a mixture's in training order
tokens_out.py       documents end to end with all else beside them: Megatron's files and index, flat files
huggingface.py      Parquet with a dataset card, and the card of a workspace as it lies

foreign_parquet.py  Parquet files of others: limits and checks
token_files.py      .bin files with boundaries, ours and others'
tokens_in.py        the same as the rows that they were, or packed into new ones
derive_columns.py   columns that a file lacks, derived or filled in, and named
publish.py          rows of others read, checked and published
"""
