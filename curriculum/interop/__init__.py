"""Formats of other tools, both ways: ids, boundaries and masks come back byte for byte.

row_order.py        rows as they lie, or a mixture's in training order
decoded_rows.py     rows decoded once, for access in any order
tokens_out.py       documents end to end with all else beside them: Megatron's files, flat files
huggingface.py      Parquet with a card; card.py is the dataset card, also of a workspace as it lies
folder.py           a folder that appears whole or not at all
megatron.py         Megatron-LM's index

parquet_in.py       packed rows of others; foreign_parquet.py checks their columns, limits.py their sizes
token_files.py      .bin files with boundaries, ours and others'
tokens_in.py        the same as the rows that they were; documents_in.py packed anew
derive_columns.py   columns that a file lacks, derived or filled in, and named
publish.py          the rows checked and published
"""
