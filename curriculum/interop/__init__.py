"""Import from and export to formats of other tools; ids, boundaries and masks survive a round trip unchanged.

row_order.py        rows in stored order, or rows of a mixture in training order
tokens_out.py       export of documents end to end with their columns: Megatron or flat .bin files
trainer_rows.py     labels, positions and lengths for Hugging Face trainers, and single documents
dataset_export.py   export of rows or single documents as Parquet, with tokenizer and dataset card
trainer_lines.py    example code on the card that trains on the data
huggingface.py      dataset cards, including the card of a workspace

eos_boundaries.py   boundaries inferred from EOS on request, if they aren't stored
foreign_parquet.py  packed rows in foreign Parquet files, with limits and checks
packed_columns.py   labels, lengths, edges and positions of foreign rows, converted to our columns
token_files.py      .bin files with boundaries, ours and foreign
tokens_in.py        import of .bin files: their original rows are restored, or their documents are packed
publish.py          foreign rows completed with missing columns, checked and published
"""
