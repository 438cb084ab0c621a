"""Formats of other tools, both ways: ids, boundaries and masks come back byte for byte.

row_order.py        rows as they lie, or a mixture's in training order
tokens_out.py       documents end to end with all else beside them: Megatron's files, flat files
huggingface.py      Parquet with a card; card.py is the dataset card, also of a workspace as it lies
megatron.py         Megatron-LM's index

foreign_parquet.py  Parquet files of others: limits and checks
token_files.py      .bin files with boundaries, ours and others'
tokens_in.py        the same as the rows that they were; documents_in.py packed anew
derive_columns.py   columns that a file lacks, derived or filled in, and named
publish.py          rows of others read, checked and published
"""
