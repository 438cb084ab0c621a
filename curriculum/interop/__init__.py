"""Other tools' formats, both ways: ids, boundaries and masks come back byte for byte.

order.py         rows as they lie, or a mixture's in training order
stage.py         … which are decoded once and taken from there
tokens_out.py    … as documents end to end with all else beside them: Megatron's files, flat files
huggingface.py   … as Parquet with a card
card.py          dataset cards, also of a workspace as it lies
folder.py        a folder that appears whole or not at all
megatron.py      Megatron-LM's index

parquet_in.py    packed rows of others
token_files.py   .bin files with boundaries, ours and others'
tokens_in.py     … as the rows that they were
documents_in.py  … or packed anew
complete.py      what rows don't store is derived or filled in, and named
publish.py       checked, published
"""
