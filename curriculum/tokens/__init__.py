"""Tokens: from text to ids and back to bytes.

train.py        trains a tokenizer.json on a corpus
codec.py        loads a tokenizer.json as a Tokenizer that preserves every byte
encoding.py     a document as tokens, with the byte range of each token
turns.py        ids that mark the turns of a conversation; chat_template.py gets them from chat templates
token_store.py  turns a documents artefact into tokens.bin, offsets.bin, parts.parquet
"""
