"""Formats of other tools, both ways: ids, boundaries and masks come back byte for byte.

row_order.py        rows as they lie, or a mixture's in training order
tokens_out.py       documents end to end with all else beside them: Megatron's files and index, flat files
trainer_rows.py     labels, positions and lengths for Hugging Face's trainers, and documents one by one
dataset_export.py   both as Parquet with the tokenizer and a dataset card
trainer_lines.py    lines of the card that train on them
huggingface.py      dataset cards, and the card of a workspace as it lies

eos_boundaries.py   boundaries that nobody stored, taken from EOS where that is asked for
foreign_parquet.py  packed rows in Parquet files of others, with limits and checks
packed_columns.py   labels, lengths, edges and positions of their rows, read as ours
token_files.py      .bin files with boundaries, ours and others'
tokens_in.py        the same as the rows that they were, or packed into new ones
publish.py          rows of others completed with the columns that they lack, checked and published
"""
