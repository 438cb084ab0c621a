"""Tokens: from text to ids and back to bytes.

train.py        a corpus becomes tokenizer.json
codec.py        tokenizer.json becomes a Tokenizer that keeps every byte
encoding.py     a document as tokens, with the bytes of each
turns.py        marks around the turns of a conversation; chat_template.py has those of others' templates
token_store.py  a documents artefact becomes tokens.bin, offsets.bin, parts.parquet
"""
